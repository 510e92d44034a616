/**
 * Marks: the first prices that the sources report at or after certain moments. One kind of moment is a boundary, at
 * which markets begin and end. The other is a sampled second before a boundary, for an average price. This file decides
 * which marks are kept, which are reliable, and which must be requested from the source.
 */

import { deviation, type Observation } from '#domain/asset-price.ts'
import type { PriceSource } from '#domain/price-providers.ts'
import {
  averagedSecs,
  averagedStepSec,
  boundaryAt,
  endSecOf,
  type Mark,
} from '#domain/quick-market.ts'
import { fresh, messageOf } from './attempts.ts'
import type { Asked, AssetState, Question, QuickContext, QuickMarketsState } from './state.ts'

/**
 * Number of boundaries (starts and ends of markets) whose marks (first prices of each source) are kept, in addition to
 * the boundaries of undecided markets.
 */
const BOUNDARIES_KEPT = 4
const MARKS_WRITE_MS = 1_000
/**
 * Maximum number of marks that wait to be written to the database. A mark that is dropped can be read again from the
 * history of its source.
 */
const MARKS_WAITING_MAX = 1_000
/**
 * Age at which marks are deleted from the database. The marks that decided a market are also stored with that market.
 */
const MARKS_KEPT_SEC = 2 * 86_400

/**
 * Keeps an observation as a mark if it is the first one of its source at or after a certain moment. The moment is a
 * boundary, or a second whose price counts in an average. Returns whether the observation was kept.
 */
export function markOf(
  state: QuickMarketsState,
  known: AssetState,
  observation: Observation,
): boolean {
  const { gapMs } = state.options
  const { source, atMs, line, via } = observation
  const before = known.lastReports.get(source)
  known.lastReports.set(source, { atMs, line })
  let isNew = false
  for (const boundarySec of secsMarkedBy(state, atMs)) {
    if (known.marks.get(boundarySec)?.has(source)) continue
    const boundaryMs = boundarySec * 1_000
    const unbroken =
      via === 'stream' &&
      before !== undefined &&
      before.line === line &&
      before.atMs < boundaryMs &&
      before.atMs >= boundaryMs - gapMs &&
      atMs <= boundaryMs + gapMs
    const mark = { ...markFields(observation, boundarySec), exact: unbroken }
    keepMark(known, mark)
    state.marksWaiting.push(mark)
    isNew = true
  }
  return isNew
}

/** Records that a source's report was lost or invalid, so that the source's next mark does not count as exact. */
export function noteMissed(
  { asset, lastReports }: AssetState,
  {
    source,
    observation,
  }: { readonly source: PriceSource; readonly observation: Observation | undefined },
): void {
  if (observation !== undefined && observation.asset !== asset) return
  // If the missed report is newer than the last report, forget the last report: the next mark is then not exact. An
  // older missed report leaves no gap.
  if ((observation?.atMs ?? Number.POSITIVE_INFINITY) > (lastReports.get(source)?.atMs ?? 0))
    lastReports.delete(source)
}

/**
 * Returns the moments, in seconds, for which a report at `atMs` may be its source's first report. A moment is the last
 * boundary, or a sampled second (whose price counts in an average).
 */
function secsMarkedBy({ options }: QuickMarketsState, atMs: number): number[] {
  const { intervalSec } = options
  const boundarySec = boundaryAt(atMs, intervalSec)
  const secs = atMs - boundarySec * 1_000 <= options.withinMs ? [boundarySec] : []
  const stepMs = averagedStepSec(intervalSec) * 1_000
  const isNear = (sec: number): boolean => sec * 1_000 <= atMs && atMs < sec * 1_000 + stepMs
  for (const endSec of [boundarySec, boundarySec + intervalSec]) {
    secs.push(...averagedSecs(endSec, intervalSec).filter(isNear))
  }
  return secs
}

/** Returns how long after a boundary, or after a sampled second, a report still counts for that moment. */
function withinMsOf({ options }: QuickMarketsState, boundarySec: number): number {
  const { intervalSec, withinMs } = options
  return boundarySec % intervalSec === 0 ? withinMs : averagedStepSec(intervalSec) * 1_000 - 1
}

export function markFields(observation: Observation, boundarySec: number): Omit<Mark, 'exact'> {
  const { asset, source, price, atMs, receivedAtMs, via, raw } = observation
  return { asset, source, boundarySec, price, atMs, receivedAtMs, via, raw }
}

export function keepMark(known: AssetState, mark: Mark): void {
  let marks = known.marks.get(mark.boundarySec)
  if (marks === undefined) {
    marks = new Map()
    known.marks.set(mark.boundarySec, marks)
  }
  marks.set(mark.source, mark)
}

/**
 * Compares a mark with other sources' marks of the same boundary: `confirmed` if another mark agrees, `contradicted` if
 * other marks exist and none agrees, `alone` if there is no other mark.
 */
export function standing(
  state: QuickMarketsState,
  known: AssetState,
  mark: Mark,
): 'confirmed' | 'contradicted' | 'alone' {
  const others = [...(known.marks.get(mark.boundarySec)?.values() ?? [])].filter(
    ({ source }) => source !== mark.source,
  )
  if (others.length === 0) return 'alone'
  const { deviationMax } = state.options
  const isConfirmed = others.some(({ price }) => deviation(price, mark.price) <= deviationMax)
  return isConfirmed ? 'confirmed' : 'contradicted'
}

