/**
 * Quick markets: consecutive markets of an asset, each from one boundary to the next. A boundary is a Unix time that is
 * a multiple of the market's length. The outcome is YES if the price at the end is at or above the price at the start.
 * Both prices come from one source, and the start price (the strike) never changes.
 */

import type { ObservedVia } from './asset-price.ts'
import type { Address, MarketId } from './ids.ts'
import type { Matching } from './market.ts'
import { NO, type Outcome, YES } from './order.ts'
import type { PriceSource } from './price-providers.ts'

/** A mark: the first price that a source reports at or after a boundary. */
export type Mark = {
  readonly asset: string
  readonly source: PriceSource
  readonly boundarySec: number
  readonly price: number
  readonly atMs: number
  readonly receivedAtMs: number
  readonly via: ObservedVia
  /**
   * True if this is certainly the provider's first observation at or after the boundary. This is certain if a stream
   * without a gap pushed it, or if it comes from the provider's history.
   */
  readonly exact: boolean
  /** The provider's report, unchanged. */
  readonly raw: string
}

/**
 * The prices that decided the outcome: a start mark and an end mark of one source. The end mark decides if, among the
 * voting sources, more moved in the same direction as this source than in the opposite direction. Otherwise `average`,
 * the source's mean price before the end, decides.
 */
export type QuickResolution = {
  readonly source: PriceSource
  readonly start: Mark
  readonly end: Mark
  readonly outcome: Outcome
  /** The reports of every source for start and end, including the deciding source. */
  readonly sources?: readonly SourceMarks[]
  /**
   * Marks of each source that reported the end of the market, except the deciding source. Rows of earlier versions have
   * this field instead of `sources`.
   */
  readonly compared?: readonly { readonly start: Mark | null; readonly end: Mark }[]
  /** Average that decided the outcome in place of the end mark. */
  readonly average?: AveragePrice
  /** True if the market was contested, and the oracle decided. */
  readonly byOracle?: true
}

/** A source's reports at the start and at the end of a market. */
export type SourceMarks = {
  readonly source: PriceSource
  readonly start: Mark | null
  readonly end: Mark | null
  /**
   * True if the source has a vote. Votes confirm or contradict the price move of one source, called the judged source,
   * which always has a vote. Any other source has a vote if it reported both prices and neither is contradicted. A
   * price is contradicted if other sources reported prices at the same boundary and none of these is similar.
   */
  readonly counts: boolean
}

/** Mean of a source's reports at equal intervals before the end of a market, rounded down. */
type AveragePrice = { readonly price: number; readonly marks: readonly Mark[] }

/** Terms of a quick market, set before the market has a row in the database. */
export type QuickTerms = {
  readonly marketId: MarketId
  readonly chainId: number
  readonly contractAddress: Address
  readonly asset: string
  readonly startSec: number
  readonly intervalSec: number
  readonly strike: Mark
  readonly createdAtMs: number
  /**
   * Matching rule, chosen when the market is stored; `same-outcome` if absent. The book and the contract of the market
   * have the same rule.
   */
  readonly matching?: Matching
}

export type QuickMarket = QuickTerms & {
  readonly id: number
  /**
   * Reports of the price sources, if they contradict each other and the oracle must decide. Null if the market is not
   * contested. The `outcome` in this record follows from the prices of one source, and does not resolve the market.
   */
  readonly contested: QuickResolution | null
  readonly resolution: QuickResolution | null
  readonly resolvedAtMs: number | null
  /**
   * `createTxHash`: transaction that created the market. `reportTxHash`: transaction that reported its outcome, or that
   * opened it to the oracle. Each hash is '' until its transaction is sent.
   */
  readonly createTxHash: string
  readonly reportTxHash: string
  /** Progress on chain. */
  readonly onChain: QuickChainStage
}

/**
 * Origin of the outcome. `open`: none yet. `prices`: the prices at the start and the end decided. `contested`: the
 * price sources contradict each other and the market waits for the optimistic oracle. `oracle`: the oracle decided a
 * contested market.
 */
export const QUICK_VERDICTS = ['open', 'prices', 'contested', 'oracle'] as const
type QuickVerdict = (typeof QUICK_VERDICTS)[number]

export function verdictOf({ resolution, contested }: QuickMarket): QuickVerdict {
  if (resolution !== null) return resolution.byOracle ? 'oracle' : 'prices'
  return contested === null ? 'open' : 'contested'
}

/** `contested`: the market is open to proposals at the oracle, and prices can no longer resolve it. */
const QUICK_CHAIN_STAGES = ['pending', 'created', 'contested', 'reported'] as const
export type QuickChainStage = (typeof QUICK_CHAIN_STAGES)[number]

export const endSecOf = (market: Pick<QuickTerms, 'startSec' | 'intervalSec'>): number =>
  market.startSec + market.intervalSec

/** Returns the last boundary at or before an instant, in Unix seconds. */
export function boundaryAt(atMs: number, intervalSec: number): number {
  return Math.floor(atMs / 1_000 / intervalSec) * intervalSec
}

/** Returns YES if the price at the end is at or above the price at the start, otherwise NO. */
export function outcomeOf(startPrice: number, endPrice: number): Outcome {
  return endPrice >= startPrice ? YES : NO
}

/** Returns the end price to show, which is the price that decided the outcome; null before the resolution. */
export function endPriceOf({ resolution }: QuickMarket): number | null {
  return resolution === null ? null : decidingPrice(resolution)
}

/** Returns the end price, or average, that was compared with the start price. */
export function decidingPrice({ end, average }: Pick<QuickResolution, 'end' | 'average'>): number {
  return average?.price ?? end.price
}

/**
 * Limits for averaging a source's prices before the end of a market: maximum period in seconds, and maximum number of
 * reports.
 */
const AVERAGE_SEC = 60
const AVERAGE_COUNT = 6

/**
 * Returns the times at which a source's price is sampled for the average before the end of a market, in Unix seconds,
 * earliest first.
 */
export function averagedSecs(endSec: number, intervalSec: number): number[] {
  const { stepSec, count } = averaging(intervalSec)
  return Array.from({ length: count }, (_, at) => endSec - (count - at) * stepSec)
}

/**
 * Returns the interval in seconds between the samples of an average. A report counts for a sample only if it is made
 * less than one interval after the sample's time.
 */
export function averagedStepSec(intervalSec: number): number {
  return averaging(intervalSec).stepSec
}

/**
 * Returns the interval in seconds between the samples of an average, and their number. In a short market the samples
 * cover at most its second half.
 */
function averaging(intervalSec: number): { readonly stepSec: number; readonly count: number } {
  const windowSec = Math.min(AVERAGE_SEC, Math.floor(intervalSec / 2))
  const count = Math.min(AVERAGE_COUNT, windowSec)
  return { stepSec: Math.floor(windowSec / count), count }
}

export function averageOf(marks: readonly Mark[]): AveragePrice {
  const sum = marks.reduce((total, { price }) => total + BigInt(price), 0n)
  return { price: Number(sum / BigInt(marks.length)), marks }
}
