import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cancelOrder, drift, fairOfPrice, ladder } from '#devnet/quotes.ts'

const TERMS = {
  marketId: `0x${'ab'.repeat(32)}`,
  outcome: 'YES',
  spread: 40_000,
  levels: 3,
  size: 1_000_000,
  ttlSeconds: 120,
} as const

test('the demo maker quotes equally many bids and asks around a price, each a cent apart', () => {
  const quotes = ladder({ ...TERMS, fair: 500_000 })
  const prices = (side: string) => quotes.filter((q) => q.side === side).map(({ price }) => price)
  assert.deepEqual(prices('buy'), [480_000, 470_000, 460_000])
  assert.deepEqual(prices('sell'), [520_000, 530_000, 540_000])
})

test('the demo maker’s bids are always below its asks, and all its prices are valid', () => {
  for (let fair = 1; fair < 1_000_000; fair += 997) {
    for (const spread of [10_000, 40_000, 500_000]) {
      const quotes = ladder({ ...TERMS, spread, fair })
      const bids = quotes.filter(({ side }) => side === 'buy').map(({ price }) => Number(price))
      const asks = quotes.filter(({ side }) => side === 'sell').map(({ price }) => Number(price))
      assert.ok(Math.max(0, ...bids) < Math.min(1_000_000, ...asks), `at ${fair}`)
      for (const price of [...bids, ...asks]) assert.ok(price >= 1 && price <= 999_999, `${price}`)
    }
  }
})

test('the demo maker’s assumed price of a market drifts, and stays between 0.1 and 0.9', () => {
  assert.equal(drift(500_000, 0.5), 500_000)
  assert.equal(drift(500_000, 1), 510_000)
  assert.equal(drift(100_000, 0), 100_000)
  assert.equal(drift(900_000, 1), 900_000)
})

test('in a price market, the demo maker values YES by the distance of the price from the start price', () => {
  assert.equal(fairOfPrice(6_000_000_000_000, 6_000_000_000_000), 500_000)
  assert.equal(fairOfPrice(6_000_000_000_000, 6_060_000_000_000), 900_000)
  assert.equal(fairOfPrice(6_000_000_000_000, 5_000_000_000_000), 100_000)
})

test('the demo maker cancels old quotes that would match its refused new quotes before the other old quotes', () => {
  const old = [
    { side: 0, outcome: 0 },
    { side: 1, outcome: 0 },
    { side: 0, outcome: 1 },
    { side: 1, outcome: 1 },
  ] as const
  const [bidYes, askYes, bidNo, askNo] = old
  assert.deepEqual(cancelOrder(old, []), { now: [], later: [...old] })
  // In a complementary market, each of these new quotes would match an old ask for YES or an old bid for NO. So the
  // demo maker cancels these old quotes first.
  for (const refused of [
    { side: 'buy', outcome: 'YES' } as const,
    { side: 'sell', outcome: 'NO' } as const,
  ])
    assert.deepEqual(cancelOrder(old, [refused]), { now: [askYes, bidNo], later: [bidYes, askNo] })
})
