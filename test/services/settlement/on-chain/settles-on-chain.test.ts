import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Hex, toFunctionSelector } from 'viem'
import { hostileCollateralAbi } from '#contracts/artifacts/test/HostileCollateral.abi.ts'
import { type Contract, ours } from '#devnet/artifact.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import { permitValueMin } from '#domain/order-permit.ts'
import { KILL_POINTS } from '../../../crash/settlement-crash.ts'
import { openTestChain, type TestChain } from '../../../support/chain.ts'
import { randomFrom } from '../../../support/random.ts'
import { permitsOf, type SettlementWorld, startWorld, type WorldOptions } from './chain-fixture.ts'

/** Timeout for answers of a slow RPC. */
const PATIENCE_MS = 150

/** All tests use one chain. Each test has its own market thread, log and database. */
let chain: TestChain
before(async () => {
  chain = await openTestChain({ seed: true })
})
after(() => chain.close())

const inWorld =
  (body: (world: SettlementWorld) => Promise<void>, options: WorldOptions = {}) =>
  async () => {
    const world = await startWorld(chain, options)
    try {
      await body(world)
      await world.until('every trade is decided', world.allDecided)
      await world.agree()
    } finally {
      await world.close()
    }
  }

const batchesOf = ({ said }: SettlementWorld): number =>
  said.filter(({ type }) => type === 'BatchSent').length

const failures = ({ said }: SettlementWorld) =>
  said.flatMap((each) =>
    each.type === 'TradeEnded' && each.status === 'failed'
      ? [{ fault: each.fault, wastedGas: each.wastedGas }]
      : [],
  )

/** Revokes an account's allowance just before the node receives the transaction with the account's trade. */
function revokesBeforeItIsSent(world: SettlementWorld, index: number): void {
  world.proxy.before = async (method) => {
    if (method !== 'eth_sendRawTransaction') return
    world.proxy.before = undefined
    const { settlement } = chain.contracts
    await chain.chain.send(chain.chain.account(index), chain.collateral, 'approve', [
      settlement,
      0n,
    ])
  }
}

