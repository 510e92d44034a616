import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { MarketId } from '#domain/ids.ts'
import { SELL } from '#domain/order.ts'
import { openTestChain, type TestChain } from '../support/chain.ts'
import { type SettlementWorld, startWorld, type WorldOptions } from './settlement-fixture.ts'

describe('settlement', () => {
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
      } finally {
        await world.close()
      }
    }

  const settled = (world: SettlementWorld): Promise<number> =>
    world.trades().then((all) => all.filter(({ status }) => status === 'confirmed').length)

  it(
    'brings matched trades on chain in one transaction, and tells their markets',
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
    'a trade is submitted until it has its confirmations',
    inWorld(
      async (world) => {
        await world.trade()
        await world.until('it is sent', () => world.state.batches.size === 1)
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
    'a permit that came with an order is used in the same transaction',
    inWorld(async (world) => {
      const buyer = chain.chain.account(5)
      const { contracts } = chain
      await chain.chain.send(chain.owner, chain.collateral, 'mint', [buyer.address, 10_000_000n])
      const { value, deadline, v, r, s } = await chain.usdcPermit(
        buyer,
        contracts.settlement,
        1_000_000n,
      )
      const permit = {
        nonce: '0',
        value: String(value),
        deadline: String(deadline),
        v,
        r,
        s,
      } as NonNullable<Parameters<SettlementWorld['place']>[0]['permit']>
      await world.place({ by: 10, side: SELL })
      await world.place({ by: 5, permit })
      await world.until('it is confirmed', world.allDecided)
      assert.deepEqual(await world.statuses(), ['confirmed'])
      await world.agree()
    }),
  )

  it(
    'a bad trade fails alone: its side loses its orders, the other side gets its quantity back',
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
        failed.map(({ reason }) => reason),
        ['InsufficientCollateral'],
      )
      assert.equal(await settled(world), 2)
      await world.agree()
      const [, book] = [0, world.host.thread.markets.get(world.marketId)?.state.books[0]]
      assert.equal(book?.ordersOf(chain.chain.account(4).address.toLowerCase() as never).length, 0)
      const [back] = book?.ordersOf(chain.chain.account(10).address.toLowerCase() as never) ?? []
      assert.equal(back?.remaining, 1_000_000)
      assert.equal(
        world.said.filter((each) => each.type === 'TradeEnded' && each.status === 'failed').length,
        1,
      )
    }),
  )

  it(
    'trades of a market that is not on chain yet wait, and the others do not wait for them',
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
      await world.until('it waits', () => world.state.unknownMarkets.size === 1)
      await chain.chain.send(maker, chain.factory, 'createMarket', [...words])
      // Whoever sells has to have something to sell.
      await chain.fund(chain.chain.account(10), { shares: 1_000_000n, market: predicted[1] })
      await world.until('both are decided', world.allDecided)
      assert.equal(await settled(world), 2)
      await world.agree()
    }),
  )
})
