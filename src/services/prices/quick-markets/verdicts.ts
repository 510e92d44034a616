/**
 * Chooses the marks (first reports of sources) that count: the strike (start price) of a new market, and the end price
 * of a finished market.
 */

import type { PriceSource } from '#domain/price-providers.ts'
import {
  averagedSecs,
  averageOf,
  endSecOf,
  type Mark,
  outcomeOf,
  type QuickMarket,
  type QuickResolution,
} from '#domain/quick-market.ts'
import { votesOn } from '#domain/quick-votes.ts'
import { ask, reliable, standing } from './marks.ts'
import { type Judged, sourcesOf } from './source-marks.ts'
import type { AssetState, QuickContext, QuickMarketsState } from './state.ts'

/**
 * Returns the mark of the active source. If the active source has no mark after `graceMs`, returns the mark of the
 * first other source with a mark.
 */
export function strikeOf(
  state: QuickMarketsState,
  known: AssetState,
  { speaker, startSec }: { readonly speaker: PriceSource; readonly startSec: number },
  context: QuickContext,
): Mark | undefined {
  // The opening does not wait for marks of other sources: the failover compared the active source with the other
  // sources a moment ago.
  const first = { source: speaker, boundarySec: startSec, aloneAfterMs: 0 }
  const own = reliable(state, known, first, context)
  const isLate = context.nowMs >= startSec * 1_000 + state.options.graceMs
  if (own !== undefined || !isLate) return own
  const others = state.options.sources.filter((source) => source !== speaker)
  for (const source of others) {
    const mark = reliable(state, known, { source, boundarySec: startSec }, context)
    if (mark !== undefined) return mark
  }
  // No source has a reliable mark yet. From `2 * graceMs` on, accept an inexact mark even if the source's history
  // cannot be read, because otherwise no market would open. The time in the mark shows how late its price is.
  const { graceMs } = state.options
  for (const source of [speaker, ...others]) {
    const asked = { source, boundarySec: startSec }
    const mark = reliable(state, known, { ...asked, inexactAfterMs: 2 * graceMs }, context)
    if (mark !== undefined) return mark
  }
  return undefined
}

/** The result that the prices give: an outcome, or that the market is contested. */
export type Verdict = { readonly resolution: QuickResolution; readonly isContested: boolean }

/**
 * Returns the verdict that the reports so far allow; undefined if more reports may arrive. First judges the market by
 * the source of its strike. If this gives no verdict within `ownMs` after the end, judges the market by the first
 * fallback with reports of start and end.
 */
export function verdictOn(
  state: QuickMarketsState,
  quickMarket: QuickMarket,
  context: QuickContext,
): Verdict | undefined {
  const known = state.assets.get(quickMarket.asset)
  if (known === undefined) return undefined
  const { strike, startSec } = quickMarket
  const endSec = endSecOf(quickMarket)
  const { sources, ownMs } = state.options
  const markAt = (source: PriceSource, boundarySec: number): Mark | undefined =>
    reliable(state, known, { source, boundarySec }, context)
  const own = markAt(strike.source, endSec)
  if (own !== undefined) {
    const verdict = judge(state, known, { quickMarket, start: strike, end: own }, context)
    if (verdict !== undefined) return verdict
  }
  if (context.nowMs < endSec * 1_000 + ownMs) return undefined
  let isPlausible = own !== undefined
  for (const source of sources) {
    if (source === strike.source) continue
    // Request both marks before checking either, so that two missing marks are requested together.
    const start = markAt(source, startSec)
    const end = markAt(source, endSec)
    if (start === undefined || end === undefined) continue
    isPlausible = true
    const verdict = judge(state, known, { quickMarket, start, end }, context)
    if (verdict !== undefined) return verdict
  }
  return isPlausible ? undefined : implausible(state, known, quickMarket, context)
}

/**
 * Returns a contested verdict for a market that would otherwise wait forever, because no source has reliable reports of
 * both start and end. Uses the first source that has both reports, and whose end price differs too much from all other
 * end prices. Returns undefined if there is no such source, or while reports may still arrive.
 */
function implausible(
  state: QuickMarketsState,
  known: AssetState,
  quickMarket: QuickMarket,
  context: QuickContext,
): Verdict | undefined {
  const { asset, startSec, strike } = quickMarket
  const { sources } = state.options
  const endSec = endSecOf(quickMarket)
  const isRequested = sources
    .flatMap((source) => [startSec, endSec].map((boundarySec) => ({ source, boundarySec })))
    .map((asked) => ask(state, known, { asset, ...asked }, context))
    .every(({ failures }) => failures > 0)
  if (!isRequested) return undefined
  for (const source of new Set([strike.source, ...sources])) {
    const start = source === strike.source ? strike : known.marks.get(startSec)?.get(source)
    const end = known.marks.get(endSec)?.get(source)
    if (start === undefined || end === undefined) continue
    if (standing(state, known, end) !== 'contradicted') continue
    const reports = sourcesOf(state, known, { quickMarket, start, end }, context)
    if (reports === undefined) return undefined
    const outcome = outcomeOf(start.price, end.price)
    return { resolution: { source, start, end, outcome, sources: reports }, isContested: true }
  }
  return undefined
}

/**
 * Returns the verdict on a market by the prices of the judged source, which would decide the market. Returns undefined
 * while reports may still arrive. Also returns undefined if the average is incomplete and the market is not contested.
 *
 * If more sources moved in the direction of the judged source than against it, the end price decides. Otherwise the
 * average of the same source before the end decides, unless the market is contested.
 *
 * The market is contested if two conditions are true. First, at least as many sources contradict the judged source by
 * more than `agreementBps` as support it. Second, the average gives the same outcome as the end price, or is still
 * incomplete when `ownMs` have passed since the end.
 *
 * Example with an `agreementBps` of 10: pyth is the judged source and moves from 100 to 99.6, at the end and on
 * average. Binance and coinbase move from 100 to 100.2. Both contradict pyth by 60 basis points, so the market is
 * contested.
 */
function judge(
  state: QuickMarketsState,
  known: AssetState,
  judged: Judged,
  context: QuickContext,
): Verdict | undefined {
  const { quickMarket, start, end } = judged
  const { source } = end
  const outcome = outcomeOf(start.price, end.price)
  const sources = sourcesOf(state, known, judged, context)
  if (sources === undefined) return undefined
  const votes = votesOn({ source, start, end }, sources, state.options.agreementBps)
  const resolution = { source, start, end, outcome, sources }
  if (votes.supporters > votes.opponents) return { resolution, isContested: false }
  const isFar = votes.farOpponents >= votes.supporters
  const endSec = endSecOf(quickMarket)
  const secs = averagedSecs(endSec, quickMarket.intervalSec)
  const marks = secs.flatMap(
    (boundarySec) => reliable(state, known, { source, boundarySec }, context) ?? [],
  )
  if (marks.length < secs.length) {
    const isLate = context.nowMs >= endSec * 1_000 + state.options.ownMs
    return isLate && isFar ? { resolution, isContested: true } : undefined
  }
  const average = averageOf(marks)
  const decided = outcomeOf(start.price, average.price)
  return {
    resolution: { ...resolution, outcome: decided, average },
    isContested: isFar && decided === outcome,
  }
}