describe('settlement sends trades to the chain', () => {
  const settled = (world: SettlementWorld): Promise<number> =>
    world.trades().then((all) => all.filter(({ status }) => status === 'confirmed').length)

  it(
    'matched trades settle in one transaction, and their markets are notified',
    inWorld(async (world) => {
      await world.place({ by: 10, side: SELL, size: 3 })
      await world.place({ by: 11, size: 1 })
      await world.place({ by: 12, size: 2 })
      await world.until('both confirmed', world.allDecided)
      const [first, second] = await world.trades()
      assert.equal(first?.status, 'confirmed')
      assert.equal(first?.txHash, second?.txHash)
      assert.equal(first?.attempts, 1)
      await world.agree()
      const row = await world.transactionByHash(first?.txHash ?? '')
      assert.equal(row?.state, 'succeeded')
      assert(world.said.some((each) => each.type === 'BatchSent' && each.trades === 2))
    }),
  )

  it(
    'a trade has the status submitted until its transaction has enough confirmations',
    inWorld(
      async (world) => {
        await world.trade()
        await world.until('it is sent', () => world.state.flight.batches.size === 1)
        await world.step()
        assert.deepEqual(await world.statuses(), ['submitted'])
        await chain.mine(1)
        await world.step()
        assert.deepEqual(await world.statuses(), ['submitted'])
        await chain.mine(1)
        await world.until('it is confirmed', world.allDecided)
        assert.deepEqual(await world.statuses(), ['confirmed'])
        await world.agree()
      },
      { confirmations: 2 },
    ),
  )

  it(
    'settlement submits the permit of an order in the transaction that settles the order’s trade',
    inWorld(async (world) => {
      const [permit] = await permitsOf(chain, 5, [1_000_000n])
      await world.place({ by: 10, side: SELL })
      await world.place({ by: 5, permit: permit! })
      await world.until('it is confirmed', world.allDecided)
      assert.deepEqual(await world.statuses(), ['confirmed'])
      await world.agree()
    }),
  )

  it(
    'if one buyer has two permits for exact amounts in a batch, each permit covers its own order',
    inWorld(async (world) => {
      // The order with the second permit gets the first and the last fill. The order with the first permit gets the
      // fills in between.
      const [first, second] = await permitsOf(chain, 5, [1_400_000n, 1_200_000n])
      await world.place({ by: 5, size: 2, price: 0.6, permit: second! })
      await world.place({ by: 10, side: SELL, size: 1, price: 0.6 })
      await world.place({ by: 5, size: 2, price: 0.7, permit: first! })
      await world.place({ by: 10, side: SELL, size: 1, price: 0.5 })
      await world.place({ by: 10, side: SELL, size: 1, price: 0.5 })
      await world.place({ by: 10, side: SELL, size: 1, price: 0.5 })
      await world.until('all are decided', world.allDecided)
      assert.deepEqual(await world.statuses(), Array(4).fill('confirmed'))
      await world.agree()
    }),
  )

  it(
    'a permit for the smallest allowed amount covers its order even if every fill is rounded up',
    inWorld(async (world) => {
      const terms = { price: 0.333_333, size: 0.000_004 }
      const order = { side: BUY, price: 333_333 as Price, size: 4 as Shares } as const
      const [permit] = await permitsOf(chain, 5, [permitValueMin(order)])
      for (let maker = 10; maker < 14; maker++) {
        await world.place({ ...terms, by: maker, side: SELL, size: 0.000_001 })
      }
      await world.place({ ...terms, by: 5, permit: permit! })
      await world.until('all are decided', world.allDecided)
      // The order costs four units, because the cost of each of its four fills is rounded up to one unit. Price × size
      // of the whole order would be only two units.
      assert.deepEqual(await world.statuses(), Array(4).fill('confirmed'))
      await world.agree()
    }),
  )

  it(
    'if a buyer cannot pay, the trade fails, the buyer’s orders end and the seller gets the quantity back',
    inWorld(async (world) => {
      // Account 4 has nothing: no collateral, no allowance.
      await world.place({ by: 10, side: SELL, size: 2 })
      await world.place({ by: 4, size: 1 })
      await world.place({ by: 4, size: 5, price: 0.1 })
      await world.place({ by: 11, size: 1 })
      await world.trade({ seller: 12, buyer: 13, price: 0.7 })
      await world.until('all are decided', world.allDecided)
      const all = await world.trades()
      const failed = all.filter(({ status }) => status === 'failed')
      assert.deepEqual(
        failed.map(({ reason, txHash, attempts }) => [reason, txHash, attempts]),
        [['InsufficientCollateral', '', 0]],
        'without a transaction',
      )
      assert.equal(await settled(world), 2)
      await world.agree()
      const [, book] = [0, world.host.thread.markets.get(world.marketId)?.state.books[0]]
      assert.equal(book?.ordersOf(toAddress(chain.chain.account(4).address)).length, 0)
      const [back] = book?.ordersOf(toAddress(chain.chain.account(10).address)) ?? []
      assert.equal(back?.remaining, 1_000_000)
      assert.deepEqual(failures(world), [{ fault: 'buyer', wastedGas: 0 }])
    }),
  )

  it(
    'a trade whose buyer revokes the allowance after the simulation fails on chain',
    inWorld(async (world) => {
      const buyer = chain.chain.account(6)
      await chain.fund(buyer, { collateral: 1_000_000n })
      await world.trade({ buyer: 6 })
      await world.trade({ seller: 12, buyer: 13 })
      revokesBeforeItIsSent(world, 6)
      await world.until('both are decided', world.allDecided)
      const [, trade] = await world.trades()
      assert.deepEqual([trade?.status, trade?.reason], ['failed', 'InsufficientAllowance'])
      assert.match(trade?.txHash ?? '', /^0x/)
      assert.equal(await settled(world), 1)
      const [failure] = failures(world)
      assert(failure !== undefined && failure.wastedGas > 50_000, JSON.stringify(failure))
    }),
  )

  it(
    'after a trade fails for lack of shares, the buyer’s next order still settles with its own permit',
    inWorld(async (world) => {
      // Account 4 has no shares, so the first trade fails. The chain accepts permits only in the order of their nonces.
      // So the first permit must still be submitted, before the second.
      const [first, second, third] = await permitsOf(chain, 5, [500_000n, 500_000n, 500_000n])
      await world.place({ by: 4, side: SELL })
      await world.place({ by: 5, permit: first! })
      await world.place({ by: 10, side: SELL, price: 0.4 })
      await world.place({ by: 5, price: 0.4, permit: second! })
      await world.until('both are decided', world.allDecided)
      assert.deepEqual(await world.statuses(), ['failed', 'confirmed'])
      // The buyer's first order has returned to the book, and matches the new sell of account 4. The buyer's order with
      // the third permit trades afterwards.
      await world.place({ by: 4, side: SELL })
      await world.until('all are decided', world.allDecided)
      await world.place({ by: 10, side: SELL, price: 0.3 })
      await world.place({ by: 5, price: 0.3, permit: third! })
      await world.until('all are decided', world.allDecided)
      assert.deepEqual(await world.statuses(), ['failed', 'confirmed', 'failed', 'confirmed'])
    }),
  )

  it(
    'trades of twenty wallets without funds fail in one simulation, without a transaction',
    inWorld(async (world) => {
      await world.place({ by: 10, side: SELL, size: 20 })
      for (let wallet = 30; wallet < 50; wallet++) await world.place({ by: wallet })
      await world.until('all are decided', world.allDecided)
      assert.deepEqual(await world.statuses(), Array(20).fill('failed'))
      assert.equal(batchesOf(world), 0)
      assert(failures(world).every(({ fault, wastedGas }) => fault === 'buyer' && wastedGas === 0))
    }),
  )

  it(
    'if a buyer cannot pay, the seller’s quantity matches further buyers until one of them can pay',
    inWorld(async (world) => {
      await world.place({ by: 10, side: SELL })
      // Accounts 30 to 32 have nothing; account 11 has money and an allowance.
      for (const by of [30, 31, 32, 11]) await world.place({ by })
      await world.until('all are decided', world.allDecided)
      const newestFirst = (await world.trades()).map(({ buyer, status }) => [buyer, status])
      const expected = [
        [11, 'confirmed'],
        [32, 'failed'],
        [31, 'failed'],
        [30, 'failed'],
      ] as const
      assert.deepEqual(
        newestFirst,
        expected.map(([by, status]) => [toAddress(chain.chain.account(by).address), status]),
      )
      assert.equal(batchesOf(world), 1)
    }),
  )

  it(
    'an order settles with its permit although an earlier permit of its trader was never sent',
    inWorld(async (world) => {
      const [first, second] = await permitsOf(chain, 5, [500_000n, 500_000n])
      await world.place({ by: 4, side: SELL })
      await world.place({ by: 5, permit: first! })
      await world.until('it is decided', world.allDecided)
      assert.equal(batchesOf(world), 0)
      await world.place({ by: 10, side: SELL, price: 0.4 })
      await world.place({ by: 5, price: 0.4, permit: second! })
      await world.until('both are decided', world.allDecided)
      assert.deepEqual(await world.statuses(), ['failed', 'confirmed'])
    }),
  )

  it(
    'a trader can sell shares from a purchase whose transaction is not mined yet',
    inWorld(async (world) => {
      const reseller = chain.chain.account(6)
      await chain.fund(reseller, { collateral: 1_000_000n })
      await chain.automine(false)
      await world.trade({ buyer: 6 })
      await world.until('it is sent', () => batchesOf(world) === 1)
      await world.trade({ seller: 6, buyer: 13, price: 0.6 })
      for (let steps = 0; steps < 3; steps++) await world.step()
      assert.deepEqual(await world.statuses(), ['submitted', 'matched'])
      await chain.automine(true)
      await chain.mine()
      await world.until('both are decided', world.allDecided)
      assert.deepEqual(await world.statuses(), ['confirmed', 'confirmed'])
    }),
  )

  it(
    'trades wait until their market is on chain, and delay no trades of other markets',
    inWorld(async (world) => {
      const maker = chain.maker
      const expiration = (await chain.chain.now()) + 86_400n
      const words = ['Early?', 'It trades before it is mined.', 3, expiration] as const
      const predicted = await chain.read(chain.factory, 'predictMarket', [maker.address, ...words])
      const marketId = predicted[1] as string as MarketId
      await world.openMarket(marketId)
      await world.trade({ market: marketId, seller: 10, buyer: 11 })
      await world.trade()
      await world.until('the other is confirmed', async () => (await settled(world)) === 1)
      await world.until('it waits', () => world.state.markets.missing.size === 1)
      await chain.chain.send(maker, chain.factory, 'createMarket', [...words])
      // A seller needs shares.
      await chain.fund(chain.chain.account(10), { shares: 1_000_000n, market: predicted[1] })
      await world.until('both are decided', world.allDecided)
      assert.equal(await settled(world), 2)
      await world.agree()
    }),
  )
})

