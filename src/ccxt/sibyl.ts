/** The Sibyl exchange for ccxt, with `watch*` over the live stream. */

import {
  ArgumentsRequired,
  ExchangeClosedByUser,
  type Int,
  type PredictionOrder,
  type PredictionOrderBook,
  type PredictionTicker,
  type PredictionTickers,
  type PredictionTrade,
  type Str,
  type Strings,
} from 'ccxt'
import type { SibylStream, StreamSubscription } from '#client/stream-types.ts'
import type { StreamOrder, StreamTicker, TradesMessage } from '#protocol/shapes/stream.ts'
import { asCcxtError } from './errors.ts'
import { type Feed, Feeds } from './feeds.ts'
import { OUTCOMES } from './market-structure.ts'
import { ownLeg } from './own-leg.ts'
import type { OutcomeRow } from './sibyl-markets.ts'
import { SibylOrders } from './sibyl-orders.ts'

type StreamedTrade = Pick<
  Extract<TradesMessage, { readonly type: 'trade' }>,
  'tradeId' | 'price' | 'size' | 'buyer' | 'seller' | 'outcome' | 'kind' | 'takerSide'
>

/** Number of trade ids that a subscription remembers, to recognise trades that a later snapshot repeats. */
const SEEN_MAX = 5_000

export class Sibyl extends SibylOrders {
  readonly #feeds = new Feeds()
  #stream: SibylStream | undefined

  /** Returns the stream of the SDK, which emits events about lost connections, gaps and checksums. */
  liveStream(): SibylStream {
    this.#stream ??= this.sdk().stream()
    return this.#stream
  }

  /**
   * Resolves with the book: the first call immediately, each later call after the next change. The checksum of every
   * change is verified.
   */
  override async watchOrderBook(outcome: string, limit?: Int): Promise<PredictionOrderBook> {
    const row = await this.outcomeRow(outcome)
    const updates = await this.follow<PredictionOrderBook>(`book ${row.outcomeId}`, (feed) =>
      this.liveStream().book({ marketId: row.marketId, outcome: row.label }, ({ ts }, book) => {
        const sides = { bids: book.bids(), asks: book.asks(), seq: book.seq }
        feed.replace(this.bookStructure(row, sides, { timestamp: ts }))
      }),
    )
    const book = updates.at(-1)!
    if (limit === undefined) return book
    return { ...book, bids: book.bids.slice(0, limit), asks: book.asks.slice(0, limit) }
  }

  /** Resolves with the trades since the last call; the first call waits for the next trade. */
  override async watchTrades(
    outcome: string,
    since?: Int,
    limit?: Int,
  ): Promise<PredictionTrade[]> {
    const row = await this.outcomeRow(outcome)
    const trades = await this.follow<PredictionTrade>(`trades ${row.outcomeId}`, (feed) =>
      this.tradesInto(feed, row, (raw) => this.parsePredictionTrade(raw, row)),
    )
    return this.filterBySinceLimit(trades, since, limit, 'timestamp', true)
  }

  /** Resolves with the trader's trades in an outcome since the last call. */
  override async watchMyTrades(
    outcome?: Str,
    since?: Int,
    limit?: Int,
  ): Promise<PredictionTrade[]> {
    if (outcome === undefined)
      throw new ArgumentsRequired(`${this.id} watchMyTrades() requires an outcome`)
    const row = await this.outcomeRow(outcome)
    const me = (await this.trader()).toLowerCase()
    const trades = await this.follow<PredictionTrade>(`my trades ${row.outcomeId}`, (feed) =>
      this.tradesInto(feed, row, (raw) => this.ownTrade(raw, row, me)),
    )
    return this.filterBySinceLimit(trades, since, limit, 'timestamp', true)
  }

  /**
   * Converts a public trade to the trader's side of the trade; returns undefined if the trader is neither buyer nor
   * seller.
   */
  protected ownTrade(raw: StreamedTrade, row: OutcomeRow, me: string): PredictionTrade | undefined {
    const isBuyer = raw.buyer.toLowerCase() === me
    if (!isBuyer && raw.seller.toLowerCase() !== me) return undefined
    const trade = this.parsePredictionTrade({ ...raw, ...ownLeg(raw, isBuyer) }, row)
    return { ...trade, info: raw }
  }

  protected tradesInto(
    feed: Feed<PredictionTrade>,
    row: OutcomeRow,
    parse: (raw: StreamedTrade) => PredictionTrade | undefined,
  ): StreamSubscription {
    const seen = new Seen()
    let isFirst = true
    return this.liveStream().trades(row.marketId, (message) => {
      if (message.type === 'trade.status') return
      const all = message.type === 'trade' ? [message] : message.trades
      const fresh = all.filter(({ tradeId }) => seen.add(tradeId))
      // Skip the first snapshot: its trades are from before the subscription. A later snapshot repairs a gap and
      // contains the missed trades.
      if (!isFirst) {
        const parsed = fresh.map(parse).filter((trade) => trade?.outcomeId === row.outcomeId)
        feed.push(parsed as PredictionTrade[])
      }
      isFirst = false
    })
  }

