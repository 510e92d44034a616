/**
 * Trading figures of markets for lists and tickers: last prices, the last 24 hours, volume. One query returns the
 * figures of many markets from the database, each with the sequence number of the last trade that they include. Later
 * trades are added from the board. So figures are correct immediately after a trade or a restart, without further
 * queries.
 *
 * Figures older than a minute are queried again, because the 24-hour window moves. If a trade failed or the board
 * missed one, the board cannot correct the figures, and the database may not have the change yet. So for 5 s, figures
 * older than 1 s are then queried again.
 */

import { Fault } from '#domain/fault.ts'
import type { MarketId, Sequence } from '#domain/ids.ts'
import { FIGURES_KEPT_MAX, MARKETS_LISTED_MAX, TRADES_LISTED_MAX } from '#domain/limits.ts'
import { costCeil } from '#domain/money.ts'
import { NO, type Outcome, YES } from '#domain/order.ts'
import { partsOf } from '#domain/parts-of.ts'
import { remember } from '#domain/remember.ts'
import type { Clock } from '#runtime/clock.ts'
import type { MarketBoard, ShownMarket } from './market-board.ts'

/** Values for YES and NO, in this order. */
type Both<T> = readonly [T, T]

/** Figures of a traded market in the database. */
export type StoredFigures = {
  readonly marketId: MarketId
  readonly totalVolume: bigint
  readonly volume24h: bigint
  readonly trades24h: number
  readonly lastPrices: Both<number>
  /** Sequence number of the last trade that these figures include, for each outcome. */
  readonly lastSeqs: Both<Sequence>
  readonly pricesBefore: Both<number | null>
}

export type MarketFigures = {
  /** Last prices; 0 for an outcome without trades. */
  readonly lastPrices: Both<number>
  /** Outcome of the newest trade. */
  readonly lastOutcome: Outcome | null
  /** Last price minus the price of 24 hours ago; null for an outcome without trades. */
  readonly priceChanges24h: Both<number | null>
  readonly volume24h: bigint
  readonly trades24h: number
  readonly totalVolume: bigint
}

export type FiguresBook = {
  /**
   * Version of the stored figures. It changes when the database returns figures, when stored figures may have
   * become outdated, and when a market is removed.
   */
  readonly version: number
  /** Loads figures of these markets that are missing or outdated. */
  prepare(marketIds: readonly MarketId[]): Promise<void>
  /** Returns whether the figures are known without a query. */
  isPrepared(marketId: MarketId): boolean
  /**
   * Returns the figures; undefined if the database is unavailable and the figures are not known. Returns the same
   * object until something changes. Reading the clock takes longer than the rest of the call, so pass `nowMs` if you
   * need the figures of many markets.
   */
  of(marketId: MarketId, nowMs?: number): MarketFigures | undefined
  /** Returns whether the database's figures may be outdated. */
  isUnsure(marketId: MarketId): boolean
  /** Reports that the board missed trades of a market, or that a trade of the market failed. */
  touched(marketId: MarketId): void
  forgotten(marketId: MarketId): void
}

const KEPT_MS_MAX = 60_000
/** If a trade failed or was missed less than `UNSURE_MS` ago, figures older than `AGAIN_MS` are queried again. */
const UNSURE_MS = 5_000
const AGAIN_MS = 1_000
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

type Entry = {
  stored: StoredFigures
  readAtMs: number
  /**
   * The last computed figures. `knownSeq` and `knownMinute`: the market's sequence number and the minute for which they
   * were computed.
   */
  known: MarketFigures | undefined
  knownSeq: Sequence
  knownMinute: number
}

const nothing = (marketId: MarketId): StoredFigures => ({
  ...{ marketId, totalVolume: 0n, volume24h: 0n, trades24h: 0 },
  ...{ lastPrices: [0, 0], lastSeqs: [0, 0], pricesBefore: [null, null] },
})

