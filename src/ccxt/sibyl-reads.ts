/** Public reads: tickers, books, trades and candles; and the holdings of an address. */

import {
  BadRequest,
  type Balances,
  type Dict,
  type Int,
  type OHLCV,
  type PredictionOpenInterest,
  type PredictionOrderBook,
  type PredictionPosition,
  type PredictionSettlement,
  type PredictionTicker,
  type PredictionTickers,
  type PredictionTrade,
  type PredictionTradingFee,
  type Str,
  type Strings,
} from 'ccxt'
import type { Level } from '#client/answers.ts'
import type { Candle, Ticker } from '#protocol/shapes/markets.ts'
import type { UserActivity, UserPosition } from '#protocol/shapes/users.ts'
import { decimal } from './decimal.ts'
import { TIMEFRAMES } from './describe.ts'
import { OUTCOMES, outcomeIdOf } from './market-structure.ts'
import { type OutcomeRow, SibylMarkets } from './sibyl-markets.ts'

type Interval = keyof typeof TIMEFRAMES

/** Maximum number of candles in one answer of the exchange. */
const CANDLES_MAX = 300
/** Maximum number of trades on one page. */
const PAGE_MAX = 100
/** Maximum number of trades that one call reads, page by page. */
const TRADES_MAX = 1_000

type UserTrade = UserActivity['activity'][number]

/** A trade of a market's list, of the stream, or of a user's list. */
type RawTrade = Partial<Omit<UserTrade, 'outcome'>> & {
  readonly tradeId: string
  readonly price: number
  readonly size: number
  readonly outcome: number
  readonly takerSide?: number
  readonly timestamp?: number
  readonly ts?: number
  readonly buyer?: string
  readonly seller?: string
}

const levels = (side: readonly Level[], limit: Int): [number, number][] =>
  side
    .slice(0, limit ?? side.length)
    .map(({ price, size }) => [Number(decimal(price)), Number(decimal(size))])

export class SibylReads extends SibylMarkets {
  override async fetchTicker(outcome: string): Promise<PredictionTicker> {
    const row = await this.outcomeRow(outcome)
    const market = await this.call((client) => client.market(row.marketId))
    return this.parsePredictionTicker(market, row as never)
  }

  override async fetchTickers(outcomes?: Strings, params: Dict = {}): Promise<PredictionTickers> {
    const wanted = outcomes === undefined ? undefined : await this.outcomeRows(outcomes)
    await this.loadMarkets()
    const found = await this.call((client) => client.markets({ status: 'open', ...params }))
    await this.loadMarketsById(found.map(({ id }) => id))
    const rows = found.flatMap((market) =>
      OUTCOMES.map((_, at) => ({ market, row: this.safeOutcome(outcomeIdOf(market.id, at)) })),
    )
    const ids = wanted === undefined ? undefined : new Set(wanted.map(({ outcomeId }) => outcomeId))
    const kept = rows.filter(({ row }) => ids === undefined || ids.has(row.outcomeId))
    return Object.fromEntries(
      kept.map(({ market, row }) => [row.outcome, this.parsePredictionTicker(market, row)]),
    )
  }

  protected async outcomeRows(outcomes: Strings): Promise<OutcomeRow[]> {
    await this.loadOutcomes(outcomes)
    return (outcomes ?? []).map((each) => this.safeOutcome(each) as OutcomeRow)
  }

  override parsePredictionTicker(ticker: Dict, market?: unknown): PredictionTicker {
    const raw = ticker as Ticker
    const row = market as OutcomeRow
    const at = OUTCOMES.indexOf(row.label)
    const price = (millionths: number | null | undefined): Str =>
      millionths === null || millionths === undefined || millionths === 0
        ? undefined
        : decimal(millionths)
    const last = raw.lastPrices?.[at]
    const change = raw.priceChanges24h?.[at]
    return this.safePredictionTicker({
      ...this.identity(row),
      timestamp: this.milliseconds(),
      bid: price(raw.bestBidPrices[at]),
      ask: price(raw.bestAskPrices[at]),
      last: price(last),
      open: last && change !== null && change !== undefined ? price(last - change) : undefined,
      // Volume is in dollars and covers both outcomes together.
      quoteVolume: raw.volume24h === null ? undefined : decimal(raw.volume24h),
      info: ticker,
    })
  }

