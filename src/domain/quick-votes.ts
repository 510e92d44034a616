/**
 * Votes of price sources on the outcome of a quick market. Each source votes by its own prices at the start and at the
 * end.
 */

import { YES } from './order.ts'
import type { PriceSource } from './price-providers.ts'
import { type Mark, outcomeOf, type QuickResolution, type SourceMarks } from './quick-market.ts'

const BPS = 10_000

/**
 * Returns the change of a source's price from start to end, in basis points. Returns undefined if either price is
 * missing.
 */
export function moveBps({ start, end }: Pick<SourceMarks, 'start' | 'end'>): number | undefined {
  if (start === null || end === null) return undefined
  return ((end.price - start.price) / start.price) * BPS
}

type Votes = {
  /**
   * Number of sources whose price moved in the same direction as that of the judged source, including the judged
   * source. The judged source is the source whose price move the votes confirm or contradict.
   */
  readonly supporters: number
  readonly opponents: number
  /**
   * Number of sources that moved in the opposite direction, and whose price change differs from that of the judged
   * source by more than `boundBps`.
   */
  readonly farOpponents: number
}

/**
 * Compares each source's price move from start to end with the move of the judged source. Counts the moves in the same
 * direction and those in the opposite direction. If both prices of the judged source are equal, its direction counts as
 * up. If both prices of another source are equal, that source is not counted.
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
    ({ source, start, end }) => `${source} reported ${reportText(start)}, then ${reportText(end)}`,
  )
  const text =
    'The price sources contradict each other (USD, 8 decimals, Unix milliseconds): ' +
    `${lines.join('; ')}.`
  return text.slice(0, EVIDENCE_CHARS_MAX)
}
