/**
 * A front's memory of the markets: texts, levels and latest trades. Market threads send the events of a
 * command before its answer. So a client that has received the answer sees the effect of the command. The
 * board makes no decisions.
 */

import type { MarketId, Sequence, TradeId } from '#domain/ids.ts'
import { MARKETS_GONE_KNOWN_MAX, TRADES_LISTED_MAX } from '#domain/limits.ts'
import { type CloseReason, isComplementary, type Market } from '#domain/market.ts'
import type { MarketEvent, MarketFact, OrdersMatched } from '#domain/market-event.ts'
import { makerOutcome, makerSide, tradesOf } from '#domain/match-trades.ts'
import { complementOf, ONE, type Price } from '#domain/money.ts'
import { BUY, OUTCOMES, type Outcome, otherOutcome, SELL, type Side } from '#domain/order.ts'
import type { Trade, TradeStatus } from '#domain/trade.ts'
import type { MarketView } from '#protocol/market.ts'
import { LevelBook, mergedLevels } from './level-book.ts'
import { makeMarketOrder } from './market-order.ts'

export type ShownTrade = Trade & { readonly status: TradeStatus; readonly txHash: string }

export type ShownMarket = {
  readonly market: Market
  seq: Sequence
  closed: CloseReason | undefined
  updatedAtMs: number
  books: readonly [LevelBook, LevelBook]
  /**
   * Books that include the levels implied by orders of the other outcome; undefined if the market is not complementary.
   */
  implied: readonly [LevelBook, LevelBook] | undefined
  /** Latest trades known to this front, oldest first. */
  readonly trades: Map<TradeId, ShownTrade>
  /** True if `trades` contains all trades of the market, so the database has no older trades. */
  hasAllTrades: boolean
  /**
   * Trade changes up to this sequence number may be missing from `trades`. This front did not apply them, so only the
   * database has them.
   */
  unseenSeq: Sequence
  /** Sequence number of the last change that `trades` includes. */
  tradesSeq: Sequence
  /** Version of `trades`. It changes whenever a trade changes, and no two markets ever have the same version. */
  tradesVersion: number
  /**
   * Cached JSON of the order books: YES, NO, both, and each outcome with its implied levels. A text is '' after its
   * book has changed.
   */
  readonly written: [yes: string, no: string, both: string, impliedYes: string, impliedNo: string]
}

export type MarketBoard = {
  readonly markets: ReadonlyMap<MarketId, ShownMarket>
  /** Version of the board: changes with every change of any market. */
  readonly version: number
  /** Changes only when a market is opened, closed, loaded or removed. */
  readonly listVersion: number
  /** Returns the markets by creation time, then by id. The list changes in place: do not keep it across an await. */
  inOrder(): readonly ShownMarket[]
  /** Returns the oldest market whose share link ends with this short id. */
  byShortId(shortId: string): ShownMarket | undefined
  /** Replaces a market by the view that its thread sent. `dozed` is passed to `BoardListener.loaded`. */
  load(view: MarketView, dozed?: boolean): void
  /** Applies events; returns false if some are missing and the market must be loaded again. */
  follow(events: readonly MarketEvent[]): boolean
  /** Applies openings and closings in idle partitions, which send no other events. */
  followFacts(events: readonly MarketFact[]): void
  /** Removes ended markets that their thread has unloaded; they remain in the database. */
  forget(marketIds: readonly MarketId[]): void
  /** Returns whether the market has ended and is one of the last `MARKETS_GONE_KNOWN_MAX` removed markets. */
  isGone(marketId: MarketId): boolean
} & Completeness

/** Reports whether the board is complete. */
type Completeness = {
  /** Returns true once every market thread has been loaded. Before that, a list is incomplete. */
  isWhole(): boolean
  /**
   * Returns whether this market's thread is followed and has confirmed its ownership within the last second. Without a
   * market, all threads must meet both conditions. If false, the board may be stale, and a market that is missing on it
   * may exist.
   */
  isCurrent(marketId?: MarketId): boolean
}

/** Listener for changes of the board, called immediately and in order. */
export type BoardListener = {
  followed(shown: ShownMarket, event: MarketEvent): void
  /**
   * Called after a market was loaded. `missed`: the loaded state includes changes for which `followed` was not called.
   * `dozed`: the changes were missed because the market's partition was idle. They include no opening or closing,
   * because a thread reports openings and closings even of idle partitions.
   */
  loaded(shown: ShownMarket, missed: boolean, dozed: boolean): void
  forgotten(marketId: MarketId): void
}

