/** Options that select a moment in the past. */

import type { PastMoment } from '#client/orderbook.ts'
import { OptionError, readInteger } from '#devnet/command.ts'

export const MOMENT_OPTIONS = {
  seq: { value: '<n>', help: 'shows the book after the market event with this sequence number' },
  at: { value: '<time>', help: 'shows the book at this time, such as 2026-11-18T12:00:00Z' },
} as const

/** Returns the selected moment; an empty object if no option selects one. */
export function readMoment(values: {
  readonly seq: string | undefined
  readonly at: string | undefined
}): PastMoment {
  const { seq, at } = values
  if (seq !== undefined && at !== undefined) throw new OptionError('give --seq or --at, not both')
  if (seq !== undefined) return { seq: readInteger('seq', seq, 1, Number.MAX_SAFE_INTEGER) }
  if (at === undefined) return {}
  const time = new Date(at)
  if (Number.isNaN(time.getTime())) {
    throw new OptionError('--at must be a time such as 2026-11-18T12:00:00Z')
  }
  return { at: time }
}
