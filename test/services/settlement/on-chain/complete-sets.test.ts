/** Mints and merges from the match to the chain: buyers of opposite outcomes, and sellers of opposite outcomes. */

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { MarketId } from '#domain/ids.ts'
import { NO, SELL, YES } from '#domain/order.ts'
import { openTestChain, type TestChain } from '../../../support/chain.ts'
import {
  type OrderWish,
  permitsOf,
  type SettlementWorld,
  startWorld,
  type WorldOptions,
} from './chain-fixture.ts'

const UNIT = 1_000_000n

/** All tests use one chain. Each test has its own market thread, log and database. */
let chain: TestChain
/** The market is complementary in these tests; the contract does not know the matching rule. */
let market: MarketId
before(async () => {
  chain = await openTestChain({ seed: true })
  market = chain.demoMarkets[1]?.id as string as MarketId
})
after(() => chain.close())

type Wish = Omit<OrderWish, 'market'>

type Story = SettlementWorld & { readonly order: (wish: Wish) => Promise<unknown> }

const inWorld =
  (body: (world: Story) => Promise<void>, options: WorldOptions = {}) =>
  async () => {
    const world = await startWorld(chain, options)
    try {
      await world.openMarket(market, 'complementary')
      await body(Object.assign(world, { order: (wish: Wish) => world.place({ ...wish, market }) }))
      await world.until('every trade is decided', world.allDecided)
      await world.agree()
      await assertHoldsNothing()
    } finally {
      await world.close()
    }
  }

async function assertHoldsNothing(): Promise<void> {
  assert.deepEqual(await holdings(chain.contracts.settlement), [0n, 0n, 0n])
}

/** Returns the dollars, YES shares and NO shares of an account. */
async function holdings(account: number | `0x${string}`): Promise<[bigint, bigint, bigint]> {
  const address = typeof account === 'number' ? chain.chain.account(account).address : account
  const id = market as string as `0x${string}`
  return [
    await chain.balance(address),
    await chain.shares(address, id, YES),
    await chain.shares(address, id, NO),
  ]
}

/** Returns how an account's holdings change while `story` runs. */
async function gains(account: number, story: () => Promise<unknown>): Promise<bigint[]> {
  const before = await holdings(account)
  await story()
  return (await holdings(account)).map((value, at) => value - (before[at] ?? 0n))
}

const faultsOf = async (world: SettlementWorld) =>
  world.said.flatMap((each) =>
    each.type === 'TradeEnded' && each.status === 'failed' ? [each.fault] : [],
  )

