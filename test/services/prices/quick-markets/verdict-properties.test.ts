/**
 * Tests properties that every verdict on a quick market must have. The reported prices (marks) are random, and the real
 * code gives the verdict.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Address, MarketId } from '#domain/ids.ts'
import { NO, YES } from '#domain/order.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import { averagedSecs, type Mark, type QuickMarket } from '#domain/quick-market.ts'
import { newQuickMarkets } from '#services/prices/quick-markets/quick-markets.ts'
import type { QuickContext, QuickMarketsPorts } from '#services/prices/quick-markets/state.ts'
import { type Verdict, verdictOn } from '#services/prices/quick-markets/verdicts.ts'
import { OPTIONS, START_SEC } from './quick-world.ts'

const END_SEC = START_SEC + OPTIONS.intervalSec
const MINUTE = averagedSecs(END_SEC, OPTIONS.intervalSec)
const BASE = 6_400_000_000_000
const BOUND = OPTIONS.agreementBps

/** Prices that a source reported at the start, in the last minute and at the end; undefined if it reported none. */
type Said = {
  readonly start: number | undefined
  readonly minute: readonly (number | undefined)[]
  readonly end: number | undefined
}

const mark = (source: PriceSource, boundarySec: number, price: number): Mark => ({
  ...{ asset: 'BTC', source, boundarySec, price, atMs: boundarySec * 1_000 },
  ...{ receivedAtMs: boundarySec * 1_000, via: 'stream', exact: true, raw: '' },
})

function marksOf(source: PriceSource, { start, minute, end }: Said): Mark[] {
  const said: [number, number | undefined][] = [
    [START_SEC, start],
    ...MINUTE.map((sec, at) => [sec, minute[at]] as [number, number | undefined]),
    [END_SEC, end],
  ]
  return said.flatMap(([sec, price]) => (price === undefined ? [] : [mark(source, sec, price)]))
}

/** Returns the verdict `afterMs` after the market's end, if the histories of the sources have no prices. */
function verdictOf(marks: readonly Mark[], strike: Mark, afterMs: number): Verdict | undefined {
  const state = newQuickMarkets(
    OPTIONS,
    { priceAt: async () => undefined } as unknown as QuickMarketsPorts,
    {
      unfinished: [],
      marks,
    },
  )
  const nowMs = END_SEC * 1_000 + afterMs
  const context = { nowMs, pipe: () => undefined } as unknown as QuickContext
  const quickMarket: QuickMarket = {
    ...{ id: 1, marketId: `0x${'1'.repeat(64)}` as MarketId, chainId: OPTIONS.chainId },
    ...{ contractAddress: `0x${'1'.repeat(40)}` as Address, asset: 'BTC', startSec: START_SEC },
    ...{ intervalSec: OPTIONS.intervalSec, strike, createdAtMs: START_SEC * 1_000 },
    ...{ contested: null, resolution: null, resolvedAtMs: null, createTxHash: '' },
    ...{ reportTxHash: '', onChain: 'created' },
  }
  return verdictOn(state, quickMarket, context)
}

const bps = (price: number, by: number): number => Math.round(price * (1 + by / 10_000))
const anyPrice = fc.integer({ min: -120, max: 120 }).map((by) => bps(BASE, by))
const silence = fc.option(anyPrice, { nil: undefined, freq: 8 })
const liar: fc.Arbitrary<Said> = fc.record({
  start: silence,
  minute: fc.array(silence, { minLength: MINUTE.length, maxLength: MINUTE.length }),
  end: silence,
})
/**
 * Two honest sources. Their prices move in the same direction, each by more than `BOUND`, and their start prices are
 * close to each other.
 */
const honest = fc
  .record({
    isUp: fc.boolean(),
    basis: fc.tuple(fc.integer({ min: -20, max: 20 }), fc.integer({ min: -20, max: 20 })),
    moves: fc.tuple(
      fc.integer({ min: BOUND + 1, max: BOUND + 40 }),
      fc.integer({ min: BOUND + 1, max: BOUND + 40 }),
    ),
    minutes: fc.tuple(
      fc.array(anyPrice, { minLength: MINUTE.length, maxLength: MINUTE.length }),
      fc.array(anyPrice, { minLength: MINUTE.length, maxLength: MINUTE.length }),
    ),
  })
  .map(({ isUp, basis, moves, minutes }) => ({
    isUp,
    said: [0, 1].map((at): Said => {
      const start = bps(BASE, basis[at]!)
      const end = bps(start, isUp ? moves[at]! : -moves[at]!)
      return { start, minute: minutes[at]!, end }
    }),
  }))
const times = fc.constantFrom(0, 1_999, 5_000, 89_999, 95_000, 599_999, 700_000)

test('two price sources that agree within the allowed difference are never overruled by the third source', () => {
  let [decided, contested] = [0, 0]
  fc.assert(
    fc.property(
      ...[liar, honest, fc.nat(2), fc.nat(2), times],
      (lie, { isUp, said }, liarAt, strikeAt, afterMs) => {
        const [a, b] = said as [Said, Said]
        const saids = [a, b].toSpliced(liarAt, 0, lie)
        const marks = PRICE_SOURCES.flatMap((source, at) => marksOf(source, saids[at]!))
        const source = PRICE_SOURCES[strikeAt]!
        // A market opens only with a start price of its own source. If there is none, the case is skipped.
        const strike = marks.find((one) => one.source === source && one.boundarySec === START_SEC)
        fc.pre(strike !== undefined)
        const verdict = verdictOf(marks, strike, afterMs)
        if (verdict === undefined) return
        if (verdict.isContested) contested++
        else {
          decided++
          assert.equal(verdict.resolution.outcome, isUp ? YES : NO)
        }
      },
    ),
    { numRuns: 5_000 },
  )
  assert.ok(decided > 100 && contested > 10, `${decided} decided, ${contested} contested`)
})

test('a quick market resolves if all three sources agree on the direction, whatever their last-minute prices', () => {
  fc.assert(
    fc.property(honest, fc.nat(2), ({ isUp, said }, strikeAt) => {
      const [a, b] = said as [Said, Said]
      const marks = [a, b, a].flatMap((each, at) => marksOf(PRICE_SOURCES[at]!, each))
      const source = PRICE_SOURCES[strikeAt]!
      const strike = marks.find((one) => one.source === source && one.boundarySec === START_SEC)!
      const verdict = verdictOf(marks, strike, 0)
      assert.deepEqual(
        [verdict?.isContested, verdict?.resolution.outcome],
        [false, isUp ? YES : NO],
      )
    }),
    { numRuns: 1_000 },
  )
})

test('the verdict on a quick market does not depend on the order in which price reports arrive', () => {
  const three = fc.tuple(liar, liar, liar)
  fc.assert(
    fc.property(
      three,
      fc.nat(2),
      times,
      fc.infiniteStream(fc.double({ noNaN: true })),
      (saids, strikeAt, afterMs, draw) => {
        const marks = saids.flatMap((said, at) => marksOf(PRICE_SOURCES[at]!, said))
        const source = PRICE_SOURCES[strikeAt]!
        const strike = marks.find((one) => one.source === source && one.boundarySec === START_SEC)
        fc.pre(strike !== undefined)
        const shuffled = marks
          .map((one) => ({ one, by: draw.next().value as number }))
          .sort((a, b) => a.by - b.by)
          .map(({ one }) => one)
        assert.deepEqual(verdictOf(shuffled, strike, afterMs), verdictOf(marks, strike, afterMs))
      },
    ),
    { numRuns: 1_000 },
  )
})
