/**
 * Tests the funds read from a real chain: which owners' funds a block changes, which trades it settles, and the funds
 * at that block.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { PrivateKeyAccount } from 'viem/accounts'
import { makeChainClient } from '#chain/clients.ts'
import { Fault } from '#domain/fault.ts'
import { type FundsStep, outcomeToken } from '#domain/funds.ts'
import { type Address, type MarketId, type OrderHash, toAddress } from '#domain/ids.ts'
import { makeFundsChain } from '#services/accounts/chain/funds-chain.ts'
import { MAX_UINT256, UNIT } from '../../../contracts/support/world.ts'
import { openTestChain } from '../../../support/chain.ts'
import { startRpcProxy } from '../../../support/rpc-proxy.ts'

const of = (account: { address: string }): Address => toAddress(account.address)

/** Makes a chain on which Ann has stablecoin and Bob has shares, behind a proxy. */
async function fundsWorld() {
  const world = await openTestChain()
  const { ann, bob, carol, chain, collateral, conditionalTokens } = world
  const { id } = await world.createMarket()
  await world.fund(ann, { collateral: 1_000n * UNIT })
  await world.fund(bob, { shares: 500n * UNIT, market: id })
  const proxy = await startRpcProxy(world.url)
  const addresses = Object.fromEntries(
    Object.entries(world.contracts).map(([name, address]) => [name, toAddress(address)]),
  ) as { [Name in keyof typeof world.contracts]: Address }
  /** Returns a reader that has made its first step. */
  async function reader(rpcUrls: readonly string[] = [proxy.url]) {
    const client = makeChainClient({
      chainId: chain.id,
      rpcUrls,
      budgetMs: 0,
      timeoutMs: 30_000,
    })
    const funds = makeFundsChain({ client, contracts: addresses })
    const first = await funds.step(watched())
    assert.deepEqual([first.settled, first.touched, first.rewoundTo], [[], [], undefined])
    return funds
  }
  const watched = (...more: Address[]) => new Set<Address>([of(ann), of(bob), ...more])
  return {
    ...world,
    proxy,
    reader,
    watched,
    marketId: id as string as MarketId,
    pay: (from: PrivateKeyAccount, to: { address: string }, amount = 1n) =>
      chain.send(from, collateral, 'transfer', [to.address as `0x${string}`, amount]),
    give: async (from: PrivateKeyAccount, to: { address: string }, amount = 1n) =>
      chain.send(from, conditionalTokens, 'safeTransferFrom', [
        ...([from.address, to.address as `0x${string}`] as const),
        await world.positionId(id, 0),
        amount,
        '0x',
      ]),
    trade: async (size = UNIT) => {
      const buy = await world.buy(ann, id, { price: 400_000n, size })
      const sell = await world.sell(bob, id, { price: 400_000n, size })
      const verdict = await world.trade(buy, sell)
      assert.equal(verdict.settled, true)
      return {
        tradeKey: verdict.tradeId as string,
        block: await world.height(),
        buyer: of(ann),
        seller: of(bob),
        buyOrderHash: world.hashOrder(buy.order) as string as OrderHash,
        sellOrderHash: world.hashOrder(sell.order) as string as OrderHash,
      }
    },
    /** Runs a step and counts its requests by method, except the request for the chain id, which is made only once. */
    async counted(step: () => Promise<FundsStep>): Promise<[FundsStep, Record<string, number>]> {
      proxy.requests.clear()
      const answer = await step()
      return [answer, Object.fromEntries(proxy.requests)]
    },
    stranger: carol,
  }
}

let world: Awaited<ReturnType<typeof fundsWorld>>
before(async () => {
  world = await fundsWorld()
})
after(async () => {
  await world.proxy.close()
  await world.close()
})

const touchedBy = ({ touched }: FundsStep): Address[] => [...touched].sort()

