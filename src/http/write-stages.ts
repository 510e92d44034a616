/**
 * Durations of the stages of one write in milliseconds, as its front measures them; -1 if a stage was not reached. If
 * the client sends the header `x-server-timing`, the answer contains the durations in `Server-Timing`.
 */

import type { CommandTimes } from '#runtime/channel.ts'
import { monotonicMs } from '#runtime/clock.ts'
import { STAGES, type StageMeter } from '#runtime/stage-meter.ts'
import type { OpenSpan } from '#runtime/trace.ts'

/** Request header that asks for the stage durations. Any non-empty value counts. */
export const TIMING_HEADER = 'x-server-timing'

export type WriteStages = {
  /** True if the client asked for the stages. */
  readonly asked: boolean
  parse: number
  authenticate: number
  verify: number
  /** Stage durations of the market thread; set only if the client asked for the stages or the request is traced. */
  market: CommandTimes | undefined
  /** Time at which the market thread sent its answer, by the clock that all threads share. */
  answerSentAtMs: number
  answer: number
  /** The span of the request, if it is traced. */
  readonly span: OpenSpan | undefined
}

export function newWriteStages(asked: boolean, span?: OpenSpan): WriteStages {
  return {
    asked,
    parse: -1,
    authenticate: -1,
    verify: -1,
    market: undefined,
    answerSentAtMs: -1,
    answer: -1,
    span,
  }
}

/**
 * Records the duration of a front's stage that began at `fromMs` and ends now. The meter receives the durations of all
 * requests. `stages` is undefined if this request does not collect its durations.
 */
export function endStage(
  stage: 'parse' | 'authenticate' | 'verify',
  fromMs: number,
  stages: WriteStages | undefined,
  meter: StageMeter | undefined,
): void {
  const tookMs = performance.now() - fromMs
  meter?.record(stage, tookMs)
  if (stages === undefined) return
  stages[stage] = tookMs
  stages.span?.part(stage, fromMs, fromMs + tookMs)
}

/** Returns the value of the header `Server-Timing`: milliseconds of each completed stage, and the total. */
export function serverTiming(stages: WriteStages, totalMs: number): string {
  const { parse, authenticate, verify, answer } = stages
  const all = { parse, authenticate, verify, ...stages.market, answer }
  const entries = STAGES.filter((stage) => (all[stage] ?? -1) >= 0).map(
    (stage) => `${stage};dur=${all[stage]?.toFixed(3)}`,
  )
  return [...entries, `total;dur=${totalMs.toFixed(3)}`].join(', ')
}

/**
 * Adds the stages of the market thread to the trace, and the time that its answer took to reach the front. Called when
 * the answer is written.
 */
export function traceMarket(
  { span, market, answerSentAtMs }: WriteStages,
  startedAtMs: number,
): void {
  if (span === undefined || answerSentAtMs < 0) return
  const nowMs = performance.now()
  // The market may run on another machine, whose clock differs. If the computed send time is before the request's start
  // or in the future, use the current time instead.
  const sentMs = nowMs - (monotonicMs() - answerSentAtMs)
  let toMs = sentMs >= startedAtMs && sentMs <= nowMs ? sentMs : nowMs
  span.part('answer', toMs, nowMs)
  if (market === undefined) return
  for (const stage of ['commit', 'match', 'queue'] as const) {
    const fromMs = toMs - market[stage]
    span.part(stage, fromMs, toMs)
    toMs = fromMs
  }
}
