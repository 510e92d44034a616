/**
 * Rows with each price source's reports about a quick market. Each row shows whether its source decided the outcome.
 */

import type { QuickMarketEvidence } from '#client/prices.ts'
import type { PriceObservation } from '#protocol/shapes/prices.ts'

export type EvidenceRow = {
  readonly source: string
  readonly start: PriceObservation | null
  readonly end: PriceObservation | null
  /**
   * Price move in basis points between the start and the end; null if the start price or the end price was not
   * reported.
   */
  readonly moveBps: number | null
  readonly counted: boolean
  /** True if the prices of this source decided the outcome. */
  readonly decided: boolean
}

/**
 * Returns a row for every price source. If an earlier version of the exchange decided the market, only
 * sources with stored prices have rows.
 */
export function evidenceRows(evidence: QuickMarketEvidence): readonly EvidenceRow[] {
  const { providers = [], decidedBy } = evidence
  if (providers.length > 0) {
    return providers.map(({ source, start, end, moveBps, counted }) => ({
      ...{ source, start, end, moveBps, counted },
      decided: source === decidedBy,
    }))
  }
  const { start, end, compared } = evidence
  const own = end === null ? [] : [{ start, end }]
  return [...own, ...compared].map((pair) => ({
    ...pair,
    source: pair.end.source,
    moveBps:
      pair.start === null
        ? null
        : ((pair.end.price - pair.start.price) / pair.start.price) * 10_000,
    counted: pair.start !== null,
    decided: pair.end.source === decidedBy,
  }))
}

/** Returns the sentence above the rows, about how the market was decided. */
export function evidenceWords({ decidedBy, average, quickMarket }: QuickMarketEvidence): string {
  if (quickMarket.verdict === 'contested') {
    return 'The price sources contradict each other, so the oracle decides.'
  }
  if (decidedBy === null) return 'The outcome is not decided yet.'
  if (decidedBy === 'oracle')
    return 'The price sources contradicted each other, so the oracle decided.'
  const own = decidedBy === quickMarket.priceSource
  const why = own ? '' : `, because ${quickMarket.priceSource} had no price at the end`
  const mean =
    average === null ? '' : ', by the mean of its last prices, because the sources did not agree'
  return `Decided by ${decidedBy}${mean}${why}.`
}