test('the funds reader returns all balances and approvals of an account as of the same block', async (t) => {
  const { ann, bob, stranger, chain, collateral, conditionalTokens, settlement, marketId } = world
  const funds = await world.reader()
  const at = await funds.step(world.watched())
  const yes = outcomeToken(marketId, 0)
  const no = outcomeToken(marketId, 1)

  await t.test(
    'after any history of transfers and approvals, the reader returns the balances that are on the chain',
    async () => {
      const large = 2n ** 255n + 1n
      await chain.send(ann, collateral, 'approve', [settlement.address, large])
      await world.give(bob, stranger, 7n)
      await chain.send(bob, conditionalTokens, 'setApprovalForAll', [settlement.address, false])
      const later = await funds.step(world.watched())
      const questions = [
        { owner: of(bob), tokens: [yes, no, yes] },
        { owner: of(ann), tokens: [yes] },
        { owner: of(stranger), tokens: [] },
      ]
      const before = await funds.read(questions, at)
      const after = await funds.read(questions, later)
      assert.deepEqual(before, [
        {
          owner: of(bob),
          block: at.block,
          balance: 0n,
          allowance: MAX_UINT256,
          nonce: 0n,
          isApproved: true,
          tokens: new Map([
            [yes, 500n * UNIT],
            [no, 500n * UNIT],
          ]),
        },
        {
          owner: of(ann),
          block: at.block,
          balance: 1_000n * UNIT,
          allowance: MAX_UINT256,
          nonce: 0n,
          isApproved: true,
          tokens: new Map([[yes, 0n]]),
        },
        {
          owner: of(stranger),
          block: at.block,
          balance: 0n,
          allowance: 0n,
          nonce: 0n,
          isApproved: false,
          tokens: new Map(),
        },
      ])
      assert.deepEqual(
        after.map(({ block, allowance, isApproved, tokens }) => [
          ...[block, allowance, isApproved, tokens.get(yes)],
        ]),
        [
          [later.block, MAX_UINT256, false, 500n * UNIT - 7n],
          [later.block, large, true, 0n],
          [later.block, 0n, false, undefined],
        ],
      )
      await chain.send(bob, conditionalTokens, 'setApprovalForAll', [settlement.address, true])
    },
  )

  await t.test('the balances of many accounts are read in a few requests', async () => {
    const owners = Array.from({ length: 300 }, (_, index) =>
      index === 250 ? of(ann) : toAddress(`0xbb${index.toString(16).padStart(38, '0')}`),
    )
    world.proxy.requests.clear()
    const found = await funds.read(
      owners.map((owner) => ({ owner, tokens: [yes] })),
      at,
    )
    assert.deepEqual(
      found.map(({ owner }) => owner),
      owners,
    )
    assert.deepEqual(
      found.flatMap(({ balance }, index) => (balance === 0n ? [] : [index])),
      [250],
    )
    assert.deepEqual(Object.fromEntries(world.proxy.requests), { eth_call: 4 })
    assert.deepEqual(await funds.read([], at), [])
  })

  await t.test(
    'a read of balances without a multicall contract fails and is not retried',
    async () => {
      const client = makeChainClient({ chainId: chain.id, rpcUrls: [world.url] })
      for (const address of [of(stranger), toAddress(collateral.address)]) {
        const contracts = { ...world.contracts, multicall: address }
        const wrong = makeFundsChain({
          client,
          contracts: {
            settlement: toAddress(contracts.settlement),
            conditionalTokens: toAddress(contracts.conditionalTokens),
            stablecoin: toAddress(contracts.stablecoin),
            multicall: contracts.multicall,
          },
        })
        await assert.rejects(
          wrong.read([{ owner: of(ann), tokens: [] }], at),
          (error) => error instanceof Fault && error.code === 'CHAIN_REFUSED' && !error.retryable,
        )
      }
    },
  )
})

