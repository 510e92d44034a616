/**
 * The stages of one write as its front sees them; -1 is one that it has not been through. When the
 * client asks for them, by the header `x-server-timing`, they go into the answer's `Server-Timing`.
 */

import type { CommandTimes } from '#runtime/channel.ts'
import { STAGES } from '#runtime/stage-meter.ts'

/** The request header that asks; any value does. */
export const TIMING_HEADER = 'x-server-timing'

export type WriteStages = {
  /** Whether the client wants to know. */
  readonly asked: boolean
  parse: number
  authenticate: number
  verify: number
  /** Told by the market thread, and only when they were asked for. */
  market: CommandTimes | undefined
  /** When the market thread sent its answer, by the clock that all threads share. */
  answerSentAtMs: number
  answer: number
}

export function newWriteStages(asked: boolean): WriteStages {
  return {
    asked,
    parse: -1,
    authenticate: -1,
    verify: -1,
    market: undefined,
    answerSentAtMs: -1,
    answer: -1,
  }
}

/** The value of the header: milliseconds of each stage it went through, and of all. */
export function serverTiming(stages: WriteStages, totalMs: number): string {
  const { parse, authenticate, verify, answer } = stages
  const all = { parse, authenticate, verify, ...stages.market, answer }
  const entries = STAGES.filter((stage) => (all[stage] ?? -1) >= 0).map(
    (stage) => `${stage};dur=${all[stage]?.toFixed(3)}`,
  )
  return [...entries, `total;dur=${totalMs.toFixed(3)}`].join(', ')
}