describe('settlement settles mints and merges on chain', () => {
  it(
    'settlement mints shares for two buyers and merges shares of two sellers, at the maker’s price',
    inWorld(async (world) => {
      const makers = await gains(10, async () => {
        await world.order({ by: 10, outcome: YES, price: 0.6, size: 2 })
        await world.order({ by: 11, outcome: NO, price: 0.45, size: 2 })
        await world.until('the mint is confirmed', world.allDecided)
      })
      assert.deepEqual(makers, [-1_200_000n, 2n * UNIT, 0n])
      const takers = await gains(11, async () => {
        await world.order({ by: 10, side: SELL, outcome: YES, price: 0.3, size: 1 })
        await world.order({ by: 11, side: SELL, outcome: NO, price: 0.5, size: 1 })
        await world.until('the merge is confirmed', world.allDecided)
      })
      assert.deepEqual(takers, [700_000n, 0n, -UNIT])
      assert.deepEqual(await world.statuses(), ['confirmed', 'confirmed'])
    }),
  )

  it(
    'settlement sends ordinary trades, mints and merges in one transaction',
    inWorld(async (world) => {
      await world.order({ by: 10, outcome: YES, price: 0.6, size: 1 })
      await world.order({ by: 11, outcome: NO, price: 0.4, size: 1 })
      await world.order({ by: 12, side: SELL, outcome: NO, price: 0.3, size: 1 })
      await world.order({ by: 13, side: SELL, outcome: YES, price: 0.7, size: 1 })
      await world.order({ by: 14, outcome: YES, price: 0.5, size: 1 })
      await world.order({ by: 15, side: SELL, outcome: YES, price: 0.5, size: 1 })
      await world.until('all are confirmed', world.allDecided)
      assert.equal(new Set((await world.trades()).map(({ txHash }) => txHash)).size, 1)
      assert.deepEqual(await world.statuses(), ['confirmed', 'confirmed', 'confirmed'])
    }),
  )

  it(
    'a mint fails at once if one side cannot pay, with that side at fault',
    inWorld(async (world) => {
      await world.order({ by: 10, outcome: YES, price: 0.6, size: 1 })
      await world.order({ by: 5, outcome: NO, price: 0.4, size: 1 })
      await world.order({ by: 5, outcome: NO, price: 0.4, size: 1 })
      await world.order({ by: 10, outcome: YES, price: 0.6, size: 1 })
      await world.until('both are decided', world.allDecided)
      assert.deepEqual(await faultsOf(world), ['seller', 'buyer'])
    }),
  )

  it(
    'a merge fails at once if one side has no shares, with that side at fault',
    inWorld(async (world) => {
      await world.order({ by: 5, side: SELL, outcome: YES, price: 0.6, size: 1 })
      await world.order({ by: 10, side: SELL, outcome: NO, price: 0.4, size: 1 })
      await world.until('it is decided', world.allDecided)
      assert.deepEqual(await faultsOf(world), ['seller'])
    }),
  )

  it(
    'settlement sends the permits of both buyers of a mint, and marks both as used once the mint is mined',
    inWorld(
      async (world) => {
        const [first] = await permitsOf(chain, 6, [10n * UNIT])
        const [second] = await permitsOf(chain, 7, [10n * UNIT])
        const { flight } = world.state
        await world.order({ by: 6, outcome: YES, price: 0.6, size: 1, permit: first! })
        await world.order({ by: 7, outcome: NO, price: 0.4, size: 1, permit: second! })
        const isMined = () => [...flight.batches.values()].some(({ mined }) => mined)
        await world.until('it is in a block', isMined)
        assert.equal(flight.usedPermits.size, 2)
        await chain.mine(3)
        await world.until('it is confirmed', world.allDecided)
        assert.deepEqual(await world.statuses(), ['confirmed'])
      },
      { confirmations: 1 },
    ),
  )

  it(
    'two mints of two traders settle although each mint uses one trader’s first and the other’s second permit',
    inWorld(async (world) => {
      const [a0, a1] = await permitsOf(chain, 6, [10n * UNIT, 10n * UNIT])
      const [b0, b1] = await permitsOf(chain, 7, [10n * UNIT, 10n * UNIT])
      await world.order({ by: 6, outcome: YES, price: 0.3, size: 1, permit: a0! })
      await world.order({ by: 7, outcome: NO, price: 0.3, size: 1, permit: b0! })
      await world.order({ by: 6, outcome: YES, price: 0.7, size: 1, permit: a1! })
      await world.order({ by: 7, outcome: NO, price: 0.7, size: 1, permit: b1! })
      await world.until('both are decided', world.allDecided)
      assert.deepEqual(await world.statuses(), ['confirmed', 'confirmed'])
    }),
  )

  it('one submission refuses all trades that depend on a refused trade, and sends the independent trades', async () => {
    const world = await startWorld(chain)
    try {
      await world.openMarket(market, 'complementary')
      await world.step()
      // Account 40 gives a permit in the first mint, and pays the second from this allowance. Account 41 does so in the
      // second and third, and so on. Account 5 has no dollars, so the first mint is refused and its permit is not sent.
      // So each later mint lacks an allowance and is refused, too.
      const chained = Array.from({ length: 16 }, (_, index) => 40 + index)
      for (const [index, by] of chained.entries()) {
        const [permit] = await permitsOf(chain, by, [10n * UNIT])
        await world.place({ by: index === 0 ? 5 : by - 1, market, outcome: YES })
        await world.place({ by, market, outcome: NO, permit: permit! })
      }
      await world.trade({ seller: 10, buyer: 11 })
      await world.projected()
      const trades = await world.toSettle()
      const { refused, sent } = await world.state.ports.lane.submit(trades, {
        usedPermits: new Set(),
      })
      assert.equal(refused.length, chained.length)
      const good = trades.filter(({ marketId }) => marketId === world.marketId)
      assert.deepEqual(
        sent?.tradeIds,
        good.map(({ tradeId }) => tradeId),
      )
    } finally {
      await world.close()
    }
  })

  it(
    'settlement delays a sale until the older mint that brings its shares is mined',
    inWorld(
      async (world) => {
        await chain.fund(chain.chain.account(8), { collateral: UNIT })
        await world.order({ by: 10, outcome: YES, price: 0.6, size: 1 })
        await world.order({ by: 8, outcome: NO, price: 0.4, size: 1 })
        await world.until('the mint is sent', () => world.state.flight.batches.size === 1)
        await world.order({ by: 11, outcome: NO, price: 0.3, size: 1 })
        await world.order({ by: 8, side: SELL, outcome: NO, price: 0.3, size: 1 })
        await world.step()
        await chain.mine(3)
        await world.until('both are confirmed', world.allDecided)
        assert.deepEqual(await world.statuses(), ['confirmed', 'confirmed'])
      },
      { confirmations: 1 },
    ),
  )

  it(
    'if a reorg removes a mint, settlement settles the mint again exactly once, even after a kill',
    inWorld(async (world) => {
      await world.order({ by: 10, outcome: YES, price: 0.6, size: 1 })
      const reorganise = await chain.fork()
      const gained = await gains(11, async () => {
        await world.order({ by: 11, outcome: NO, price: 0.4, size: 1 })
        await world.until('it is confirmed', world.allDecided)
        await reorganise()
        await world.until('it is reverted', () =>
          world.said.some(({ type }) => type === 'BatchVanished'),
        )
        world.kill()
        await world.until('it is confirmed again', world.allDecided)
      })
      assert.deepEqual(gained, [-400_000n, 0n, UNIT])
      assert.deepEqual(await world.statuses(), ['confirmed'])
    }),
  )
})