  /** Returns the fields that identify an outcome in every structure of ccxt. */
  protected identity({ outcome, outcomeId, label, market, event }: OutcomeRow): Dict {
    return { outcome, outcomeId, label, market, event }
  }

  override async fetchOrderBook(outcome: string, limit?: Int): Promise<PredictionOrderBook> {
    const row = await this.outcomeRow(outcome)
    const book = await this.call((client) => client.orderbook(row.marketId, row.label))
    return this.bookStructure(row, book, { limit, timestamp: book.lastUpdate * 1_000 })
  }

  protected bookStructure(
    row: OutcomeRow,
    book: {
      readonly bids: readonly Level[]
      readonly asks: readonly Level[]
      readonly seq: number
    },
    { limit, timestamp }: { readonly limit?: Int; readonly timestamp: number },
  ): PredictionOrderBook {
    return this.safePredictionOrderBook(
      {
        bids: levels(book.bids, limit),
        asks: levels(book.asks, limit),
        timestamp,
        datetime: this.iso8601(timestamp),
        nonce: book.seq,
      },
      row,
    )
  }

  override async fetchOHLCV(
    outcome: string,
    timeframe = '1m',
    since?: Int,
    limit: Int = CANDLES_MAX,
  ): Promise<OHLCV[]> {
    const row = await this.outcomeRow(outcome)
    const interval = (TIMEFRAMES as Record<string, Interval>)[timeframe]
    if (interval === undefined) {
      const known = Object.keys(TIMEFRAMES).join(', ')
      throw new BadRequest(`${this.id} timeframe must be one of ${known}, and not ${timeframe}`)
    }
    const count = Math.min(limit ?? CANDLES_MAX, CANDLES_MAX)
    const fromSec = since === undefined ? undefined : Math.floor(since / 1_000)
    const spanSec = this.parseTimeframe(timeframe)
    const which = {
      ...{ outcome: row.label, interval },
      ...(fromSec === undefined ? {} : { from: fromSec, to: fromSec + count * spanSec }),
    }
    const { candles } = await this.call((client) => client.candles(row.marketId, which))
    const parsed = candles.map((candle) => this.parseOHLCV(candle))
    return fromSec === undefined ? parsed.slice(-count) : parsed.slice(0, count)
  }

  /** The volume is in dollars. */
  override parseOHLCV(ohlcv: unknown): OHLCV {
    const { timestamp, open, high, low, close, volume } = ohlcv as Candle
    const [o, h, l, c, v] = [open, high, low, close, volume].map((each) => Number(decimal(each)))
    return [timestamp * 1_000, o, h, l, c, v] as OHLCV
  }

  override async fetchTrades(
    outcome: string,
    since?: Int,
    limit: Int = PAGE_MAX,
  ): Promise<PredictionTrade[]> {
    const row = await this.outcomeRow(outcome)
    const code = OUTCOMES.indexOf(row.label)
    const wanted = Math.min(limit ?? PAGE_MAX, TRADES_MAX)
    const found: RawTrade[] = []
    let before: string | undefined
    for (let read = 0; read < TRADES_MAX && found.length < wanted; read += PAGE_MAX) {
      const which = { limit: PAGE_MAX, ...(before === undefined ? {} : { before }) }
      const page = await this.call((client) => client.marketActivity(row.marketId, which))
      found.push(...page.activity.filter((trade) => trade.outcome === code))
      before = page.nextBefore ?? undefined
      const oldest = page.activity.at(-1)
      if (before === undefined || (since && oldest && oldest.timestamp * 1_000 < since)) break
    }
    return this.parsePredictionTrades(found, row, since, limit)
  }