  override async watchTicker(outcome: string): Promise<PredictionTicker> {
    const row = await this.outcomeRow(outcome)
    const updates = await this.follow<StreamTicker>(`ticker ${row.marketId}`, (feed) =>
      this.liveStream().ticker([row.marketId], ({ tickers }) => feed.push(tickers)),
    )
    return this.parsePredictionTicker(updates.at(-1)!, row)
  }

  /** Resolves with the tickers that changed since the last call. */
  override async watchTickers(outcomes?: Strings): Promise<PredictionTickers> {
    await this.loadMarkets()
    const rows = outcomes === undefined ? undefined : await this.outcomeRows(outcomes)
    const ids =
      rows === undefined ? undefined : [...new Set(rows.map(({ marketId }) => marketId))].sort()
    const updates = await this.follow<StreamTicker>(`tickers ${ids?.join() ?? 'all'}`, (feed) =>
      this.liveStream().ticker(ids, ({ tickers }) => feed.push(tickers)),
    )
    await this.loadMarketsById(updates.map(({ marketId }) => marketId))
    const wanted = rows === undefined ? undefined : new Set(rows.map(({ outcomeId }) => outcomeId))
    const tickers: PredictionTickers = {}
    for (const raw of updates) {
      for (const label of OUTCOMES) {
        const row = this.safeOutcome(`${raw.marketId}:${label}`)
        if (wanted === undefined || wanted.has(row.outcomeId)) {
          tickers[row.outcome] = this.parsePredictionTicker(raw, row)
        }
      }
    }
    return tickers
  }

  /** Resolves with the trader's orders that changed since the last call, of one outcome or of all outcomes. */
  override async watchOrders(outcome?: Str, since?: Int, limit?: Int): Promise<PredictionOrder[]> {
    await this.loadMarkets()
    const row = outcome === undefined ? undefined : await this.outcomeRow(outcome)
    const trader = await this.trader()
    const key = `orders ${row?.outcomeId ?? 'all'}`
    let isFirst = true
    const updates = await this.follow<StreamOrder>(key, (feed) =>
      this.liveStream().orders(trader, (message) => {
        if (message.type === 'orders.snapshot') {
          // Skip the first snapshot: its orders are from before the subscription. A later snapshot repairs a gap and
          // contains the missed changes.
          if (!isFirst) feed.push(message.orders)
          isFirst = false
        } else if (message.type === 'order') feed.push([message])
        const orders = message.type === 'orders.snapshot' ? message.orders : [message]
        for (const order of orders) this.rememberSize(order)
      }),
    )
    await this.loadMarketsById(updates.map(({ marketId }) => marketId))
    const parsed = updates.map((raw) => this.parsePredictionOrder(raw))
    const wanted = parsed.filter((order) => row === undefined || order.outcomeId === row.outcomeId)
    if (wanted.length === 0) return this.watchOrders(outcome, since, limit)
    return this.filterBySinceLimit(wanted, since, limit, 'lastUpdateTimestamp', true)
  }

  protected async follow<Item>(
    key: string,
    subscribe: (feed: Feed<Item>) => StreamSubscription,
  ): Promise<Item[]> {
    try {
      return await this.#feeds.next(key, subscribe)
    } catch (error) {
      throw asCcxtError(this.id, error)
    }
  }

  override async unWatchOrderBook(outcome: string): Promise<void> {
    this.unfollow(`book ${(await this.outcomeRow(outcome)).outcomeId}`)
  }

  override async unWatchTrades(outcome: string): Promise<void> {
    this.unfollow(`trades ${(await this.outcomeRow(outcome)).outcomeId}`)
  }

  override async unWatchMyTrades(outcome?: Str): Promise<void> {
    if (outcome !== undefined)
      this.unfollow(`my trades ${(await this.outcomeRow(outcome)).outcomeId}`)
  }

  override async unWatchTicker(outcome: string): Promise<void> {
    this.unfollow(`ticker ${(await this.outcomeRow(outcome)).marketId}`)
  }

  override async unWatchOrders(outcome?: Str): Promise<void> {
    const id = outcome === undefined ? 'all' : (await this.outcomeRow(outcome)).outcomeId
    this.unfollow(`orders ${id}`)
  }

  protected unfollow(key: string): void {
    this.#feeds.end(key, new ExchangeClosedByUser(`${this.id} ${key}: the watch ended`))
  }

  /** Closes the stream; pending `watch*` calls fail with `ExchangeClosedByUser`. */
  override async close(cleanInstanceCache = false): Promise<void> {
    this.#feeds.endAll(new ExchangeClosedByUser(`${this.id} is closed`))
    this.#stream?.close()
    this.#stream = undefined
    await super.close(cleanInstanceCache)
  }
}

/** Remembers the newest ids, to recognise ids that occur again. */
class Seen {
  readonly #ids = new Set<string>()

  /** Adds the id. Returns false if the id is already remembered. */
  add(id: string): boolean {
    if (this.#ids.has(id)) return false
    this.#ids.add(id)
    if (this.#ids.size > SEEN_MAX) this.#ids.delete(this.#ids.values().next().value!)
    return true
  }
}
