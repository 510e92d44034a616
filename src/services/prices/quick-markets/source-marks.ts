/**
 * Collects the reports (prices) of every source at a market's start and end. Decides which missing reports to wait for,
 * and which sources have a vote on the outcome.
 */

import type { PriceSource } from '#domain/price-providers.ts'
import {
  averagedSecs,
  endSecOf,
  type Mark,
  type QuickMarket,
  type SourceMarks,
} from '#domain/quick-market.ts'
import { votesOn } from '#domain/quick-votes.ts'
import { ask, standing } from './marks.ts'
import type { AssetState, QuickContext, QuickMarketsState } from './state.ts'

/**
 * A market that has ended. `start` and `end` are reports of the judged source, whose prices would decide the market.
 */
export type Judged = {
  readonly quickMarket: QuickMarket
  readonly start: Mark
  readonly end: Mark
}

/**
 * Returns the reports of all sources, or undefined while a report is awaited. A source is present if it reported in the
 * minute before the end of the market.
 *
 * Waits for exact reports of every present source, at most until 1.5 × `graceMs` after the end. So the verdict depends
 * neither on restarts nor on the order in which reports arrive. Then, if the prices of no other present source moved
 * like those of the judged (deciding) source, requests the history of each absent source once.
 */
export function sourcesOf(
  state: QuickMarketsState,
  known: AssetState,
  judged: Judged,
  context: QuickContext,
): readonly SourceMarks[] | undefined {
  const { sources, patienceMs, graceMs, agreementBps } = state.options
  const { asset, startSec, intervalSec, strike } = judged.quickMarket
  const endSec = endSecOf(judged.quickMarket)
  const sinceMs = context.nowMs - endSec * 1_000
  const own = judged.end.source
  const secs = averagedSecs(endSec, intervalSec)
  const isPresent = (source: PriceSource): boolean =>
    secs.some((sec) => known.marks.get(sec)?.has(source))
  const markAt = (source: PriceSource, sec: number): Mark | null => {
    if (source === own) return sec === startSec ? judged.start : judged.end
    if (source === strike.source && sec === startSec) return strike
    return known.marks.get(sec)?.get(source) ?? null
  }
  const isAwaited = (source: PriceSource, boundarySec: number): boolean => {
    const mark = markAt(source, boundarySec)
    if (source === own || mark === strike || mark?.exact || sinceMs >= 1.5 * graceMs) return false
    if (sinceMs < patienceMs) return true
    const { failures } = ask(state, known, { asset, source, boundarySec }, context)
    return isPresent(source) || failures === 0
  }
  /**
   * Returns whether a report of these sources is awaited. Calls `isAwaited` for both boundaries even if the first call
   * returns true, because `isAwaited` also requests missing reports.
   */
  const areAwaited = (some: readonly PriceSource[]): boolean =>
    some
      .flatMap((source) => [isAwaited(source, startSec), isAwaited(source, endSec)])
      .includes(true)
  const reported = (): SourceMarks[] =>
    sources.map((source) => {
      const [start, end] = [markAt(source, startSec), markAt(source, endSec)]
      const counts = [start, end].every(
        (mark) => mark !== null && standing(state, known, mark) !== 'contradicted',
      )
      return { source, start, end, counts: counts || source === own }
    })

  if (areAwaited(sources.filter(isPresent))) return undefined
  const present = reported().filter(({ source }) => isPresent(source))
  const isConfirmed = votesOn({ ...judged, source: own }, present, agreementBps).supporters > 1
  const absent = sources.filter((source) => !isPresent(source))
  if (!isConfirmed && areAwaited(absent)) return undefined
  return reported()
}
