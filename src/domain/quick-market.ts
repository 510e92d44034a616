/**
 * Quick markets: consecutive markets of an asset, each from one boundary of the clock to the next. The outcome is YES
 * if the price at the end is at or above the price at the start. Both prices come from one source, and the start price
 * (the strike) never changes.
 */

import type { ObservedVia } from './asset-price.ts'
import type { Address, MarketId } from './ids.ts'
import type { Matching } from './market.ts'
import { NO, type Outcome, YES } from './order.ts'
import type { PriceSource } from './price-providers.ts'

/** A source's first observation at or after a boundary. */
export type Mark = {
  readonly asset: string
  readonly source: PriceSource
  readonly boundarySec: number
  readonly price: number
  readonly atMs: number
  readonly receivedAtMs: number
  readonly via: ObservedVia
  /**
   * True if the provider cannot have an earlier observation after the boundary: this one was pushed without a
   * gap, or comes from its history.
   */
  readonly exact: boolean
  /** The provider's report, unchanged. */
  readonly raw: string
}

/** Basis of the outcome: two marks of one source, or its average if half of the sources contradict it. */
export type QuickResolution = {
  readonly source: PriceSource
  readonly start: Mark
  readonly end: Mark
  readonly outcome: Outcome
  /** Reports of every source for start and end, including the deciding one. */
  readonly sources?: readonly SourceMarks[]
  /** Other sources with a report of the end; rows of earlier versions have this instead of `sources`. */
  readonly compared?: readonly { readonly start: Mark | null; readonly end: Mark }[]
  /** Mean that decided instead of the end. */
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
   * True if it has a vote: it reported both prices, and another source is near both of them, or no other source
   * reported.
   */
  readonly counts: boolean
}

/** Mean of a source's reports at equal intervals before an end, rounded down. */
type AveragePrice = { readonly price: number; readonly marks: readonly Mark[] }

/** Terms of a quick market before it has a number. */
export type QuickTerms = {
  readonly marketId: MarketId
  readonly chainId: number
  readonly contractAddress: Address
  readonly asset: string
  readonly startSec: number
  readonly intervalSec: number
  readonly strike: Mark
  readonly createdAtMs: number
  /** Chosen when it is recorded; `same-outcome` if absent. Its book and its contract have the same rule. */
  readonly matching?: Matching
}

export type QuickMarket = QuickTerms & {
  readonly id: number
  /** Reports of sources that contradict each other. Their outcome is that of one source only. */
  readonly contested: QuickResolution | null
  readonly resolution: QuickResolution | null
  readonly resolvedAtMs: number | null
  /** Transactions that created the market, and that reported its outcome or opened it to the oracle; '' until then. */
  readonly createTxHash: string
  readonly reportTxHash: string
  /** Progress on chain. */
  readonly onChain: QuickChainStage
}

/**
 * Origin of the outcome. `open`: none yet. `prices`. `contested`: the price sources contradict each other and the
 * market waits for the optimistic oracle. `oracle`: the oracle decided a contested market.
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

/** Returns the boundary at or before an instant. */
export function boundaryAt(atMs: number, intervalSec: number): number {
  return Math.floor(atMs / 1_000 / intervalSec) * intervalSec
}

/** At or above the start is YES. */
export function outcomeOf(startPrice: number, endPrice: number): Outcome {
  return endPrice >= startPrice ? YES : NO
}

/** Returns the end price to show: the one that decided. */
export function endPriceOf({ resolution }: QuickMarket): number | null {
  return resolution === null ? null : decidingPrice(resolution)
}

/** Returns the price that was compared with the start. */
export function decidingPrice({ end, average }: Pick<QuickResolution, 'end' | 'average'>): number {
  return average?.price ?? end.price
}

/** Limits of the average before the end: its length in seconds, and its number of reports. */
const AVERAGE_SEC = 60
const AVERAGE_COUNT = 6

/** Returns the seconds before an end at which a source's average takes its reports, earliest first. */
export function averagedSecs(endSec: number, intervalSec: number): number[] {
  const { stepSec, count } = averaging(intervalSec)
  return Array.from({ length: count }, (_, at) => endSec - (count - at) * stepSec)
}

/** Returns the seconds between these reports. A report that is later than this does not count for its second. */
export function averagedStepSec(intervalSec: number): number {
  return averaging(intervalSec).stepSec
}

/** A short market is averaged over at most its second half. */
function averaging(intervalSec: number): { readonly stepSec: number; readonly count: number } {
  const windowSec = Math.min(AVERAGE_SEC, Math.floor(intervalSec / 2))
  const count = Math.min(AVERAGE_COUNT, windowSec)
  return { stepSec: Math.floor(windowSec / count), count }
}

export function averageOf(marks: readonly Mark[]): AveragePrice {
  const sum = marks.reduce((total, { price }) => total + BigInt(price), 0n)
  return { price: Number(sum / BigInt(marks.length)), marks }
}