export function makeFiguresBook(ports: {
  readonly board: () => Pick<MarketBoard, 'markets'>
  /** Reads the figures of those markets that have trades. */
  readonly stored: (
    marketIds: readonly MarketId[],
    nowMs: number,
  ) => Promise<readonly StoredFigures[]>
  readonly clock: Clock
}): FiguresBook {
  const { board, clock } = ports
  const entries = new Map<MarketId, Entry>()
  const unsure = new Map<MarketId, number>()
  const asking = new Map<MarketId, Promise<void>>()
  let version = 0

  function isOld(marketId: MarketId, nowMs: number): boolean {
    const shown = board().markets.get(marketId)
    // If the board has every trade of the market, the database's figures are not needed.
    if (shown?.hasAllTrades === true) return false
    const entry = entries.get(marketId)
    if (entry === undefined) return true
    const ageMs = nowMs - entry.readAtMs
    if (ageMs >= KEPT_MS_MAX) return true
    if (ageMs < AGAIN_MS) return false
    return entry.readAtMs < (unsure.get(marketId) ?? 0) || lacks(shown, entry.stored)
  }

  async function ask(marketIds: readonly MarketId[]): Promise<void> {
    const nowMs = clock.nowMs()
    try {
      const found = await ports.stored(marketIds, nowMs)
      const figures = new Map(found.map((each) => [each.marketId, each]))
      for (const id of marketIds) keep(id, figures.get(id) ?? nothing(id), nowMs)
    } catch (error) {
      // If the query fails, known figures stay in use, and the next reader queries the database again.
      if (!(error instanceof Fault && error.retryable)) throw error
    } finally {
      for (const id of marketIds) asking.delete(id)
    }
  }

  function keep(marketId: MarketId, stored: StoredFigures, readAtMs: number): void {
    version++
    const entry = { stored, readAtMs, known: undefined, knownSeq: 0, knownMinute: 0 }
    remember(entries, marketId, entry, FIGURES_KEPT_MAX)
    if (readAtMs >= (unsure.get(marketId) ?? readAtMs)) unsure.delete(marketId)
  }

  return {
    get version() {
      return version
    },
    async prepare(marketIds) {
      const nowMs = clock.nowMs()
      const waits = new Set<Promise<void>>()
      const old: MarketId[] = []
      for (const id of marketIds) {
        if (!isOld(id, nowMs)) continue
        const asked = asking.get(id)
        if (asked === undefined) old.push(id)
        else waits.add(asked)
      }
      for (const some of partsOf(old, MARKETS_LISTED_MAX)) {
        const asked = ask(some)
        for (const id of some) asking.set(id, asked)
        waits.add(asked)
      }
      await Promise.all(waits)
    },
    isPrepared: (marketId) => !isOld(marketId, clock.nowMs()),
    of(marketId, nowMs = clock.nowMs()) {
      const shown = board().markets.get(marketId)
      let entry = entries.get(marketId)
      if (entry === undefined) {
        if (shown?.hasAllTrades !== true) return undefined
        keep(marketId, nothing(marketId), nowMs)
        entry = entries.get(marketId)!
      }
      return currentOf(entry, shown, nowMs)
    },
    isUnsure: (marketId) =>
      board().markets.get(marketId)?.hasAllTrades !== true &&
      clock.nowMs() < (unsure.get(marketId) ?? 0),
    touched(marketId) {
      version++
      remember(unsure, marketId, clock.nowMs() + UNSURE_MS, FIGURES_KEPT_MAX)
    },
    forgotten(marketId) {
      version++
      entries.delete(marketId)
      unsure.delete(marketId)
    },
  }
}

/**
 * Returns the figures including the trades on the board. The result is cached until the market or the minute changes.
 */
function currentOf(entry: Entry, shown: ShownMarket | undefined, nowMs: number): MarketFigures {
  const minute = Math.floor(nowMs / MINUTE_MS)
  const seq = shown?.seq ?? 0
  if (entry.known !== undefined && entry.knownSeq === seq && entry.knownMinute === minute) {
    return entry.known
  }
  // If the board has every trade, compute the figures from these trades alone. The stored figures may be from an
  // earlier minute and then cover an earlier 24-hour window.
  const base = shown?.hasAllTrades === true ? nothing(entry.stored.marketId) : entry.stored
  entry.known = withTrades(base, shown, minute * MINUTE_MS - DAY_MS)
  entry.knownSeq = seq
  entry.knownMinute = minute
  return entry.known
}

/** Returns whether trades may be missing between the stored figures and the oldest trade on the board. */
function lacks(shown: ShownMarket | undefined, { lastSeqs }: StoredFigures): boolean {
  if (shown === undefined || shown.trades.size < TRADES_LISTED_MAX) return false
  for (const { seq } of shown.trades.values()) return seq > Math.max(...lastSeqs)
  return false
}

/** Adds the board's trades that are later than the stored figures. */
function withTrades(
  stored: StoredFigures,
  shown: ShownMarket | undefined,
  dayFromMs: number,
): MarketFigures {
  const after = Math.max(...stored.lastSeqs)
  const last: [number, number] = [...stored.lastPrices]
  const before: [number | null, number | null] = [...stored.pricesBefore]
  let { totalVolume, volume24h, trades24h } = stored
  let newest: Outcome | null = stored.lastSeqs[NO] > stored.lastSeqs[YES] ? NO : YES
  if (after === 0) newest = null
  for (const trade of shown?.trades.values() ?? []) {
    const { seq, status, outcome, price } = trade
    if (seq <= after || status === 'failed') continue
    const cost = BigInt(costCeil(price, trade.size))
    totalVolume += cost
    if (trade.matchedAtMs < dayFromMs) before[outcome] = price
    else {
      volume24h += cost
      trades24h++
      before[outcome] ??= price
    }
    last[outcome] = price
    newest = outcome
  }
  const change = (outcome: Outcome) => {
    const from = before[outcome]
    return from === null || last[outcome] === 0 ? null : last[outcome] - from
  }
  return {
    lastPrices: last,
    lastOutcome: newest,
    priceChanges24h: [change(YES), change(NO)],
    ...{ volume24h, trades24h, totalVolume },
  }
}