/** In every test, each trade in the end has either settled once or failed for its own reason. */
describe('settlement decides each trade exactly once despite kills, outages and reorgs', () => {
  it(
    'after a kill between signing and broadcasting a transaction, settlement broadcasts the same transaction',
    inWorld(async (world) => {
      await world.trade()
      world.proxy.before = (method) => {
        if (method !== 'eth_sendRawTransaction') return
        world.proxy.before = undefined
        world.kill()
        throw new Error('the line was cut')
      }
      await world.until('it is killed', () => world.proxy.before === undefined)
      await world.until('every trade is decided', world.allDecided)
      const [trade] = await world.trades()
      const row = await world.transactionByHash(trade?.txHash ?? '')
      assert.equal(row?.hashes.length, 1, 'the very transaction that was signed before the kill')
      assert.equal(batchesOf(world), 0, 'nothing was sent anew')
    }),
  )

  it(
    'a trade settles exactly once if settlement is killed after a broadcast, before recording the broadcast',
    inWorld(async (world) => {
      await world.trade()
      await chain.automine(false)
      // The node receives the transaction, but the process is killed before it can receive or record the node's answer.
      world.away.markets = true
      await world.until('it is sent', () => world.proxy.requests.has('eth_sendRawTransaction'))
      world.kill()
      world.away.markets = false
      assert.deepEqual(await world.statuses(), ['matched'])
      await chain.automine(true)
      await chain.mine()
      await world.until('every trade is decided', world.allDecided)
      const [trade] = await world.trades()
      assert.equal(trade?.status, 'confirmed')
    }),
  )

  it(
    'trades settle exactly once if settlement is killed before the confirmation and before its reports to the markets',
    inWorld(
      async (world) => {
        await world.trade()
        await world.trade({ seller: 12, buyer: 13 })
        await world.until('it is sent', () => batchesOf(world) === 1)
        world.kill()
        await world.step()
        await chain.mine(3)
        world.away.markets = true
        await world.until('the end is known', () =>
          [...world.state.flight.batches.values()].some(({ ended }) => ended),
        )
        world.kill()
        world.away.markets = false
      },
      { confirmations: 3 },
    ),
  )

  it(
    'trades settle exactly once even if settlement is killed at each of its requests to the chain',
    inWorld(async (world) => {
      for (const { method, after: isAfter } of KILL_POINTS) {
        await world.trade()
        let isPassed = false
        world.proxy.before = (asked) => {
          if (!isPassed && asked !== method) return
          if (isAfter && !isPassed) {
            isPassed = true
            return
          }
          world.proxy.before = undefined
          world.kill()
          throw new Error('the line was cut')
        }
        await world.until('it is killed', () => world.proxy.before === undefined)
      }
    }),
  )

  it(
    'a trade waits while the RPC node is down or returns errors, and then settles exactly once',
    inWorld(async (world) => {
      await world.trade()
      for (const faults of [
        { down: true },
        { status: 502 },
        { error: { code: -32603, message: 'Internal error' } },
        { error: { code: -32005, message: 'limit exceeded' }, errorMethods: ['eth_call'] },
      ]) {
        world.proxy.faults = faults
        for (let steps = 0; steps < 4; steps++) await world.step(5_000)
        assert.deepEqual(await world.statuses(), ['matched'])
      }
      assert(world.said.some(({ type }) => type === 'StepFailed'))
      // From here on about every third request fails.
      const random = randomFrom(7)
      world.proxy.faults = {}
      world.proxy.refuse = () =>
        random.chance(0.3) ? { code: -32603, message: 'Internal error' } : undefined
    }),
  )

  it(
    'a trade settles exactly once if the RPC node answers the broadcast of its transaction with errors',
    inWorld(async (world) => {
      await world.trade()
      world.proxy.faults = {
        error: { code: -32603, message: 'Internal error' },
        errorMethods: ['eth_sendRawTransaction'],
      }
      await world.until('it is signed', () => batchesOf(world) === 1)
      await world.step()
      assert.deepEqual(await world.statuses(), ['submitted'])
      world.proxy.faults = {}
    }),
  )

  it(
    'a trade settles with a slow RPC node, and waits while every request exceeds its timeout',
    inWorld(
      async (world) => {
        await world.trade()
        world.proxy.faults = { slowMs: 20 }
        await world.until('it is confirmed', world.allDecided)
        assert.deepEqual(await world.statuses(), ['confirmed'])
        await world.trade({ seller: 12, buyer: 13 })
        world.proxy.faults = { slowMs: 3 * PATIENCE_MS }
        for (let steps = 0; steps < 4; steps++) await world.step(5_000)
        assert.deepEqual(await world.statuses(), ['confirmed', 'matched'])
        const failures = world.said.filter(({ type }) => type === 'StepFailed')
        assert(failures.length > 0, 'it says that it does not get on')
        world.proxy.faults = {}
      },
      { timeoutMs: PATIENCE_MS },
    ),
  )

  it(
    'a trade settles exactly once if the RPC node accepts its transaction long after the request timed out',
    inWorld(
      async (world) => {
        await world.trade()
        const late = Promise.withResolvers<void>()
        let heldBack = 0
        world.proxy.before = async (method) => {
          if (method !== 'eth_sendRawTransaction') return
          heldBack++
          await late.promise
        }
        // The transaction is signed, stored and broadcast repeatedly, but the proxy holds every broadcast back.
        await world.until('it is sent', () => batchesOf(world) === 1)
        for (let steps = 0; steps < 4; steps++) await world.step(2_000)
        assert.deepEqual(await world.statuses(), ['submitted'])
        assert(heldBack > 1, 'it was broadcast more than once')
        world.proxy.before = undefined
        late.resolve()
        await world.until('every trade is decided', world.allDecided)
        assert.equal(batchesOf(world), 1, 'nothing was sent anew')
        assert.deepEqual(await world.statuses(), ['confirmed'])
      },
      { timeoutMs: PATIENCE_MS },
    ),
  )

  it(
    'a trade settles exactly once, and stays confirmed, although the RPC node lags behind the chain',
    inWorld(async (world) => {
      const height = await chain.height()
      await world.trade()
      world.proxy.faults = { staleHead: height }
      for (let steps = 0; steps < 5; steps++) await world.step(500)
      world.proxy.faults = {}
      await world.until('it is confirmed', world.allDecided)
      // After the confirmation the node lags for a while and does not know the transaction.
      world.proxy.faults = { staleHead: height }
      for (let steps = 0; steps < 4; steps++) await world.step(500)
      world.proxy.faults = {}
      await world.step()
      assert.deepEqual(await world.statuses(), ['confirmed'])
      assert(!world.said.some(({ type }) => type === 'BatchVanished'))
    }),
  )

  it(
    'a trade still settles if the RPC node drops its transaction',
    inWorld(async (world) => {
      await world.trade()
      world.proxy.faults = { dropTransactions: true }
      await world.until('it is sent', () => batchesOf(world) === 1)
      await world.step(500)
      assert.deepEqual(await world.statuses(), ['submitted'])
      world.proxy.faults = {}
    }),
  )

  it(
    'after a jump of the base fee, settlement signs its transaction again with higher fees',
    inWorld(async (world) => {
      await chain.automine(false)
      await world.trade()
      await world.until('it is sent', () => batchesOf(world) === 1)
      const [before] = await world.trades()
      await chain.chain.request('hardhat_setNextBlockBaseFeePerGas', ['0x174876e800'])
      await chain.mine()
      await world.step()
      const [after] = await world.trades()
      assert.notEqual(after?.txHash, before?.txHash, 'it was signed again')
      assert.equal(after?.attempts, 2)
      await chain.automine(true)
      await chain.mine()
      await world.until('every trade is decided', world.allDecided)
      const row = await world.transactionByHash(before?.txHash ?? '')
      assert.equal(row?.txHash, after?.txHash, 'the old hash leads to the same transaction')
      for (let blocks = 0; blocks < 40; blocks++) await chain.mine(10)
    }),
  )

  it(
    'if a reorg removes a settled batch, settlement settles the batch’s trades again',
    inWorld(async (world) => {
      await world.trade()
      const reorganise = await chain.fork()
      await world.until('it is confirmed', world.allDecided)
      assert.deepEqual(await world.statuses(), ['confirmed'])
      await reorganise()
      await world.until('it is reverted', async () =>
        world.said.some(({ type }) => type === 'BatchVanished'),
      )
      await world.until('it is confirmed again', world.allDecided)
      const events = world.host.log
        .read(0, 1, 1_000)
        .map(({ event }) => (event as unknown as { type?: string; t?: string }).type)
      assert(events.length > 0)
      assert.deepEqual(await world.statuses(), ['confirmed'])
    }),
  )

  it(
    'settlement does not settle a failed trade after a reorg, even if the buyer can pay on the new branch',
    inWorld(async (world) => {
      await chain.fund(chain.chain.account(7), { collateral: 1_000_000n })
      await world.place({ by: 10, side: SELL, size: 1, price: 0.4 })
      await world.place({ by: 7, size: 1, price: 0.4 })
      await world.trade({ seller: 12, buyer: 13 })
      const reorganise = await chain.fork()
      revokesBeforeItIsSent(world, 7)
      await world.until('both are decided', world.allDecided)
      assert.deepEqual((await world.statuses()).sort(), ['confirmed', 'failed'])
      // On the new branch the buyer still has the allowance. So the same transaction, if mined again, would settle both
      // trades.
      await reorganise()
      await world.until('it vanished', () =>
        world.said.some(({ type }) => type === 'BatchVanished'),
      )
      await world.until('both are decided again', world.allDecided)
      assert.deepEqual((await world.statuses()).sort(), ['confirmed', 'failed'])
    }),
  )

  it(
    'no trade fails while the RPC node lags behind the chain',
    inWorld(async (world) => {
      await world.trade()
      await world.until('it is confirmed', world.allDecided)
      await chain.mine(3)
      await world.step()
      // Account 4 cannot pay. But the node lags two blocks behind, and the newest blocks may contain a deposit. So the
      // trade must not fail until the node has caught up.
      world.proxy.faults = { staleHead: (await chain.height()) - 2 }
      await world.trade({ buyer: 4 })
      for (let steps = 0; steps < 4; steps++) await world.step()
      assert.deepEqual(await world.statuses(), ['confirmed', 'matched'])
      assert(world.said.some((each) => each.type === 'StepFailed' && /behind/.test(each.why)))
      world.proxy.faults = {}
      await world.until('it is failed', world.allDecided)
      assert.deepEqual(await world.statuses(), ['confirmed', 'failed'])
    }),
  )

  it(
    'if one trade makes its batch revert, settlement still settles the other trades',
    inWorld(async (world) => {
      for (const [seller, buyer] of [
        [10, 11],
        [12, 13],
        [14, 15],
      ] as const) {
        await world.trade({ seller, buyer })
      }
      // The node refuses the first eight simulations of batches that contain an order of account 14.
      const poison = chain.chain.account(14).address.slice(2).toLowerCase()
      let refusals = 0
      world.proxy.refuse = (method, params) => {
        const hit = method === 'eth_call' && JSON.stringify(params).includes(poison)
        if (!hit || ++refusals > 8) return undefined
        return { code: 3, message: 'execution reverted', data: '0x4e487b71' }
      }
      await world.until('the others are confirmed', async () => {
        const all = await world.statuses()
        return all.filter((status) => status === 'confirmed').length === 2
      })
      assert(world.said.some((each) => each.type === 'BatchReverts' && each.trades === 1))
      world.proxy.refuse = undefined
    }),
  )

  it(
    'if a simulation runs out of the usual gas, settlement doubles the gas until it suffices',
    inWorld(async (world) => {
      await world.trade()
      const tooLittle = `${toFunctionSelector('TooLittleGas(uint256)')}${'0'.repeat(64)}`
      const tried: number[] = []
      world.proxy.refuse = (method, [call]) => {
        if (method !== 'eth_call') return undefined
        const { gas, data = '' } = call as { gas?: string; data?: string }
        if (gas === undefined || data.length < 1_000) return undefined
        tried.push(Number(gas))
        if (Number(gas) > 2_000_000) return undefined
        return { code: 3, message: 'execution reverted', data: tooLittle }
      }
      await world.until('it is confirmed', world.allDecided)
      assert.deepEqual(await world.statuses(), ['confirmed'])
      assert(!world.said.some(({ type }) => type === 'BatchReverts'))
      const [usual = 0] = tried
      assert(tried.length > 1, 'the usual gas is not enough')
      assert.deepEqual(
        tried,
        tried.map((_, times) => usual * 2 ** times),
      )
    }),
  )

  it(
    'while the settlement contract is paused, trades wait and none fails',
    inWorld(async (world) => {
      await chain.chain.send(chain.owner, chain.settlement, 'pause', [])
      await world.trade()
      for (let steps = 0; steps < 4; steps++) await world.step(3_000)
      assert.deepEqual(await world.statuses(), ['matched'])
      assert.match(world.state.chain.stopped, /paused/)
      await chain.chain.send(chain.owner, chain.settlement, 'unpause', [])
    }),
  )

  it(
    'trades settle exactly once despite database outages while settlement reads, signs and records them',
    inWorld(async (world) => {
      await world.trade()
      await world.step()
      world.away.database = true
      for (let steps = 0; steps < 3; steps++) await world.step(5_000)
      world.away.database = false
      await world.trade({ seller: 12, buyer: 13 })
      world.away.journal = true
      for (let steps = 0; steps < 3; steps++) await world.step(5_000)
      world.away.journal = false
      await world.until('something is sent', () => batchesOf(world) > 0)
      world.away.journal = true
      for (let steps = 0; steps < 3; steps++) await world.step(5_000)
      world.kill()
      world.away.journal = false
    }),
  )

  it(
    'a trade settles exactly once although its market does not answer for a while',
    inWorld(async (world) => {
      world.away.markets = true
      await world.trade()
      for (let steps = 0; steps < 5; steps++) await world.step()
      assert.deepEqual(await world.statuses(), ['matched'])
      world.away.markets = false
    }),
  )

  it(
    'a trade settles exactly once although another program sends a transaction with the settlement key',
    inWorld(async (world) => {
      await world.trade()
      world.proxy.faults = { dropTransactions: true }
      await world.until('it is sent', () => batchesOf(world) === 1)
      await chain.chain.send(chain.owner, chain.collateral, 'mint', [chain.owner.address, 1n])
      world.proxy.faults = {}
      await world.step()
      await chain.mine(2)
    }),
  )

  it(
    'while an unsettled trade is too old, markets refuse new orders and still accept cancels',
    inWorld(
      async (world) => {
        const lags = () =>
          world.said.flatMap((each) => (each.type === 'LagChanged' ? [each.behind] : []))
        await world.trade()
        world.proxy.faults = { down: true }
        await world.until('it is behind', () => world.state.lag.behind)
        world.proxy.faults = {}
        await world.until('it caught up', () => !world.state.lag.behind)
        assert.deepEqual(lags(), [true, false])
        // If settlement is behind, the market threads refuse new orders, but still accept cancels.
        const { chainId } = chain.settings
        const resting = await world.place({ by: 14, price: 0.2 })
        const lag = (behind: boolean) =>
          world.host.run({ type: 'SettlementLag', message: { chainId, behind } })
        await lag(true)
        await assert.rejects(world.place({ by: 15, price: 0.2 }), /SETTLEMENT_BEHIND/)
        const again = { type: 'PlaceOrder' as const, message: { order: resting } }
        const { marketId } = world
        const { orderHash, side } = resting
        const cancel = { type: 'CancelOrder' as const, message: { marketId, orderHash, side } }
        const [seen, cancelled] = await world.host.run(again, cancel)
        assert.partialDeepStrictEqual(seen, { status: 'accepted', duplicate: true })
        assert.partialDeepStrictEqual(cancelled, { status: 'cancelled' })
        await lag(false)
        await world.place({ by: 15, price: 0.2 })
      },
      { rules: { maxLagMs: 10_000 } },
    ),
  )
})