test('the funds reader lists the accounts whose funds changed in new blocks', async (t) => {
  const { ann, bob, stranger, chain, collateral, conditionalTokens, settlement } = world
  const { watched, counted, proxy, marketId } = world
  const funds = await world.reader()
  const step = () => funds.step(watched())

  await t.test(
    'a read of changes costs one request if no new block exists or the new block is empty',
    async () => {
      const [same, first] = await counted(step)
      assert.deepEqual([same.touched, first], [[], { eth_getBlockByNumber: 1 }])
      // Advances the time so that hardhat really mines the block. A block that hardhat has only reserved has no parent
      // hash.
      await world.warp(1)
      const [empty, second] = await counted(step)
      assert.equal(empty.block, await world.height())
      assert.deepEqual([empty.touched, second], [[], { eth_getBlockByNumber: 1 }])
    },
  )

  await t.test(
    'every transfer or approval of stablecoin or shares is reported with the account whose funds change',
    async () => {
      const permit = await world.usdcPermit(ann, settlement.address, 5n * UNIT)
      const approval = await world.signApproval(bob, settlement.address, true)
      const positionId = await world.positionId(marketId as `0x${string}`, 1)
      const steps: [who: PrivateKeyAccount, what: () => Promise<unknown>][] = [
        [ann, () => world.pay(ann, stranger, 20n)],
        [ann, () => world.pay(stranger, ann)],
        [ann, () => chain.send(ann, collateral, 'approve', [settlement.address, MAX_UINT256])],
        [
          ann,
          () => {
            const { owner, value, deadline, v, r, s } = permit
            return chain.send(stranger, collateral, 'permit', [
              ...([owner, settlement.address, value, deadline, v, r, s] as const),
            ])
          },
        ],
        [bob, () => world.give(bob, stranger, 20n)],
        [bob, () => world.give(stranger, bob)],
        [
          bob,
          () =>
            chain.send(bob, conditionalTokens, 'safeBatchTransferFrom', [
              ...([bob.address, stranger.address, [positionId], [1n], '0x'] as const),
            ]),
        ],
        [
          bob,
          () =>
            chain.send(bob, conditionalTokens, 'setApprovalForAll', [settlement.address, false]),
        ],
        [
          bob,
          () => {
            const { deadline, v, r, s } = approval
            return chain.send(stranger, conditionalTokens, 'setApprovalForAllWithPermit', [
              ...([bob.address, settlement.address, true, deadline, v, r, s] as const),
            ])
          },
        ],
      ]
      for (const [index, [who, what]] of steps.entries()) {
        await what()
        assert.deepEqual(touchedBy(await step()), [of(who)], `step ${index}`)
      }
    },
  )

  await t.test(
    'transfers of accounts that do not trade are not reported, and cost no extra request',
    async () => {
      await world.pay(stranger, { address: `0x${'5'.repeat(40)}` })
      const [quiet, asked] = await counted(step)
      assert.deepEqual([quiet.touched, quiet.settled], [[], []])
      assert.deepEqual(asked, { eth_getBlockByNumber: 1 })
    },
  )

  await t.test(
    'a settled trade and both of its traders are found with one log request',
    async () => {
      await chain.send(ann, collateral, 'approve', [settlement.address, MAX_UINT256])
      await step()
      const trade = await world.trade()
      const [settled, asked] = await counted(step)
      assert.deepEqual(settled.settled, [trade])
      assert.deepEqual(touchedBy(settled), [of(ann), of(bob)].sort())
      assert.deepEqual(asked, { eth_getBlockByNumber: 1, eth_getLogs: 1 })
      assert.deepEqual((await step()).settled, [], 'and only once')
      const unknown = { ...trade, tradeKey: `0x${'9'.repeat(64)}` }
      assert.deepEqual(await funds.settledOf([unknown, trade], settled), [false, true])
      const { number, hash } = await world.publicClient.getBlock({
        blockNumber: BigInt(trade.block - 1),
      })
      const before = { block: Number(number), blockHash: hash }
      assert.deepEqual(await funds.settledOf([trade], before), [false])
    },
  )

  await t.test(
    'changes of several blocks are reported together, with the newest block as the new position',
    async () => {
      const trade = await world.trade()
      await world.pay(ann, stranger)
      await world.mine(3)
      const together = await step()
      assert.equal(together.block, await world.height())
      assert.deepEqual(together.settled, [trade])
      assert.deepEqual(touchedBy(together), [of(ann), of(bob)].sort())
    },
  )

  await t.test(
    'after many missed blocks, all known accounts are reported as changed, and settled trades are found',
    async () => {
      const trade = await world.trade()
      await world.mine(40)
      proxy.faults = { rangeMax: 7 }
      const long = await step()
      proxy.faults = {}
      assert.deepEqual([long.settled, long.rewoundTo], [[trade], undefined])
      assert.deepEqual(touchedBy(long), [of(ann), of(bob)].sort())
    },
  )

  await t.test(
    'if too many blocks were missed to request them all, the accounts start over from the newest block',
    async () => {
      await world.trade()
      await world.mine(120)
      proxy.faults = { rangeMax: 1 }
      const anew = await step()
      proxy.faults = {}
      assert.deepEqual([anew.settled, anew.touched, anew.rewoundTo], [[], [], 0])
      assert.equal(anew.block, await world.height())
      assert.equal((await step()).rewoundTo, undefined)
    },
  )

  await t.test(
    'changed accounts and trades are found although the Ethereum node limits its answers',
    async () => {
      await world.automine(false)
      for (let index = 0; index < 12; index++) {
        for (const to of [ann, bob]) {
          await chain.request('eth_sendTransaction', [
            {
              from: stranger.address,
              to: collateral.address,
              gas: '0x186a0',
              data: `0xa9059cbb${to.address.slice(2).toLowerCase().padStart(64, '0')}${'0'.repeat(64)}`,
            },
          ])
        }
      }
      await world.mine()
      await world.automine(true)
      proxy.faults = { resultsMax: 5 }
      const other = toAddress(`0x${'6'.repeat(40)}`)
      const spam = await funds.step(watched(other))
      assert.deepEqual(touchedBy(spam), [of(ann), of(bob)].sort(), 'the filter rules others out')

      // Now the node refuses all logs, so settled trades are read from receipts.
      proxy.faults = { resultsMax: 0 }
      const trade = await world.trade()
      const settled = await step()
      proxy.faults = {}
      assert.deepEqual(settled.settled, [trade])
    },
  )

  await t.test(
    'changed accounts and trades are found even if the Ethereum node’s Bloom filters are empty or full',
    async () => {
      const crowd = Array.from({ length: 500 }, (_, index) =>
        toAddress(`0xaa${index.toString(16).padStart(38, '0')}`),
      )
      for (const blooms of ['zero', 'full'] as const) {
        for (const others of [[], crowd]) {
          proxy.faults = { blooms }
          await world.give(stranger, bob)
          const given = await funds.step(watched(...others))
          assert.deepEqual(touchedBy(given), [of(bob)], `${blooms} among ${others.length}`)
          const trade = await world.trade()
          assert.deepEqual((await funds.step(watched(...others))).settled, [trade])
          // The node refuses to return the logs, and the Bloom filter of the block excludes no owner. So every owner
          // counts as changed.
          await world.pay(stranger, ann)
          proxy.faults = { blooms, resultsMax: 0 }
          const everybody = await funds.step(watched(...others))
          assert.equal(everybody.touched.length, 2 + others.length)
          proxy.faults = {}
        }
      }
    },
  )

  await t.test('an unreachable Ethereum node causes a fault, and no change is lost', async () => {
    const { block } = await step()
    await world.pay(ann, stranger)
    for (const faults of [
      { down: true },
      { error: { code: -32_603, message: 'Internal error' }, errorMethods: ['eth_getLogs'] },
    ]) {
      proxy.faults = faults
      await assert.rejects(step(), (error) => {
        return error instanceof Fault && error.code === 'CHAIN_UNAVAILABLE' && error.retryable
      })
    }
    const { hash } = await world.publicClient.getBlock()
    proxy.faults = { down: true }
    await assert.rejects(
      funds.read([{ owner: of(ann), tokens: [] }], { block, blockHash: hash }),
      (error) => error instanceof Fault && error.code === 'CHAIN_UNAVAILABLE',
    )
    proxy.faults = {}
    const after = await step()
    assert.deepEqual([after.block, touchedBy(after)], [block + 1, [of(ann)]])
  })
})

