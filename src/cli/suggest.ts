/** Suggests the intended word for an unknown name. */

import { typosBetween } from '#domain/nearest-name.ts'

const DISTANCE_MAX = 2

/**
 * Returns the known word that begins with the given name, if there is exactly one. Otherwise returns the most similar
 * known word with at most two typos.
 */
export function suggest(word: string, known: readonly string[]): string | undefined {
  const lower = word.toLowerCase()
  const begun = known.filter((each) => lower.length > 1 && each.startsWith(lower))
  if (begun.length === 1) return begun[0]
  const near = known
    .map((each) => ({ each, slips: typosBetween(lower, each) }))
    .filter(({ each, slips }) => slips <= Math.min(DISTANCE_MAX, each.length - 1))
    .sort((a, b) => a.slips - b.slips)
  return near[0]?.each
}
