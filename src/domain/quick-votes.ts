/**
 * Votes of price sources on the outcome of a quick market. Each source votes by its own prices at the start and at the
 * end.
 */

import { YES } from './order.ts'
import type { PriceSource } from './price-providers.ts'
import { type Mark, outcomeOf, type QuickResolution, type SourceMarks } from './quick-market.ts'

const BPS = 10_000

/** Returns the move of a source's price in basis points; undefined if the start or the end is missing. */
export function moveBps({ start, end }: Pick<SourceMarks, 'start' | 'end'>): number | undefined {
  if (start === null || end === null) return undefined
  return ((end.price - start.price) / start.price) * BPS
}

type Votes = {
  /**
   * Number of sources whose price moved in the same direction as the judged source's price, including the
   * judged source.
   */
  readonly supporters: number
  readonly opponents: number
  /** Number of opponents whose price move differs from the judged source's move by more than the bound. */
  readonly farOpponents: number
}

/**
 * Counts the sources whose price moved in the same direction as the judged source's price, and those whose price moved
 * in the opposite direction. If the judged source's two prices are equal, its direction counts as up. Any other source
 * with two equal prices has no vote.
 */
export function votesOn(
  judged: { readonly source: PriceSource; readonly start: Mark; readonly end: Mark },
  others: readonly SourceMarks[],
  boundBps: number,
): Votes {
  const own = moveBps(judged) ?? 0
  const isUp = outcomeOf(judged.start.price, judged.end.price) === YES
  let [supporters, opponents, farOpponents] = [1, 0, 0]
  for (const other of others) {
    const move = moveBps(other) ?? 0
    if (other.source === judged.source || !other.counts || move === 0) continue
    if (move > 0 === isUp) {
      supporters++
      continue
    }
    opponents++
    if (Math.abs(move - own) > boundBps) farOpponents++
  }
  return { supporters, opponents, farOpponents }
}

/** Maximum size of evidence that the contract accepts, in bytes. */
const EVIDENCE_CHARS_MAX = 1_024

/** Describes the reports of every source in a text that a disputer at the oracle can check. */
export function evidenceText({ sources = [] }: QuickResolution): string {
  const reportText = (mark: Mark | null): string =>
    mark === null ? 'nothing' : `${mark.price} at ${mark.atMs}`
  const lines = sources.map(
    ({ source, start, end }) => `${source} said ${reportText(start)}, then ${reportText(end)}`,
  )
  const text =
    'The price sources contradict each other (USD, 8 decimals, Unix milliseconds): ' +
    `${lines.join('; ')}.`
  return text.slice(0, EVIDENCE_CHARS_MAX)
}
