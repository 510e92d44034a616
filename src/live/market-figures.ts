/**
 * What markets have traded, for lists and tickers: last prices, the last 24 hours, volume. The
 * database tells it up to a trade that it names, many markets in one question; the trades that this
 * front has heard of since are added from the board. So the figures are right at once after a trade
 * and after a restart, and nothing is asked again while nothing but trades happens.
 *
 * What the database said is asked for again after a minute, because the 24 hours move on. It is
 * asked soon, and for some seconds, where a trade failed or some were not heard: it follows the log,
 * and may not have had that yet.
 */

import { Fault } from '#domain/fault.ts'
import type { MarketId, Sequence } from '#domain/ids.ts'
import { FIGURES_KEPT_MAX, MARKETS_LISTED_MAX, TRADES_LISTED_MAX } from '#domain/limits.ts'
import { costCeil } from '#domain/money.ts'
import { NO, type Outcome, YES } from '#domain/order.ts'
import type { Clock } from '#runtime/clock.ts'
import type { MarketBoard, ShownMarket } from './market-board.ts'

/** Prices are of YES and NO, in this order. */
type Both<T> = readonly [T, T]

/** What the database knows of a market that has traded. */
export type StoredFigures = {
  readonly marketId: MarketId
  readonly totalVolume: bigint
  readonly volume24h: bigint
  readonly trades24h: number
  readonly lastPrices: Both<number>
  /** The numbers of those last trades: nothing later is in these figures. */
  readonly lastSeqs: Both<Sequence>
  readonly pricesBefore: Both<number | null>
}

export type MarketFigures = {
  /** 0 for an outcome that was never traded. */
  readonly lastPrices: Both<number>
  /** The outcome of the newest trade. */
  readonly lastOutcome: Outcome | null
  /** By how much the last price differs from that of 24 hours ago; null for one never traded. */
  readonly priceChanges24h: Both<number | null>
  readonly volume24h: bigint
  readonly trades24h: number
  readonly totalVolume: bigint
}

export type FiguresBook = {
  /** Asks for what is not known of these markets, or not any more. */
  prepare(marketIds: readonly MarketId[]): Promise<void>
  /** Whether all that can be known of it is, so that nothing has to be asked. */
  isPrepared(marketId: MarketId): boolean
  /**
   * Undefined while it is not known, because the database is away. The same object as long as nothing has
   * changed, in the market or in its figures.
   */
  of(marketId: MarketId): MarketFigures | undefined
  /** Whether what the database says of it may lack something that happened. */
  isUnsure(marketId: MarketId): boolean
  /** Trades came or went that the board does not tell. */
  touched(marketId: MarketId): void
  forgotten(marketId: MarketId): void
}

const KEPT_MS_MAX = 60_000
/** So long after something untold the database is asked again and again, once in `AGAIN_MS`. */
const UNSURE_MS = 5_000
const AGAIN_MS = 1_000
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

type Entry = {
  stored: StoredFigures
  readAtMs: number
  /** What was worked out last, and for which change of the market and which minute. */
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
  /** Those of the markets that have ever traded. */
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

  function isOld(marketId: MarketId, nowMs: number): boolean {
    const shown = board().markets.get(marketId)
    // Every trade that it ever had is on the board.
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
      // What is known stays; a database that is away is asked by the next reader again.
      if (!(error instanceof Fault && error.retryable)) throw error
    } finally {
      for (const id of marketIds) asking.delete(id)
    }
  }

  function keep(marketId: MarketId, stored: StoredFigures, readAtMs: number): void {
    entries.delete(marketId)
    entries.set(marketId, {
      ...{ stored, readAtMs, known: undefined, knownSeq: 0, knownMinute: 0 },
    })
    if (readAtMs >= (unsure.get(marketId) ?? readAtMs)) unsure.delete(marketId)
    limit(entries)
  }

  return {
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
      for (let from = 0; from < old.length; from += MARKETS_LISTED_MAX) {
        const some = old.slice(from, from + MARKETS_LISTED_MAX)
        const asked = ask(some)
        for (const id of some) asking.set(id, asked)
        waits.add(asked)
      }
      await Promise.all(waits)
    },
    isPrepared: (marketId) => !isOld(marketId, clock.nowMs()),
    of(marketId) {
      const shown = board().markets.get(marketId)
      let entry = entries.get(marketId)
      if (entry === undefined) {
        if (shown?.hasAllTrades !== true) return undefined
        keep(marketId, nothing(marketId), clock.nowMs())
        entry = entries.get(marketId)!
      }
      const minute = Math.floor(clock.nowMs() / MINUTE_MS)
      const seq = shown?.seq ?? 0
      if (entry.known === undefined || entry.knownSeq !== seq || entry.knownMinute !== minute) {
        // Nothing that the database said is needed, and it may be of another minute.
        const base = shown?.hasAllTrades === true ? nothing(marketId) : entry.stored
        entry.known = withTrades(base, shown, minute * MINUTE_MS - DAY_MS)
        entry.knownSeq = seq
        entry.knownMinute = minute
      }
      return entry.known
    },
    isUnsure: (marketId) =>
      board().markets.get(marketId)?.hasAllTrades !== true &&
      clock.nowMs() < (unsure.get(marketId) ?? 0),
    touched(marketId) {
      unsure.delete(marketId)
      unsure.set(marketId, clock.nowMs() + UNSURE_MS)
      limit(unsure)
    },
    forgotten(marketId) {
      entries.delete(marketId)
      unsure.delete(marketId)
    },
  }
}

/** The one that was put in longest ago makes way. */
function limit(map: Map<MarketId, unknown>): void {
  if (map.size <= FIGURES_KEPT_MAX) return
  for (const oldest of map.keys()) {
    map.delete(oldest)
    return
  }
}

/** Whether more trades came than the board holds, so that some after the stored ones are missing. */
function lacks(shown: ShownMarket | undefined, { lastSeqs }: StoredFigures): boolean {
  if (shown === undefined || shown.trades.size < TRADES_LISTED_MAX) return false
  for (const { seq } of shown.trades.values()) return seq > Math.max(...lastSeqs)
  return false
}

/** The stored figures with the trades that came after them. */
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
