import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type EventQuote, eventPrices } from '#domain/event-prices.ts'

const quote = (bid: number, ask: number, rest: Partial<EventQuote> = {}): EventQuote => ({
  status: 'open',
  bestBidPrices: [bid, 0],
  bestAskPrices: [ask, 0],
  lastPrices: [0, 0],
  ...rest,
})

test('an event’s sum of YES prices uses mid prices, and last prices for markets without a mid price', () => {
  const quotes = [
    quote(400_000, 420_001),
    quote(0, 300_000, { lastPrices: [250_000, 750_000] }),
    quote(0, 90_000, { bestBidPrices: [0, 930_000] }),
    quote(0, 0, { lastPrices: null }),
  ]
  assert.deepEqual(eventPrices(quotes), {
    ...{ yesSum: 410_000 + 250_000, unpriced: 2 },
    ...{ bidSum: null, askSum: null, gap: 0 },
  })
})

test('if an exclusive event’s best YES bids sum to more than 1, the event’s price gap is positive', () => {
  const quotes = [quote(600_000, 620_000), quote(450_000, 470_000)]
  const { bidSum, askSum, gap } = eventPrices(quotes)
  assert.deepEqual([bidSum, askSum, gap], [1_050_000, 1_090_000, 50_000])
})

test('if an exclusive event’s best YES asks sum to less than 1, the event’s price gap is negative', () => {
  const quotes = [quote(500_000, 520_000), quote(400_000, 430_000)]
  const { bidSum, askSum, gap } = eventPrices(quotes)
  assert.deepEqual([bidSum, askSum, gap], [900_000, 950_000, -50_000])
})

test('an event’s sum of YES prices counts payouts of resolved markets, and ignores withdrawn markets', () => {
  const quotes = [
    quote(0, 0, { status: 'resolved', winningOutcome: 0 }),
    quote(0, 0, { status: 'resolved', winningOutcome: 1, lastPrices: [990_000, 0] }),
    quote(300_000, 310_000, { status: 'withdrawn' }),
  ]
  assert.deepEqual(eventPrices(quotes), {
    ...{ yesSum: 1_000_000, unpriced: 0, bidSum: null, askSum: null, gap: 0 },
  })
  assert.equal(eventPrices([]).gap, 0)
})