export function makeBoard(completeness: Completeness, listener?: BoardListener): MarketBoard {
  const markets = new Map<MarketId, ShownMarket>()
  const gone = new RecentMarkets()
  const order = makeMarketOrder(markets)
  let version = 0
  let listVersion = 0

  function noteListed(): void {
    version++
    listVersion++
  }

  function add(shown: ShownMarket): void {
    markets.set(shown.market.id, shown)
    order.added(shown)
  }

  function forget(marketId: MarketId): void {
    const shown = markets.get(marketId)
    markets.delete(marketId)
    if (shown !== undefined) order.removed(shown)
    noteListed()
    gone.add(marketId)
    listener?.forgotten(marketId)
  }

  const board: MarketBoard = {
    markets,
    get version() {
      return version
    },
    get listVersion() {
      return listVersion
    },
    inOrder: order.all,
    byShortId: order.byShortId,
    ...completeness,
    forget: (marketIds) => marketIds.forEach(forget),
    isGone: (marketId) => gone.has(marketId),
    load(view, dozed = false) {
      const shown = markets.get(view.market.id) ?? newMarket(view.market)
      if (view.seq < shown.seq) return
      // If the view includes events that the board missed, clear the known trades, because only the database has the
      // trades of these events.
      const missed = view.seq > shown.seq
      if (missed) {
        shown.trades.clear()
        // Change 1 of a market is its opening. If it is the only change, the market has no trades yet.
        shown.hasAllTrades = view.seq <= 1
        shown.unseenSeq = view.seq
        noteTrades(shown, view.seq)
      }
      shown.seq = view.seq
      shown.closed = view.closed
      shown.updatedAtMs = view.updatedAtMs
      loadBooks(shown, view)
      shown.written.fill('')
      if (!markets.has(view.market.id)) add(shown)
      noteListed()
      listener?.loaded(shown, missed, dozed)
    },
    follow(events) {
      let whole = true
      for (const event of events) {
        let shown = markets.get(event.marketId)
        if (shown === undefined) {
          // The market is not loaded yet. Its state, which the thread is sending, will include these events.
          if (event.type !== 'MarketOpened') continue
          shown = newMarket(event.market)
          add(shown)
          noteListed()
        }
        if (event.seq <= shown.seq) continue
        if (event.seq !== shown.seq + 1) {
          whole = false
          continue
        }
        follow(shown, event)
        version++
        if (event.type === 'MarketClosed') listVersion++
        listener?.followed(shown, event)
      }
      return whole
    },
    followFacts(events) {
      for (const event of events) {
        const shown = markets.get(event.marketId)
        if (shown !== undefined && event.seq > shown.seq + 1) {
          // This event is a closing in an idle partition, so the events before it were not sent. Load the market as it
          // was before the closing, with empty books, because the closing clears them anyway.
          const { market, closed, updatedAtMs } = shown
          const seq = event.seq - 1
          const view = { market, seq, closed, updatedAtMs, bids: [[], []], asks: [[], []] } as const
          board.load(view, true)
        }
        board.follow([event])
      }
    },
  }
  return board
}

/** A set of market ids of limited size. When the set is full, adding an id removes the id that was added first. */
class RecentMarkets {
  readonly #ids = new Set<MarketId>()

