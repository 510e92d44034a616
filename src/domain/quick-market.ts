/**
 * Quick markets: one after the other for each asset, from one boundary of the clock to the next, on
 * whether the price at the end is at or above the price at the start. Both prices come from one
 * source, and the one at the start, the strike, never changes.
 */

import type { ObservedVia, PriceSource } from './asset-price.ts'
import type { Address, MarketId } from './ids.ts'
import { NO, type Outcome, YES } from './order.ts'

/** What a source reported at a boundary: its first observation at or after it. */
export type Mark = {
  readonly asset: string
  readonly source: PriceSource
  readonly boundarySec: number
  readonly price: number
  readonly atMs: number
  readonly receivedAtMs: number
  readonly via: ObservedVia
  /** Whether nothing can have come before it: what was pushed without a gap, or the provider's past. */
  readonly exact: boolean
  /** The provider's report as it came. */
  readonly raw: string
}

/** How the outcome follows: two marks of one source, or its average where half of the sources contradict it. */
export type QuickResolution = {
  readonly source: PriceSource
  readonly start: Mark
  readonly end: Mark
  readonly outcome: Outcome
  /** The reports of every source about start and end, the deciding one included. */
  readonly sources?: readonly SourceMarks[]
  /** The other sources with a report of the end; rows of earlier versions have this instead of `sources`. */
  readonly compared?: readonly { readonly start: Mark | null; readonly end: Mark }[]
  /** The mean that decided instead of the end. */
  readonly average?: AveragePrice
  /** The market was contested, and its outcome is that of the oracle. */
  readonly byOracle?: true
}

/** What one source reported at the start and at the end of a market. */
export type SourceMarks = {
  readonly source: PriceSource
  readonly start: Mark | null
  readonly end: Mark | null
  /** Whether it has a vote: it reported both instants, and some other source is near both reports, or none reported. */
  readonly counts: boolean
}

/** The mean of what one source reported at equal distances before an end, rounded down. */
type AveragePrice = { readonly price: number; readonly marks: readonly Mark[] }

/** What an asset's quick market is made of, before it has a number. */
export type QuickTerms = {
  readonly marketId: MarketId
  readonly chainId: number
  readonly contractAddress: Address
  readonly asset: string
  readonly startSec: number
  readonly intervalSec: number
  readonly strike: Mark
  readonly createdAtMs: number
}

export type QuickMarket = QuickTerms & {
  readonly id: number
  /** The reports of sources that contradict each other; its outcome is that of one source alone. */
  readonly contested: QuickResolution | null
  readonly resolution: QuickResolution | null
  readonly resolvedAtMs: number | null
  /** The transactions that created it and that reported its outcome or opened it to the oracle; '' until there are any. */
  readonly createTxHash: string
  readonly reportTxHash: string
  /** How far the chain has come. */
  readonly onChain: QuickChainStage
}

/**
 * Where the outcome comes from: `open`, there is none yet; `prices`; `contested`, the price sources contradict
 * each other and the market waits for the optimistic oracle; `oracle`, which has decided a contested market.
 */
export const QUICK_VERDICTS = ['open', 'prices', 'contested', 'oracle'] as const
type QuickVerdict = (typeof QUICK_VERDICTS)[number]

export function verdictOf({ resolution, contested }: QuickMarket): QuickVerdict {
  if (resolution !== null) return resolution.byOracle ? 'oracle' : 'prices'
  return contested === null ? 'open' : 'contested'
}

/** `contested`: the market is open to proposals at the oracle, and prices cannot resolve it any more. */
const QUICK_CHAIN_STAGES = ['pending', 'created', 'contested', 'reported'] as const
export type QuickChainStage = (typeof QUICK_CHAIN_STAGES)[number]

export const endSecOf = (market: Pick<QuickTerms, 'startSec' | 'intervalSec'>): number =>
  market.startSec + market.intervalSec

/** The boundary at or before an instant. */
export function boundaryAt(atMs: number, intervalSec: number): number {
  return Math.floor(atMs / 1_000 / intervalSec) * intervalSec
}

/** At or above the start is YES. */
export function outcomeOf(startPrice: number, endPrice: number): Outcome {
  return endPrice >= startPrice ? YES : NO
}

/** The price that is shown as the end: the strike's own source's, or that of the one that decided. */
export function endPriceOf({ resolution }: QuickMarket): number | null {
  return resolution === null ? null : decidingPrice(resolution)
}

/** The price that was compared with the start. */
export function decidingPrice({ end, average }: Pick<QuickResolution, 'end' | 'average'>): number {
  return average?.price ?? end.price
}

/** The average is over so many seconds before an end, in so many reports. */
const AVERAGE_SEC = 60
const AVERAGE_COUNT = 6

/** The seconds before an end at which a source is heard for its average, the earliest first. */
export function averagedSecs(endSec: number, intervalSec: number): number[] {
  const { stepSec, count } = averaging(intervalSec)
  return Array.from({ length: count }, (_, at) => endSec - (count - at) * stepSec)
}

/** How far they are apart: a report that is later than this is none of that second. */
export function averagedStepSec(intervalSec: number): number {
  return averaging(intervalSec).stepSec
}

/** A short market is averaged over its second half at most. */
function averaging(intervalSec: number): { readonly stepSec: number; readonly count: number } {
  const windowSec = Math.min(AVERAGE_SEC, Math.floor(intervalSec / 2))
  const count = Math.min(AVERAGE_COUNT, windowSec)
  return { stepSec: Math.floor(windowSec / count), count }
}

export function averageOf(marks: readonly Mark[]): AveragePrice {
  const sum = marks.reduce((total, { price }) => total + BigInt(price), 0n)
  return { price: Number(sum / BigInt(marks.length)), marks }
}