/**
 * Returns the mark of a source at a boundary if the mark is reliable. Otherwise requests the missing reports and
 * returns undefined. All times count from the boundary. An inexact mark is accepted after `graceMs` if the source's
 * history has no price, or after `inexactAfterMs` if the history could not be read. If no other source has a mark at
 * the boundary, the mark is accepted after `aloneAfterMs`.
 */
export function reliable(
  state: QuickMarketsState,
  known: AssetState,
  asked: Pick<Asked, 'source' | 'boundarySec'> & {
    readonly inexactAfterMs?: number
    readonly aloneAfterMs?: number
  },
  context: QuickContext,
): Mark | undefined {
  const { patienceMs, graceMs, ownMs, sources } = state.options
  const { source, boundarySec } = asked
  const mark = known.marks.get(boundarySec)?.get(source)
  const sinceMs = context.nowMs - boundarySec * 1_000
  const stands = mark === undefined ? undefined : standing(state, known, mark)
  const { asset } = known
  // A live mark was compared with the prices of other sources when it arrived. A mark from a history was not. So if no
  // other source has a mark, a mark from a history is accepted only after the other histories were tried too.
  const isAlone = (): boolean =>
    mark?.via !== 'history' ||
    sources
      .filter((other) => other !== source)
      .map((other) => ask(state, known, { asset, source: other, boundarySec }, context))
      .every(({ failures }) => failures > 0)
  const believable =
    mark !== undefined &&
    (stands === 'confirmed' ||
      (stands === 'alone' && sinceMs >= (asked.aloneAfterMs ?? patienceMs) && isAlone()))
  if (believable && mark.exact) return mark
  if (sinceMs < patienceMs) return undefined
  const question = ask(state, known, { asset, source, boundarySec }, context)
  if (mark !== undefined && !believable) {
    // Request the missing reports of the other sources: only a comparison with these reports shows which mark is right.
    for (const other of sources) {
      if (known.marks.get(boundarySec)?.has(other)) continue
      ask(state, known, { asset, source: other, boundarySec }, context)
    }
  }
  if (!believable || question.failures === 0) return undefined
  return sinceMs >= (question.unknown ? graceMs : (asked.inexactAfterMs ?? ownMs))
    ? mark
    : undefined
}

export const questionKey = ({ source, boundarySec }: Asked): string => `${boundarySec} ${source}`

export function ask(
  state: QuickMarketsState,
  known: AssetState,
  asked: Asked,
  context: QuickContext,
): Question {
  const key = questionKey(asked)
  const question = known.questions.get(key) ?? { ...fresh(), unknown: false }
  known.questions.set(key, question)
  if (question.pending || question.nextAtMs > context.nowMs) return question
  question.pending = true
  const withinMs = withinMsOf(state, asked.boundarySec)
  context.pipe(
    state.ports.priceAt(asked.source, asked.asset, asked.boundarySec * 1_000, withinMs),
    (observation) => ({ type: 'HistoryRead', message: { ...asked, observation } }),
    (error) => ({ type: 'HistoryFailed', message: { ...asked, why: String(error) } }),
  )
  return question
}

/** Deletes old marks, except those that an undecided market needs. */
export function forget(state: QuickMarketsState, known: AssetState, nowMs: number): void {
  if (known.marks.size <= BOUNDARIES_KEPT) return
  const { intervalSec } = state.options
  const recentSec = boundaryAt(nowMs, intervalSec) - BOUNDARIES_KEPT * intervalSec
  const needed = new Set<number>()
  for (const { quickMarket } of state.rows.values()) {
    if (quickMarket.asset !== known.asset || quickMarket.resolution !== null) continue
    const endSec = endSecOf(quickMarket)
    needed.add(quickMarket.startSec).add(endSec)
    for (const sec of averagedSecs(endSec, quickMarket.intervalSec)) needed.add(sec)
  }
  for (const boundarySec of known.marks.keys()) {
    if (boundarySec < recentSec && !needed.has(boundarySec)) known.marks.delete(boundarySec)
  }
  for (const [key, { pending }] of known.questions) {
    const boundarySec = Number(key.slice(0, key.indexOf(' ')))
    if (boundarySec < recentSec && !needed.has(boundarySec) && !pending) known.questions.delete(key)
  }
}

export function writeMarks(state: QuickMarketsState, context: QuickContext): void {
  const { marksWaiting } = state
  if (state.marksWriting > 0 || marksWaiting.length === 0) return
  if (context.nowMs - state.marksAtMs < MARKS_WRITE_MS) return
  if (marksWaiting.length > MARKS_WAITING_MAX) {
    marksWaiting.splice(0, marksWaiting.length - MARKS_WAITING_MAX)
  }
  const marks = [...marksWaiting]
  state.marksWriting = marks.length
  state.marksAtMs = context.nowMs
  const fromSec = Math.floor(context.nowMs / 1_000) - MARKS_KEPT_SEC
  context.pipe(
    state.ports.recordMarks({ marks, fromSec }),
    () => ({ type: 'MarksWritten', message: { count: marks.length } }),
    (error) => ({ type: 'MarksNotWritten', message: { why: messageOf(error) } }),
  )
}