  override parsePredictionTrade(trade: Dict, market?: unknown): PredictionTrade {
    const raw = trade as RawTrade
    const marketId = raw.marketId ?? (market as OutcomeRow).marketId
    const row = this.safeOutcome(outcomeIdOf(marketId, raw.outcome)) as OutcomeRow
    const ownSide = raw.role === undefined ? undefined : raw.role === 'buyer' ? 0 : 1
    const side = ownSide ?? raw.takerSide
    return this.safePredictionTrade({
      ...this.identity(row),
      id: raw.tradeId,
      order: raw.orderHash,
      timestamp: raw.ts ?? (raw.timestamp ?? 0) * 1_000,
      side: side === undefined ? undefined : side === 0 ? 'buy' : 'sell',
      takerOrMaker:
        ownSide === undefined || raw.takerSide === undefined
          ? undefined
          : ownSide === raw.takerSide
            ? 'taker'
            : 'maker',
      price: decimal(raw.price),
      amount: decimal(raw.size),
      cost: raw.cost === undefined ? undefined : decimal(raw.cost),
      fee: { cost: 0, currency: 'USDC' },
      info: trade,
    })
  }

  /** Returns the trader's trades. Reads pages from the newest back, until `limit` or `since` is reached. */
  override async fetchMyTrades(
    outcome?: Str,
    since?: Int,
    limit: Int = PAGE_MAX,
  ): Promise<PredictionTrade[]> {
    const row = outcome === undefined ? undefined : await this.outcomeRow(outcome)
    const wanted = Math.min(limit ?? PAGE_MAX, TRADES_MAX)
    const isWanted = ({ marketId, outcome: code }: UserTrade) =>
      row === undefined || outcomeIdOf(marketId, code) === row.outcomeId
    const found: UserTrade[] = []
    let before: string | undefined
    for (let read = 0; read < TRADES_MAX && found.length < wanted; read += PAGE_MAX) {
      const page = await this.activityPage({ limit: PAGE_MAX, before })
      found.push(...page.activity.filter(isWanted))
      before = page.nextBefore ?? undefined
      const oldest = page.activity.at(-1)
      if (before === undefined || (since && oldest && oldest.timestamp * 1_000 < since)) break
    }
    await this.loadMarketsById(found.map(({ marketId }) => marketId))
    return this.parsePredictionTrades(found, row, since, limit)
  }

  protected async activityPage(which: {
    readonly limit: number
    readonly before?: string | undefined
  }) {
    const address = await this.trader()
    return this.call((client) => client.activity({ address, ...which }))
  }

  override async fetchOrderTrades(
    id: string,
    outcome?: Str,
    since?: Int,
    limit?: Int,
  ): Promise<PredictionTrade[]> {
    const trades = await this.fetchMyTrades(outcome, since, TRADES_MAX)
    return trades.filter(({ order }) => order === id).slice(0, limit)
  }

  override async fetchPosition(outcome: string): Promise<PredictionPosition> {
    const row = await this.outcomeRow(outcome)
    const [position] = await this.fetchPositions([outcome])
    if (position !== undefined) return position
    return this.safePredictionPosition({
      ...this.identity(row),
      side: 'long',
      contracts: 0,
      info: {},
    })
  }

  override async fetchPositions(outcomes?: Strings): Promise<PredictionPosition[]> {
    const wanted = outcomes === undefined ? undefined : await this.outcomeRows(outcomes)
    const ids = wanted === undefined ? undefined : new Set(wanted.map(({ outcomeId }) => outcomeId))
    const address = await this.trader()
    const found = await this.call((client) => client.positions({ address }))
    await this.loadMarketsById(found.map(({ marketId }) => marketId))
    return found
      .flatMap((position) => OUTCOMES.map((_, at) => this.positionOf(position, at)))
      .filter((position) => position !== undefined)
      .filter(({ outcomeId }) => ids === undefined || ids.has(outcomeId ?? ''))
  }

  /** Returns the position in one outcome; undefined if the position has no shares. */
  protected positionOf(position: UserPosition, at: number): PredictionPosition | undefined {
    const shares = at === 0 ? position.yesShares : position.noShares
    const cost = at === 0 ? position.yesCost : position.noCost
    if (shares === 0) return undefined
    const row = this.safeOutcome(outcomeIdOf(position.marketId, at)) as OutcomeRow & Dict
    const winner: boolean | undefined = row.winner
    return this.safePredictionPosition({
      ...this.identity(row),
      id: row.outcomeId,
      side: 'long',
      contracts: decimal(shares),
      contractSize: '1',
      collateral: decimal(cost),
      entryPrice: String(cost / shares),
      resolved: position.resolved,
      ...(winner === undefined ? {} : { won: winner, settleFraction: Number(winner) }),
      ...(winner === undefined ? {} : { payout: winner ? decimal(shares) : '0' }),
      info: position,
    })
  }

