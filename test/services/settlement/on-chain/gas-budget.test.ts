/** Tests the operator's daily gas cost for one trader's fills, from the match to the receipt and across a restart. */

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { devnetAccount } from '#devnet/accounts.ts'
import { type Address, toAddress } from '#domain/ids.ts'
import { BUY, NO, type PermitSignature, SELL } from '#domain/order.ts'
import { isRejection } from '#domain/rejection.ts'
import { dayOf, nextDayMs, type SpendingLimits } from '#domain/trader-spending.ts'
import type { StandingProtocol } from '#protocol/market-host.ts'
import { TraderBudgets } from '#services/market/host/trader-budgets.ts'
import { makeSpendingRelay } from '#services/settlement/thread/spending-relay.ts'
import { settlementCharges } from '#store/reads/settlement-charges.ts'
import { hostileReceiverAbi } from '../../../../contracts/artifacts/test/HostileReceiver.abi.ts'
import { openTestChain, type TestChain } from '../../../support/chain.ts'
import {
  giveCode,
  type OrderWish,
  permitsOf,
  type SettlementWorld,
  startWorld,
} from './chain-fixture.ts'

let chain: TestChain
before(async () => {
  chain = await openTestChain({ seed: true })
})
after(() => chain.close())

const traderOf = (index: number): Address => toAddress(devnetAccount(index).address)

const [BOB, ANN, EVE, CAROL] = [10, 11, 14, 15]
/** An account without shares. */
const RESELLER = 5
/** `HostileReceiver.Mode.WasteGas`. */
const WASTE_GAS = 7

const NO_LIMITS = { fillsPerDay: 0, gasPerDay: 0, failedGasPerDay: 0, exempt: new Set<Address>() }

/** Runs `body` in a world with daily limits per trader. A relay sends each trader's spending to the market thread. */
async function withBudgets(
  some: Partial<SpendingLimits>,
  body: (
    world: SettlementWorld,
    relay: () => ReturnType<typeof makeSpendingRelay>,
    restart: () => void,
  ) => Promise<void>,
): Promise<void> {
  const limits = { ...NO_LIMITS, ...some }
  const { chainId } = chain.settings
  let relay: ReturnType<typeof makeSpendingRelay>
  const world = await startWorld(chain, {
    risk: { minNotional: 0, pendingTradesMax: 1_000, budgets: new TraderBudgets(limits, 1) },
    barred: () => relay.barred(chainId),
  })
  const sender = toAddress(chain.chain.account(0).address)
  const restart = (): void => {
    const tell = (type: string, message: unknown): void => {
      void world.host.run({ type, message } as never)
    }
    relay = makeSpendingRelay({
      markets: [{ tell } as never],
      limits,
      read: (filter) => settlementCharges(world.database, filter),
    })
    relay.follow({ chainId, sender })
  }
  restart()
  try {
    await body(world, () => relay, restart)
  } finally {
    await world.close()
  }
}

async function tryPlace(world: SettlementWorld, wish: OrderWish) {
  const order = await world.orderOf(wish)
  const [answer] = await world.host.run({ type: 'PlaceOrder', message: { order } })
  return isRejection(answer) ? answer : undefined
}

/** Lets an account trade with itself until an order is refused; returns the refusal and the number of fills. */
async function washTrade(world: SettlementWorld, by: number, fillsMax = 40) {
  for (let fills = 0; fills < fillsMax; fills++) {
    const refused =
      (await tryPlace(world, { by, side: SELL })) ?? (await tryPlace(world, { by, side: BUY }))
    if (refused !== undefined) return { refused, fills }
  }
  return { refused: undefined, fills: fillsMax }
}

type Spending = StandingProtocol['TradersSpent']['takes']

/** Lets the relay read new entries of the journal. Returns the gas and fills of each trader on this day. */
async function spendingNow(
  relay: ReturnType<typeof makeSpendingRelay>,
  world: SettlementWorld,
): Promise<Spending> {
  await relay.tick(world.nowMs)
  const told: Spending[] = []
  relay.linked({ tell: (_: string, message: Spending) => void told.push(message) } as never)
  return told[0] ?? { chainId: 0, day: 0, spending: [] }
}

const spentBy = ({ spending }: Spending, index: number) =>
  spending.find(({ trader }) => trader === traderOf(index)) ?? { fills: 0, gas: 0, failedGas: 0 }

