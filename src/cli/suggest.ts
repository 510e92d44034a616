/** The word that was probably meant: for a name that is not known. */

import { slipsBetween } from '#domain/nearest-name.ts'

const DISTANCE_MAX = 2

/** One that begins with it, or is at most two slips away from it. */
export function suggest(word: string, known: readonly string[]): string | undefined {
  const lower = word.toLowerCase()
  const begun = known.filter((each) => lower.length > 1 && each.startsWith(lower))
  if (begun.length === 1) return begun[0]
  const near = known
    .map((each) => ({ each, slips: slipsBetween(lower, each) }))
    .filter(({ each, slips }) => slips <= Math.min(DISTANCE_MAX, each.length - 1))
    .sort((a, b) => a.slips - b.slips)
  return near[0]?.each
}