  add(marketId: MarketId): void {
    this.#ids.delete(marketId)
    this.#ids.add(marketId)
    if (this.#ids.size <= MARKETS_GONE_KNOWN_MAX) return
    for (const oldest of this.#ids) {
      this.#ids.delete(oldest)
      return
    }
  }

  has(marketId: MarketId): boolean {
    return this.#ids.has(marketId)
  }
}

/** Index of the first book with implied levels among the cached JSON texts. */
const IMPLIED = 3

/** Counter of versions, shared by all markets, so that a market that is loaded again never reuses a version. */
let versions = 0

function noteTrades(shown: ShownMarket, seq: Sequence): void {
  shown.tradesSeq = Math.max(shown.tradesSeq, seq)
  shown.tradesVersion = ++versions
}

function newMarket(market: Market): ShownMarket {
  return {
    market,
    seq: 0,
    closed: undefined,
    updatedAtMs: 0,
    books: [new LevelBook(), new LevelBook()],
    implied: isComplementary(market) ? [new LevelBook(), new LevelBook()] : undefined,
    trades: new Map(),
    hasAllTrades: true,
    unseenSeq: 0,
    tradesSeq: 0,
    tradesVersion: ++versions,
    written: ['', '', '', '', ''],
  }
}

function follow(shown: ShownMarket, event: MarketEvent): void {
  shown.seq = event.seq
  shown.updatedAtMs = event.atMs
  switch (event.type) {
    case 'OrderRested':
      addLevel(shown, event, event.added)
      forgetWritten(shown, event.outcome)
      break
    case 'OrdersMatched': {
      const { taker } = event
      for (const fill of event.fills) {
        const outcome = makerOutcome(taker, fill)
        const side = makerSide(taker, fill)
        addLevel(shown, { outcome, side, price: fill.price }, -fill.size)
        forgetWritten(shown, outcome)
      }
      rememberTrades(shown, event)
      break
    }
    case 'OrderClosed':
      if (event.remaining > 0) {
        addLevel(shown, event, -event.remaining)
      }
      forgetWritten(shown, event.outcome)
      break
    case 'MarketClosed':
      shown.closed = event.reason
      for (const book of [...shown.books, ...(shown.implied ?? [])]) book.clear()
      shown.written.fill('')
      break
    case 'TradeSubmitted':
      settle(shown, event.tradeId, 'submitted', event.txHash)
      break
    case 'TradeConfirmed':
      settle(shown, event.tradeId, 'confirmed', event.txHash)
      break
    case 'TradeFailed':
      settle(shown, event.tradeId, 'failed', event.txHash)
      break
    case 'TradeReverted':
      settle(shown, event.tradeId, 'reverted', event.txHash)
      break
    case 'MarketOpened':
      break
  }
}

function forgetWritten(shown: ShownMarket, outcome: Outcome): void {
  shown.written[outcome] = ''
  shown.written[2] = ''
  if (shown.implied === undefined) return
  for (const of of OUTCOMES) shown.written[IMPLIED + of] = ''
}

/** Changes the size at a level, and the size at the implied level of the other outcome. */
function addLevel(
  shown: ShownMarket,
  {
    outcome,
    side,
    price,
  }: { readonly outcome: Outcome; readonly side: Side; readonly price: Price },
  size: number,
): void {
  const change = (book: LevelBook, of: Side, at: Price) =>
    size < 0 ? book.take(of, at, -size) : book.add(of, at, size)
  change(shown.books[outcome], side, price)
  if (shown.implied === undefined) return
  change(shown.implied[outcome], side, price)
  change(shown.implied[otherOutcome(outcome)], side === BUY ? SELL : BUY, complementOf(price))
}

function loadBooks(shown: ShownMarket, view: MarketView): void {
  shown.books = [new LevelBook(), new LevelBook()]
  for (const outcome of OUTCOMES) {
    shown.books[outcome].load(BUY, view.bids[outcome])
    shown.books[outcome].load(SELL, view.asks[outcome])
  }
  shown.implied = impliedBooks(shown)
}

/** Returns both books of a complementary market with their implied levels. */
function impliedBooks({
  market,
  books,
}: Pick<ShownMarket, 'market' | 'books'>): ShownMarket['implied'] {
  if (!isComplementary(market)) return undefined
  const implied = [new LevelBook(), new LevelBook()] as const
  for (const outcome of OUTCOMES) {
    for (const side of [BUY, SELL] as const) {
      for (const [price, total] of books[outcome].levels(side)) {
        implied[outcome].raise(side, price, total)
        implied[otherOutcome(outcome)].raise(side === BUY ? SELL : BUY, ONE - price, total)
      }
    }
  }
  return implied
}

/** Returns a book. With `implied`, matchable orders of the other outcome are included as levels. */
export function bookOf(shown: ShownMarket, outcome: Outcome, implied: boolean): LevelBook {
  return (implied ? shown.implied?.[outcome] : undefined) ?? shown.books[outcome]
}

function rememberTrades(shown: ShownMarket, event: OrdersMatched): void {
  for (const trade of tradesOf(event)) {
    // Keep a trade that is already known. The database may have returned it before this event arrived, and its status
    // may be newer than `matched`.
    if (shown.trades.has(trade.tradeId)) continue
    shown.trades.set(trade.tradeId, { ...trade, status: 'matched', txHash: '' })
  }
  for (const id of shown.trades.keys()) {
    if (shown.trades.size <= TRADES_LISTED_MAX) break
    shown.trades.delete(id)
    shown.hasAllTrades = false
  }
  noteTrades(shown, event.seq)
}

/** Returns whether the board has the newest `limit` trades of a market, or all its trades. */
export function holdsNewest(shown: ShownMarket, limit: number): boolean {
  return shown.hasAllTrades || shown.trades.size >= limit
}

/**
 * Stores the newest trades on the board after they were read from the database, so that they are not read again. Does
 * nothing if none of these trades is later than `unseenSeq`, because the database may then lack changes that the board
 * missed. The database stores a market's changes in order, so with a later trade it has these changes too.
 */
export function keepTrades(shown: ShownMarket, stored: readonly ShownTrade[]): void {
  const isAll = stored.length < TRADES_LISTED_MAX
  if (!stored.some(({ seq }) => seq > shown.unseenSeq)) return
  const newest = latestTrades([...shown.trades.values()], stored, TRADES_LISTED_MAX)
  shown.trades.clear()
  for (const trade of newest.toReversed()) shown.trades.set(trade.tradeId, trade)
  shown.hasAllTrades = isAll
  noteTrades(shown, newest[0]?.seq ?? 0)
}

function settle(shown: ShownMarket, id: TradeId, status: TradeStatus, txHash: string): void {
  const trade = shown.trades.get(id)
  if (trade === undefined) {
    shown.unseenSeq = shown.seq
    return
  }
  shown.trades.set(id, { ...trade, status, txHash: txHash || trade.txHash })
  noteTrades(shown, shown.seq)
}

/**
 * Returns the book of an outcome, including the levels implied by the other outcome, as JSON; encoded once per change.
 */
export function impliedBookJson(shown: ShownMarket, outcome: Outcome): string {
  const known = shown.written[IMPLIED + outcome] ?? ''
  if (known !== '') return known
  const { market, updatedAtMs, seq, books } = shown
  const book = bookOf(shown, outcome, true)
  const levels = (side: Side): string =>
    book
      .levels(side)
      .map(([price, size]) => {
        const own = books[outcome].total(side, price)
        return `{"price":${price},"size":${size},"implied":${BigInt(size) - BigInt(own)}}`
      })
      .join(',')
  const json =
    `{"marketId":"${market.id}","bids":[${levels(BUY)}],"asks":[${levels(SELL)}],` +
    `"lastUpdate":${Math.floor(updatedAtMs / 1_000)},"seq":${seq}}`
  if (shown.implied !== undefined) shown.written[IMPLIED + outcome] = json
  return json
}

/** Returns the orderbook of one outcome, or of both, as JSON; encoded once per change. */
export function orderbookJson(shown: ShownMarket, outcome: Outcome | undefined): string {
  const slot = outcome ?? 2
  const known = shown.written[slot]
  if (known !== '') return known
  const books = outcome === undefined ? shown.books : [shown.books[outcome]]
  const { updatedAtMs, seq } = shown
  const json = bookJson(shown.market.id, books, { updatedAtMs, seq })
  shown.written[slot] = json
  return json
}

export function emptyOrderbookJson(marketId: MarketId): string {
  return bookJson(marketId, [], { updatedAtMs: 0, seq: 0 })
}

/**
 * Returns one book, or several merged by price, as JSON. The JSON is written by hand, because a total may be a bigint
 * that must appear as an integer.
 */
export function bookJson(
  marketId: MarketId,
  books: readonly LevelBook[],
  facts: {
    readonly updatedAtMs: number
    readonly seq: Sequence
    readonly checksum?: number | undefined
  },
): string {
  const { updatedAtMs, seq, checksum } = facts
  const [only, other] = books
  const levels = (side: Side): string =>
    (only === undefined || other !== undefined ? mergedLevels(books, side) : only.levels(side))
      .map(([price, total]) => `{"price":${price},"size":${total}}`)
      .join(',')
  const lastUpdate = Math.floor(updatedAtMs / 1_000)
  const head = `"marketId":"${marketId}","bids":[${levels(BUY)}],"asks":[${levels(SELL)}]`
  const end = checksum === undefined ? '' : `,"checksum":${checksum}`
  return `{${head},"lastUpdate":${lastUpdate},"seq":${seq}${end}}`
}

/** Returns whether a trade comes before `place` in its market; true if `place` is undefined. */
export function isBefore(
  trade: Pick<Trade, 'seq' | 'fillIndex'>,
  place: Pick<Trade, 'seq' | 'fillIndex'> | undefined,
): boolean {
  if (place === undefined || trade.seq < place.seq) return true
  return trade.seq === place.seq && trade.fillIndex < place.fillIndex
}

/** Merges the trades of the front and of the database without duplicates, newest first. */
export function latestTrades(
  held: readonly ShownTrade[],
  stored: readonly ShownTrade[],
  limit: number,
): ShownTrade[] {
  const all = new Map<TradeId, ShownTrade>()
  for (const trade of stored) all.set(trade.tradeId, trade)
  // If the front and the database both have a trade, the front's version is used, because the database may lag.
  for (const trade of held) all.set(trade.tradeId, trade)
  return [...all.values()]
    .sort((a, b) => b.matchedAtMs - a.matchedAtMs || b.seq - a.seq || b.fillIndex - a.fillIndex)
    .slice(0, limit)
}