test('the accounts thread uses another Ethereum node if one fails', async () => {
  const { proxy, watched, ann, stranger } = world
  const funds = await world.reader([proxy.url, world.url])
  await world.pay(ann, stranger)
  proxy.faults = { down: true }
  const after = await funds.step(watched())
  proxy.faults = {}
  assert.deepEqual(touchedBy(after), [of(ann)])
})

test('after a reorg, the funds reader reports from which block on the chain was replaced', async (t) => {
  const { ann, bob, stranger, watched, proxy } = world
  const funds = await world.reader()
  const step = () => funds.step(watched())

  await t.test('after a reorg, the contents of the new blocks are reported', async () => {
    const { block } = await step()
    const held = await world.balance(ann.address)
    const back = await world.fork()
    await world.trade()
    await world.pay(ann, stranger)
    const gone = await step()
    assert.equal(gone.settled.length, 1)
    await back(0)
    const again = await step()
    assert.deepEqual([again.block, again.rewoundTo], [gone.block, block + 1])
    assert.notEqual(again.blockHash, gone.blockHash)
    assert.deepEqual(again.settled, [])
    await assert.rejects(
      funds.read([{ owner: of(ann), tokens: [] }], gone),
      (error) => error instanceof Fault && error.code === 'CHAIN_BLOCK_GONE' && error.retryable,
    )
    const [found] = await funds.read([{ owner: of(ann), tokens: [] }], again)
    assert.equal(found?.balance, held)
  })

  await t.test(
    'a trade that a reorg moves to another block is reported again, in its new block',
    async () => {
      const { block } = await step()
      const back = await world.fork()
      await world.mine(3)
      await step()
      await back(1)
      const trade = await world.trade()
      const again = await step()
      assert.deepEqual([again.rewoundTo, again.settled], [block + 1, [trade]])
      assert.deepEqual(touchedBy(again), [of(ann), of(bob)].sort())
    },
  )

  await t.test(
    'the balance reader ignores a brief lag of the Ethereum node, and goes back to the node’s block if the lag lasts',
    async () => {
      await step()
      await world.mine(2)
      const newest = await step()
      proxy.faults = { staleHead: newest.block - 2 }
      for (let index = 0; index < 5; index++) assert.deepEqual(await step(), newest)
      const settled = await step()
      assert.deepEqual([settled.block, settled.rewoundTo], [newest.block - 2, newest.block - 1])
      proxy.faults = {}
      const after = await step()
      assert.deepEqual([after.block, after.rewoundTo], [newest.block, undefined])
    },
  )
})