  /**
   * Returns the dollar balance of the trader's address. `used` is the amount that open orders need. If the exchange
   * reserves funds, it reports both amounts, and `used` also contains unsettled trades. Otherwise, reads the balance
   * from the chain. Except on a devnet, this read needs `options.rpcUrl`.
   */
  override async fetchBalance(): Promise<Balances> {
    const address = await this.trader()
    const { risk } = (await this.call((client) => client.config())) as { risk?: Dict }
    const reserves = this.safeString(risk ?? {}, 'funds') === 'reserve'
    const [total, used, info] = reserves
      ? await this.reservedFunds(address)
      : await this.chainFunds(address)
    const free = total > used ? total - used : 0n
    return this.safeBalance({
      USDC: { total: decimal(total), used: decimal(total - free), free: decimal(free) },
      timestamp: this.milliseconds(),
      datetime: this.iso8601(this.milliseconds()),
      info,
    })
  }

  protected async reservedFunds(address: string): Promise<readonly [bigint, bigint, unknown]> {
    const funds = await this.call((client) => client.funds({ address }))
    const dollars = funds.tokens.find(({ token }) => token === 'stablecoin')
    const used = BigInt(dollars?.reservedForOrders ?? 0) + BigInt(dollars?.reservedForTrades ?? 0)
    return [BigInt(dollars?.held ?? 0), used, funds]
  }

  protected async chainFunds(address: string): Promise<readonly [bigint, bigint, unknown]> {
    const balances = await this.call((client) => client.chain.balances({ address }))
    const orders = await this.call((client) => client.orders.list({ trader: address }))
    const bids = orders.filter(({ side }) => side === 0)
    const used = bids.reduce(
      (sum, { price, remainingSize }) =>
        sum + (BigInt(price) * BigInt(remainingSize) + 999_999n) / 1_000_000n,
      0n,
    )
    return [BigInt(balances.stablecoin), used, balances]
  }

  override async fetchTradingFee(outcome: string): Promise<PredictionTradingFee> {
    const { outcome: name, outcomeId, market } = await this.outcomeRow(outcome)
    const fee = { maker: 0, taker: 0, percentage: true, tierBased: false }
    return { ...fee, outcome: name, outcomeId, market, info: {} }
  }

  override async fetchOpenInterest(outcome: string): Promise<PredictionOpenInterest> {
    const { outcome: name, outcomeId, market, marketId } = await this.outcomeRow(outcome)
    const info = await this.call((client) => client.stats(marketId))
    const timestamp = this.milliseconds()
    return {
      openInterestValue: Number(decimal(info.openInterest)),
      ...{ timestamp, datetime: this.iso8601(timestamp) },
      ...{ outcome: name, outcomeId, market, info },
    }
  }

  /** Returns the payouts that the address received from resolved markets. */
  override async fetchSettlements(
    outcome?: Str,
    since?: Int,
    limit?: Int,
  ): Promise<PredictionSettlement[]> {
    const row = outcome === undefined ? undefined : await this.outcomeRow(outcome)
    const { settlements } = await this.activityPage({ limit: PAGE_MAX })
    await this.loadMarketsById(settlements.map(({ marketId }) => marketId))
    const parsed = settlements.map((each) => {
      const won = this.safeOutcome(outcomeIdOf(each.marketId, each.winningOutcome)) as OutcomeRow
      const timestamp = each.timestamp * 1_000
      return {
        id: each.txHash,
        ...{ timestamp, datetime: this.iso8601(timestamp) },
        ...{ outcome: won.outcome, outcomeId: won.outcomeId, market: won.market },
        result: won.label,
        won: true,
        payout: Number(decimal(each.payout)),
        info: each,
      }
    })
    return this.filterByOutcomeSinceLimit(parsed, row?.outcome, since, limit)
  }
}
