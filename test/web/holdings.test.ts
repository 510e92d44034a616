/** The value of positions. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Market } from '#protocol/shapes/markets.ts'
import { holdingsOf, markPrice, totalsOf } from '#web/portfolio/holdings.ts'
import type { Position } from '#web/state/reads.ts'

const book = (bids: number[], asks: number[], last: number[] = [0, 0]) =>
  ({ bestBidPrices: bids, bestAskPrices: asks, lastPrices: last }) as unknown as Market

const position = (part: Partial<Position>): Position => ({
  ...{ marketId: 'm', marketQuestion: '', contractAddress: '', expiration: 0, resolved: false },
  ...{ yesShares: 0, noShares: 0, yesCost: 0, noCost: 0, totalInvested: 0, realisedProfit: 0 },
  ...part,
})

test('a share is valued at its mid price, else by the other outcome’s mid price, else last price', () => {
  assert.equal(markPrice(book([400_000, 1], [500_000, 2]), 0), 450_000)
  assert.equal(markPrice(book([400_000, 0], [500_000, 0]), 1), 550_000)
  assert.equal(markPrice(book([400_000, 0], [0, 0], [300_000, 0]), 0), 300_000)
  assert.equal(markPrice(book([0, 0], [0, 0]), 0), undefined)
  assert.equal(markPrice(undefined, 0), undefined)
})

test('the portfolio has a line for each held outcome, and its profit is the value less the cost', () => {
  const held = position({ yesShares: 2_000_000, yesCost: 700_000, noShares: 1, noCost: 1 })
  const lines = holdingsOf(
    [held],
    () => book([400_000, 0], [500_000, 0]),
    () => undefined,
  )
  assert.deepEqual(
    lines.map(({ outcome, value, profit }) => ({ outcome, value, profit })),
    [
      { outcome: 0, value: 900_000n, profit: 200_000n },
      { outcome: 1, value: 0n, profit: -1n },
    ],
  )
  assert.deepEqual(totalsOf(lines), { value: 900_000n, profit: 199_999n, isWhole: true })
})

test('after the resolution one outcome is worth a dollar and the other nothing', () => {
  const held = position({ resolved: true, yesShares: 5, noShares: 3, noCost: 2 })
  const decided = holdingsOf(
    [held],
    () => book([400_000, 0], [500_000, 0]),
    () => 1,
  )
  assert.deepEqual(
    decided.map(({ value }) => value),
    [0n, 3n],
  )
  const unknown = holdingsOf(
    [held],
    () => undefined,
    () => undefined,
  )
  assert.deepEqual(totalsOf(unknown), { value: undefined, profit: undefined, isWhole: false })
  assert.deepEqual(totalsOf([]), { value: 0n, profit: 0n, isWhole: true })
  const some = totalsOf([...decided, ...unknown])
  assert.deepEqual([some.value, some.isWhole], [3n, false])
})