describe('the settlement gas that the operator pays for one trader per day is limited', () => {
  it('a wallet that trades with itself settles only its daily number of fills, even after a restart', async () => {
    await withBudgets({ fillsPerDay: 12 }, async (world, relay, restart) => {
      const first = await washTrade(world, 10)
      assert.equal(first.refused?.rejected, 'GAS_BUDGET_SPENT')
      assert(first.fills <= 12, `${first.fills} fills`)
      await world.until('every trade is decided', world.allDecided)
      await relay().tick(world.nowMs)
      const second = await washTrade(world, 10)
      await world.until('every trade is decided', world.allDecided)
      await relay().tick(world.nowMs)
      const third = await washTrade(world, 10)
      const fills = first.fills + second.fills + third.fills
      const settled = (await world.statuses()).filter((status) => status === 'confirmed').length
      assert(settled <= 12 && settled >= 11, `${settled} fills settled`)
      assert.equal(fills, settled)
      // Another process: only the database remains.
      restart()
      await relay().tick(world.nowMs)
      const fresh = new TraderBudgets({ ...NO_LIMITS, fillsPerDay: 12 }, 1)
      relay().linked({
        tell: (_: string, { chainId, day, spending }: StandingProtocol['TradersSpent']['takes']) =>
          void fresh.merge(chainId, day, spending),
      } as never)
      const asking = { pending: 0, openOrders: () => 1, nowMs: world.nowMs }
      const flaw = fresh.flaw(chain.settings.chainId, traderOf(10), asking)
      assert.equal(flaw?.rejected, 'GAS_BUDGET_SPENT')
      assert.equal(await tryPlace(world, { by: 11, side: BUY, price: 0.1 }), undefined)
      world.at(nextDayMs(world.nowMs) + 1_000)
      await relay().tick(world.nowMs)
      assert.equal(await tryPlace(world, { by: 10, side: SELL, price: 0.9 }), undefined)
    })
  })

  it('after a restart, the daily gas costs of each trader are computed from the journal and the trades', async () => {
    await withBudgets(
      { fillsPerDay: 100, gasPerDay: 10_000_000 },
      async (world, relay, restart) => {
        for (let ask = 0; ask < 6; ask++) await world.place({ by: 12, side: SELL })
        await world.place({ by: 11, size: 6 })
        await world.until('every trade is decided', world.allDecided)
        const sums = async () => {
          restart()
          return spendingNow(relay(), world)
        }
        const told = await sums()
        assert.equal(told.day, dayOf(world.nowMs))
        const [maker, taker] = [spentBy(told, 12), spentBy(told, 11)]
        assert.deepEqual(
          [maker?.fills, taker?.fills],
          [5, 1],
          'each maker that is used up pays, the taker pays for the last',
        )
        assert.equal(maker?.gas, 5 * (taker?.gas ?? 0))
        const { gasUsed } = world.said.find(({ type }) => type === 'BatchEnded') as {
          gasUsed: number
        }
        assert.equal(taker?.gas, Math.ceil(gasUsed / 6))
        assert.deepEqual(await sums(), told)
        await relay().tick(world.nowMs)
      },
    )
  })

  it('a trader whose fills fail on chain through their own fault is barred, and their unsent trades fail', async () => {
    await withBudgets({ failedGasPerDay: 50_000 }, async (world, relay) => {
      await world.place({ by: 13, price: 0.2 })
      world.proxy.before = async (method) => {
        if (method !== 'eth_sendRawTransaction') return
        world.proxy.before = undefined
        const { settlement } = chain.contracts
        const account = chain.chain.account(13)
        await chain.chain.send(account, chain.collateral, 'approve', [settlement, 0n])
      }
      await world.trade({ seller: 10, buyer: 13 })
      await world.until('it is decided', world.allDecided)
      const { chainId } = chain.settings
      const [failed] = await world.trades()
      assert.deepEqual([failed?.status, failed?.reason], ['failed', 'InsufficientAllowance'])
      assert.notEqual(failed?.txHash, '')
      // This trade is matched before `relay` reads the gas that the failed trade has used.
      await world.trade({ seller: 10, buyer: 13, price: 0.4 })
      await relay().tick(world.nowMs)
      assert.deepEqual([...relay().barred(chainId)], [traderOf(13)])
      assert.deepEqual(world.host.thread.barred, [{ chainId, trader: traderOf(13) }])
      const batches = world.said.filter(({ type }) => type === 'BatchSent').length
      await world.until('it is decided', world.allDecided)
      const [barred] = await world.trades()
      assert.deepEqual([barred?.status, barred?.reason], ['failed', 'GasBudgetSpent'])
      assert.equal(world.said.filter(({ type }) => type === 'BatchSent').length, batches)
      const refused = await tryPlace(world, { by: 13, price: 0.1 })
      assert.equal(refused?.rejected, 'GAS_BUDGET_SPENT')
      assert.match(refused?.detail ?? '', /gas for fills that failed by the trader's fault/)
      assert.equal(await tryPlace(world, { by: 10, side: SELL, price: 0.9 }), undefined)
      assert.deepEqual(
        relay()
          .spent()
          .filter(({ traders }) => traders > 0),
        [{ chainId, budget: 'failedGas', traders: 1 }],
      )
    })
  })

  it('a reseller who never received the bought shares pays nothing for the failed resale and is not barred', async (t) => {
    t.after(await chain.snapshot())
    await withBudgets({ failedGasPerDay: 50_000 }, async (world, relay) => {
      await chain.fund(chain.chain.account(RESELLER), { collateral: 10_000_000n })
      await world.place({ by: BOB, side: SELL })
      await world.place({ by: RESELLER })
      await world.place({ by: CAROL, price: 0.6 })
      await world.place({ by: RESELLER, side: SELL, price: 0.6 })
      world.proxy.before = async (method) => {
        if (method !== 'eth_sendRawTransaction') return
        world.proxy.before = undefined
        const bob = chain.chain.account(BOB)
        const revoked = [chain.contracts.settlement, false] as const
        await chain.chain.send(bob, chain.conditionalTokens, 'setApprovalForAll', revoked)
      }
      await world.until('every trade is decided', world.allDecided)
      const ended = (await world.trades()).map(({ status, reason }) => `${status} ${reason}`)
      assert.deepEqual(ended, ['failed InsufficientShares', 'failed SharesNotApproved'])
      const told = await spendingNow(relay(), world)
      assert.notEqual(spentBy(told, BOB).failedGas, 0)
      assert.equal(spentBy(told, RESELLER).failedGas, 0)
      assert.deepEqual([...relay().barred(chain.settings.chainId)], [traderOf(BOB)])
      assert.equal(await tryPlace(world, { by: RESELLER, price: 0.1 }), undefined)
    })
  })

  for (const pieces of [1, 20]) {
    it(`a taker who fills a contract account’s order piecewise (${pieces} per transaction) is charged most of the gas`, async (t) => {
      t.after(await chain.snapshot())
      await withBudgets({ gasPerDay: 1_000_000_000 }, async (world, relay) => {
        await giveCode(chain, ANN, 'HostileReceiver')
        await world.place({ by: ANN, size: 41 })
        const takePieces = async () => {
          for (let piece = 0; piece < pieces; piece++) await world.place({ by: EVE, side: SELL })
          await world.until('every trade is decided', world.allDecided)
          return spendingNow(relay(), world)
        }
        // The first transaction also pays for new storage of both traders, so only the second one is measured.
        const before = await takePieces()
        const after = await takePieces()
        const gasOf = (index: number) => spentBy(after, index).gas - spentBy(before, index).gas
        assert.equal(spentBy(after, EVE).fills, 2 * pieces)
        const [ann, eve] = [gasOf(ANN), gasOf(EVE)]
        assert(3 * ann < eve, `Ann is charged ${ann}, and Eve ${eve}`)
      })
    })
  }

  /**
   * Lets Eve and others trade in one transaction. Returns the gas that this transaction adds to the sums of Ann, Carol
   * and Eve.
   */
  const gasOfBatch = async (
    world: SettlementWorld,
    relay: ReturnType<typeof makeSpendingRelay>,
    permit?: PermitSignature,
  ) => {
    const before = await spendingNow(relay, world)
    const batches = world.said.filter(({ type }) => type === 'BatchEnded').length
    await world.place({ by: BOB, side: SELL, size: 20 })
    await world.place({ by: EVE, outcome: NO, size: 20 })
    for (let fill = 0; fill < 5; fill++) {
      await world.place({ by: CAROL })
      await world.place({ by: EVE, ...(fill === 0 && permit !== undefined ? { permit } : {}) })
      await world.place({ by: ANN, outcome: NO, side: SELL })
    }
    await world.until('every trade is decided', world.allDecided)
    const ended = world.said.filter(({ type }) => type === 'BatchEnded')
    assert.equal(ended.length, batches + 1, 'one transaction')
    const after = await spendingNow(relay, world)
    const gasOf = (index: number) => spentBy(after, index).gas - spentBy(before, index).gas
    return { ann: gasOf(ANN), carol: gasOf(CAROL), eve: gasOf(EVE) }
  }

  const attacks: Record<string, (world: SettlementWorld) => Promise<PermitSignature | undefined>> =
    {
      'code that wastes gas when it receives shares': async () => {
        await giveCode(chain, EVE, 'HostileReceiver')
        const account = { address: chain.chain.account(EVE).address, abi: hostileReceiverAbi }
        await chain.chain.send(chain.relayer, account, 'arm', [WASTE_GAS, account.address, '0x'])
        return undefined
      },
      'unused permits of cancelled orders': async (world) => {
        const permits = await permitsOf(chain, EVE, Array(21).fill(10_000_000n))
        for (const permit of permits.slice(0, -1)) {
          const { orderHash, side } = await world.place({ by: EVE, price: 0.01, permit })
          const message = { marketId: world.marketId, orderHash, side }
          await world.host.run({ type: 'CancelOrder', message })
        }
        return permits.at(-1)
      },
    }
  for (const [name, attack] of Object.entries(attacks)) {
    it(`wasted gas is charged to the trader who caused it, not to other traders in the transaction: ${name}`, async (t) => {
      t.after(await chain.snapshot())
      await withBudgets({ gasPerDay: 1_000_000_000 }, async (world, relay) => {
        await gasOfBatch(world, relay())
        const usual = await gasOfBatch(world, relay())
        const attacked = await gasOfBatch(world, relay(), await attack(world))
        for (const trader of ['ann', 'carol'] as const) {
          const [more, gas] = [attacked[trader], usual[trader]]
          assert(more <= gas, `${trader} is charged ${more} instead of ${gas}`)
        }
        const wasted = attacked.eve - usual.eve
        assert(wasted > 250_000, `Eve is charged ${wasted} more`)
      })
    })
  }
})
