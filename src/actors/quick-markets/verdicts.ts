/** Which marks count: the strike of a market that opens, and how one that is over ends. */

import { deviation, type PriceSource } from '#domain/asset-price.ts'
import { YES } from '#domain/order.ts'
import {
  averagedSecs,
  averageOf,
  type ComparedMarks,
  endSecOf,
  type Mark,
  outcomeOf,
  type QuickMarket,
  type QuickResolution,
} from '#domain/quick-market.ts'
import { ask, reliable } from './marks.ts'
import type { AssetState, QuickContext, QuickMarketsState } from './state.ts'

/** The mark of the source that speaks; after a while, of the first other source that has one. */
export function strikeOf(
  state: QuickMarketsState,
  known: AssetState,
  { speaker, startSec }: { readonly speaker: PriceSource; readonly startSec: number },
  context: QuickContext,
): Mark | undefined {
  // The source that speaks was compared with the others a moment ago, and a start does not wait.
  const first = { source: speaker, boundarySec: startSec, aloneAfterMs: 0 }
  const own = reliable(state, known, first, context)
  const isLate = context.nowMs >= startSec * 1_000 + state.options.graceMs
  if (own !== undefined || !isLate) return own
  const others = state.options.sources.filter((source) => source !== speaker)
  for (const source of others) {
    const mark = reliable(state, known, { source, boundarySec: startSec }, context)
    if (mark !== undefined) return mark
  }
  // Better a strike that is late by some seconds than no market; it says so itself.
  const { graceMs } = state.options
  for (const source of [speaker, ...others]) {
    const asked = { source, boundarySec: startSec }
    const mark = reliable(state, known, { ...asked, inexactAfterMs: 2 * graceMs }, context)
    if (mark !== undefined) return mark
  }
  return undefined
}

/**
 * How the market ends, as far as the sources can tell by now. The print of the strike's own source
 * decides unless another source saw the price go the other way: then its own average before the end
 * does. An example: strike 100, the end 100.01; binance went from 100.2 to 100.1, so it is contested.
 * The source's six reports of the last minute are 99.95 on average: NO.
 */
export function resolutionOf(
  state: QuickMarketsState,
  quickMarket: QuickMarket,
  context: QuickContext,
): QuickResolution | undefined {
  const known = state.assets.get(quickMarket.asset)
  if (known === undefined) return undefined
  const { strike, startSec } = quickMarket
  const endSec = endSecOf(quickMarket)
  const { sources, ownMs } = state.options
  const markAt = (source: PriceSource, boundarySec: number): Mark | undefined =>
    reliable(state, known, { source, boundarySec }, context)
  const own = markAt(strike.source, endSec)
  const judged =
    own === undefined ? undefined : judge(state, known, { quickMarket, end: own }, context)
  if (judged !== undefined) return judged
  if (context.nowMs < endSec * 1_000 + ownMs) return undefined
  for (const source of sources) {
    if (source === strike.source) continue
    // Both are asked for at once, whichever of them is missing.
    const start = markAt(source, startSec)
    const end = markAt(source, endSec)
    if (start !== undefined && end !== undefined) return resolved(start, end)
  }
  return undefined
}

/** A market that is over, and the end that the strike's own source reported. */
type Ended = { readonly quickMarket: QuickMarket; readonly end: Mark }

/** Whether the others saw the same side; undefined while one of them may still tell, or nothing decides. */
function judge(
  state: QuickMarketsState,
  known: AssetState,
  { quickMarket, end }: Ended,
  context: QuickContext,
): QuickResolution | undefined {
  const { strike } = quickMarket
  const compared = comparedWith(state, known, { quickMarket, end }, context)
  if (compared === undefined) return undefined
  const outcome = outcomeOf(strike.price, end.price)
  const isContested = compared.some((marks) => contradicts(marks, strike, outcome))
  if (!isContested) return { ...resolved(strike, end), compared }
  const marks: Mark[] = []
  const secs = averagedSecs(endSecOf(quickMarket), quickMarket.intervalSec)
  for (const boundarySec of secs) {
    const mark = reliable(state, known, { source: end.source, boundarySec }, context)
    if (mark !== undefined) marks.push(mark)
  }
  if (marks.length < secs.length) return undefined
  const average = averageOf(marks)
  const decided = outcomeOf(strike.price, average.price)
  return { ...resolved(strike, end), outcome: decided, compared, average }
}

/** A source that reports the very same price twice says neither up nor down. */
function contradicts({ start, end }: ComparedMarks, strike: Mark, outcome: number): boolean {
  const move = end.price - (start ?? strike).price
  return outcome === YES ? move < 0 : move > 0
}

/**
 * What the other sources reported of both instants. Those count that were there in the minute before the
 * end, and for each the exact report is waited for: so it does not depend on who came first, nor on a
 * restart. What one cannot tell exactly in one and a half times `graceMs` counts as it is; one that tells no
 * end, or one so far off that it is not believed, does not count.
 */
function comparedWith(
  state: QuickMarketsState,
  known: AssetState,
  { quickMarket, end: { source: own, price } }: Ended,
  context: QuickContext,
): ComparedMarks[] | undefined {
  const { asset, startSec, intervalSec } = quickMarket
  const { sources, deviationMax, patienceMs, graceMs } = state.options
  const endSec = endSecOf(quickMarket)
  const sinceMs = context.nowMs - endSec * 1_000
  const compared: ComparedMarks[] = []
  let isWaiting = false
  const markAt = (source: PriceSource, sec: number): Mark | undefined =>
    known.marks.get(sec)?.get(source)
  const awaited = (source: PriceSource, boundarySec: number): Mark | undefined => {
    const mark = markAt(source, boundarySec)
    if (mark?.exact || sinceMs >= 1.5 * graceMs) return mark
    isWaiting = true
    if (sinceMs >= patienceMs) ask(state, known, { asset, source, boundarySec }, context)
    return undefined
  }
  for (const source of sources) {
    const secs = averagedSecs(endSec, intervalSec)
    if (source === own || !secs.some((sec) => markAt(source, sec) !== undefined)) continue
    const start = awaited(source, startSec) ?? null
    const end = awaited(source, endSec)
    if (end !== undefined && deviation(end.price, price) <= deviationMax) {
      compared.push({ start, end })
    }
  }
  return isWaiting ? undefined : compared
}

function resolved(start: Mark, end: Mark): QuickResolution {
  return { source: end.source, start, end, outcome: outcomeOf(start.price, end.price) }
}
