/** Chooses the marks that count: the strike of a new market, and the end of a finished one. */

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
import { reliable } from './marks.ts'
import { type Judged, sourcesOf } from './source-marks.ts'
import type { AssetState, QuickContext, QuickMarketsState } from './state.ts'

/** Returns the mark of the active source; after `graceMs`, of the first other source that has one. */
export function strikeOf(
  state: QuickMarketsState,
  known: AssetState,
  { speaker, startSec }: { readonly speaker: PriceSource; readonly startSec: number },
  context: QuickContext,
): Mark | undefined {
  // The active source was compared with the others a moment ago, so a start does not wait for them.
  const first = { source: speaker, boundarySec: startSec, aloneAfterMs: 0 }
  const own = reliable(state, known, first, context)
  const isLate = context.nowMs >= startSec * 1_000 + state.options.graceMs
  if (own !== undefined || !isLate) return own
  const others = state.options.sources.filter((source) => source !== speaker)
  for (const source of others) {
    const mark = reliable(state, known, { source, boundarySec: startSec }, context)
    if (mark !== undefined) return mark
  }
  // A strike that is some seconds late is better than no market; the mark has its time.
  const { graceMs } = state.options
  for (const source of [speaker, ...others]) {
    const asked = { source, boundarySec: startSec }
    const mark = reliable(state, known, { ...asked, inexactAfterMs: 2 * graceMs }, context)
    if (mark !== undefined) return mark
  }
  return undefined
}

/** The result of the prices: an outcome, or a contested market. */
export type Verdict = { readonly resolution: QuickResolution; readonly isContested: boolean }

/**
 * Returns the verdict that the sources allow so far. The strike's own source is judged first. If it has no report
 * within `ownMs`, the first fallback with reports of both instants is judged instead.
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
  for (const source of sources) {
    if (source === strike.source) continue
    // Requests both reports at once, whichever is missing.
    const start = markAt(source, startSec)
    const end = markAt(source, endSec)
    if (start === undefined || end === undefined) continue
    const verdict = judge(state, known, { quickMarket, start, end }, context)
    if (verdict !== undefined) return verdict
  }
  return undefined
}

/**
 * Returns the verdict; undefined while reports may still arrive, or if nothing decides. The end price decides if more
 * sources vote for its side than for the other. Otherwise the mean of the same source before the end decides, unless
 * the market is contested: the mean confirms the end price, and the sources that contradict it by more than
 * `agreementBps` are at least as many as those that support it. An example with a bound of 10: pyth 100 to 99.6, at
 * the end and on average; binance and coinbase 100 to 100.2. Two sources, 60 basis points away, contradict one:
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