describe('settlement fails trades of blocked wallets, and waits while the stablecoin blocks all transfers', () => {
  const CAROL = 12
  const STAKE = 1_000_000_000n
  let token: Contract<typeof hostileCollateralAbi>
  let hostile: TestChain

  before(async () => {
    const { chain: node, owner, conditionalTokens, contracts, demoMarkets } = chain
    const deploy = async (name: string, args: unknown[]) => node.deploy(owner, ours(name), args)
    token = { address: await deploy('test/HostileCollateral', []), abi: hostileCollateralAbi }
    const settlement = await deploy('Settlement', [
      ...[token.address, conditionalTokens.address, owner.address, owner.address, 3_600n, 7_200n],
    ])
    hostile = { ...chain, contracts: { ...contracts, settlement, stablecoin: token.address } }
    for (const trader of [10, 11, CAROL].map((index) => node.account(index))) {
      await node.send(owner, token, 'mint', [trader.address, 2n * STAKE])
      await node.send(trader, token, 'approve', [settlement, STAKE])
      await node.send(trader, token, 'approve', [conditionalTokens.address, STAKE])
      await node.send(trader, conditionalTokens, 'setApprovalForAll', [settlement, true])
      await node.send(trader, conditionalTokens, 'splitPosition', [
        ...([token.address, `0x${'0'.repeat(64)}`, demoMarkets[0]!.id, [1n, 2n], STAKE] as const),
      ])
    }
  })

  const block = (who: number | Hex, isBlocked: boolean) =>
    chain.chain.send(chain.chain.account(9), token, 'setBlocked', [
      typeof who === 'number' ? chain.chain.account(who).address : who,
      isBlocked,
    ])

  /**
   * Runs `body` after Carol has traded with herself. The stablecoin has blocked Carol, so it refuses both sides of this
   * trade.
   */
  async function inHostileWorld(
    rules: WorldOptions['rules'],
    body: (world: SettlementWorld) => Promise<void>,
  ) {
    await block(CAROL, true)
    const world = await startWorld(hostile, { rules: { maxLagMs: 900_000, ...rules } })
    try {
      await world.trade({ seller: CAROL, buyer: CAROL })
      await body(world)
      await world.agree()
      assert.deepEqual(
        world.said.filter(({ type }) => type === 'LagChanged'),
        [],
      )
    } finally {
      await world.close()
    }
  }
  it('a trade of a wallet that the stablecoin blocks fails without a transaction, and other trades settle', async () => {
    await inHostileWorld({}, async (world) => {
      await world.step()
      await world.step()
      assert.deepEqual(await world.statuses(), ['failed'])
      await block(CAROL, false)
      await world.trade({ price: 0.6 })
      await world.until('the other one settles', world.allDecided)
      const [, refused] = await world.trades()
      assert.deepEqual([refused?.status, refused?.reason], ['failed', 'CollateralRefused'])
      assert.equal(batchesOf(world), 1, 'the other one')
      assert.deepEqual(failures(world), [{ fault: 'both', wastedGas: 0 }])
      assert.equal(world.host.resting(), 0, 'nothing comes back that would be refused again')
    })
  })

  it('while the stablecoin allows no transfers, no trade fails, and the trades settle once transfers work again', async () => {
    const keyOfOwn = chain.owner.address
    await block(keyOfOwn, true)
    await inHostileWorld({}, async (world) => {
      for (let second = 0; second < 10; second++) await world.step()
      assert.deepEqual(await world.statuses(), ['matched'])
      assert.match(world.state.chain.stopped, /rejects the transfers of all accounts/)
      await block(CAROL, false)
      await block(keyOfOwn, false)
      await world.until('it settles', world.allDecided)
      assert.deepEqual(await world.statuses(), ['confirmed'])
    })
  })

  it('a trade whose wallet is blocked after every simulation fails after a limited number of transactions', async () => {
    await inHostileWorld({ retryGasMax: 400_000 }, async (world) => {
      world.proxy.before = async (method) => {
        if (method === 'eth_call') await block(CAROL, false)
        if (method === 'eth_sendRawTransaction') await block(CAROL, true)
      }
      await world.until('it fails', world.allDecided, 10_000)
      assert.deepEqual(await world.statuses(), ['failed'])
      const sent = batchesOf(world)
      assert(sent > 1 && sent < 8, `${sent} transactions`)
      const [failure] = failures(world)
      assert(failure !== undefined && failure.wastedGas >= 400_000, JSON.stringify(failure))
    })
  })
})
