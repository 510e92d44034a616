/** Orders: placing, replacing, cancelling and reading them. The SDK signs them (EIP-712). */

import {
  ArgumentsRequired,
  BadRequest,
  type Dict,
  type Int,
  InvalidOrder,
  NotSupported,
  type Num,
  OrderNotFillable,
  OrderNotFound,
  type OrderSide,
  type OrderType,
  type PredictionOrder,
  type PredictionOrderRequest,
  type Str,
} from 'ccxt'
import type { PlaceIntent } from '#client/client.ts'
import type { OpenOrder, PlacedOrder, StoredOrder } from '#protocol/shapes/orders.ts'
import type { StreamOrder } from '#protocol/shapes/stream.ts'
import { decimal, millionths } from './decimal.ts'
import { asCcxtError } from './errors.ts'
import { outcomeIdOf } from './market-structure.ts'
import type { OutcomeRow } from './sibyl-markets.ts'
import { SibylReads } from './sibyl-reads.ts'

/** An order as REST or the stream describes it. */
type RawOrder = Pick<
  OpenOrder,
  'orderHash' | 'marketId' | 'side' | 'outcome' | 'price' | 'remainingSize'
> &
  Partial<OpenOrder> &
  Partial<Pick<StreamOrder, 'ts'>> & { readonly status?: string; readonly updatedAt?: number }

/**
 * Data about an order that this object remembers. A cancel needs the market and the side. The size is remembered because
 * later messages of the stream omit it.
 */
type Place = { readonly marketId: string; readonly side: 'buy' | 'sell'; readonly size?: number }

/** Maximum number of orders whose market and side are remembered. */
const PLACES_MAX = 10_000

const STATUSES: Readonly<Record<string, string>> = {
  accepted: 'open',
  partially_filled: 'open',
  open: 'open',
  filled: 'closed',
  cancelled: 'canceled',
  unfunded: 'canceled',
  'self-trade': 'canceled',
  'market-closed': 'canceled',
  expired: 'expired',
}

/**
 * Pause in milliseconds between two reads of an order from the database. The database lags behind the markets by about
 * this time.
 */
const BEHIND_MS = 100
const BEHIND_TRIES = 20

/** Parameters that are passed to the SDK unchanged. */
const ORDER_PARAMS = [
  ...['group', 'protection', 'bookByMs', 'replaces', 'replaceMode', 'permitSignature', 'nonce'],
]

/**
 * Order parameters of other exchanges. An order with one of them is rejected. If the parameter were ignored, the placed
 * order would differ from the requested one.
 */
const NOT_SUPPORTED = [
  ...['triggerPrice', 'stopPrice', 'stopLossPrice', 'takeProfitPrice', 'stopLoss', 'takeProfit'],
  ...['reduceOnly', 'trailingAmount', 'trailingPercent', 'cost'],
]

const isPositive = (value: Num): value is number =>
  Number.isFinite(Number(value)) && Number(value) > 0

const WORST_PRICES = { buy: 0.999999, sell: 0.000001 } as const

export class SibylOrders extends SibylReads {
  readonly #places = new Map<string, Place>()

  /**
   * Places an order. `params`: `timeInForce` (`GTC`, `IOC`, `FOK`, `PO`), `postOnly`, `clientOrderId` (the label),
   * `group`, `protection`, `bookByMs`, `expiration` (Unix seconds) or `ttlSeconds`, `replaces`, `replaceMode`,
   * `permitSignature`. A market order is an IOC order whose price is `options.slippage` worse than the best one.
   */
  override async createOrder(
    outcome: string,
    type: OrderType,
    side: OrderSide,
    amount: number,
    price?: Num,
    params: Dict = {},
  ): Promise<PredictionOrder> {
    const row = await this.outcomeRow(outcome)
    const intent = await this.intentOf(row, { outcome, type, side, amount, price, params })
    const placed = await this.call((client) => client.orders.place(intent))
    return this.placedOrder(row, intent, placed)
  }

  /** Places orders in as few requests as possible. A refused order has the status `rejected`. */
  override async createOrders(orders: PredictionOrderRequest[]): Promise<PredictionOrder[]> {
    const rows: OutcomeRow[] = []
    const intents: PlaceIntent[] = []
    for (const order of orders) {
      if (order.outcome === undefined)
        throw new ArgumentsRequired(`${this.id} createOrders() requires an outcome`)
      const row = await this.outcomeRow(order.outcome)
      rows.push(row)
      intents.push(await this.intentOf(row, { ...order, outcome: order.outcome }))
    }
    const results = await this.call((client) => client.orders.placeBatch(intents))
    return Promise.all(
      results.map((result, at) => {
        const [row, intent] = [rows[at]!, intents[at]!]
        if (result.ok) return this.placedOrder(row, intent, result.placed)
        const error = asCcxtError(this.id, result.error) as Error
        const { code, message } = result.error
        return this.safePredictionOrder({
          ...this.orderOfIntent(row, intent),
          status: 'rejected',
          info: { code, error: message, name: error.name },
        })
      }),
    )
  }

  /** Replaces an open order by a new one in one step of the market. If the old order is not open, nothing is placed. */
  async editOrder(
    id: string,
    outcome: string,
    type: OrderType,
    side: OrderSide,
    amount?: Num,
    price?: Num,
    params: Dict = {},
  ): Promise<PredictionOrder> {
    const old =
      amount === undefined || price === undefined ? await this.fetchOrder(id, outcome) : undefined
    const [size, limit] = [amount ?? old?.remaining, price ?? old?.price]
    if (size === undefined) throw new ArgumentsRequired(`${this.id} editOrder() requires an amount`)
    const replacing = { replaces: id, ...params }
    return this.createOrder(outcome, type, side, size, limit, replacing)
  }

  protected async intentOf(
    { marketId, label }: OutcomeRow,
    {
      outcome,
      type,
      side,
      amount,
      price,
      params = {},
    }: PredictionOrderRequest & { outcome: string },
  ): Promise<PlaceIntent> {
    if (side !== 'buy' && side !== 'sell')
      throw new InvalidOrder(`${this.id} side must be buy or sell`)
    const isMarket = type === 'market'
    if (!isMarket && type !== 'limit')
      throw new InvalidOrder(`${this.id} type must be limit or market`)
    if (!isPositive(amount)) throw new InvalidOrder(`${this.id} amount must be above zero`)
    const { clientOrderId, ttlSeconds, expiration, timeInForce: given, postOnly } = params
    const unknown = NOT_SUPPORTED.find((name) => params[name])
    if (unknown !== undefined)
      throw new NotSupported(`${this.id} does not support the order parameter ${unknown}`)
    const force = isMarket ? (given ?? 'IOC') : given
    const limit = isMarket ? await this.marketPrice(outcome, side, price) : price
    if (limit === undefined)
      throw new ArgumentsRequired(`${this.id} a limit order requires a price`)
    if (!isPositive(limit)) throw new InvalidOrder(`${this.id} price must be above zero`)
    const isPostOnly = postOnly === true || force === 'PO'
    return {
      ...{ marketId, side, outcome: label },
      price: this.priceToPredictionPrecision(outcome, limit) as string,
      size: this.amountToPredictionPrecision(outcome, amount) as string,
      ...(expiration === undefined
        ? { ttlSeconds: ttlSeconds ?? this.safeInteger(this.options, 'ttlSeconds') }
        : { expiration }),
      ...(clientOrderId === undefined ? {} : { label: clientOrderId }),
      ...(isPostOnly ? { postOnly: true } : {}),
      ...(force === undefined || force === 'PO' ? {} : { timeInForce: force }),
      ...Object.fromEntries(
        ORDER_PARAMS.filter((name) => params[name] !== undefined).map((name) => [
          name,
          params[name],
        ]),
      ),
    }
  }

  /** Returns the limit price of a market order: the given price, or the best price made worse by `options.slippage`. */
  protected async marketPrice(outcome: string, side: 'buy' | 'sell', given: Num): Promise<number> {
    if (given !== undefined) return given
    const { bids, asks } = await this.fetchOrderBook(outcome, 1)
    const best = (side === 'buy' ? asks : bids)[0]?.[0]
    if (best === undefined) {
      throw new OrderNotFillable(`${this.id} ${outcome} has no ${side === 'buy' ? 'ask' : 'bid'}`)
    }
    const slippage = this.safeNumber(this.options, 'slippage', 0) ?? 0
    const limit = best * (side === 'buy' ? 1 + slippage : 1 - slippage)
    return Math.min(Math.max(limit, WORST_PRICES.sell), WORST_PRICES.buy)
  }

  /**
   * Returns the placed order. If a part of it has matched and the remainder may rest in the book, reads the order's
   * state from the exchange.
   */
  protected async placedOrder(
    row: OutcomeRow,
    intent: PlaceIntent,
    placed: PlacedOrder,
  ): Promise<PredictionOrder> {
    const { orderHash, matches, filled, timestamp } = placed
    const size = millionths(String(intent.size))
    this.remember(orderHash, { marketId: row.marketId, side: intent.side, size })
    const isImmediate = intent.timeInForce === 'IOC' || intent.timeInForce === 'FOK'
    if (matches > 0 && !isImmediate) return this.fetchOrder(orderHash, row.outcome)
    const done = isImmediate ? decimal(filled ?? 0) : '0'
    const ended = filled === size ? 'closed' : 'canceled'
    return this.safePredictionOrder({
      ...this.orderOfIntent(row, intent),
      id: orderHash,
      timestamp: timestamp * 1_000,
      filled: done,
      ...(matches === 0 ? { cost: '0' } : { cost: undefined }),
      status: isImmediate ? ended : 'open',
      info: placed,
    })
  }

  protected orderOfIntent(row: OutcomeRow, intent: PlaceIntent): Dict {
    return {
      ...this.identity(row),
      clientOrderId: intent.label,
      type: 'limit',
      ...{ side: intent.side, price: intent.price, amount: intent.size },
      timeInForce: intent.postOnly ? 'PO' : (intent.timeInForce ?? 'GTC'),
      postOnly: intent.postOnly ?? false,
      reduceOnly: false,
      fee: { cost: 0, currency: 'USDC' },
    }
  }

  /** Remembers an order from the stream, with its size. */
  protected rememberSize(order: Partial<StreamOrder>): void {
    const { orderHash, marketId, side, size } = order
    if (orderHash === undefined || marketId === undefined || size === undefined) return
    this.remember(orderHash, { marketId, side: side === 0 ? 'buy' : 'sell', size })
  }

  /** Remembers market and side of an order. Above the maximum, the oldest order is forgotten. */
  protected remember(orderHash: string, place: Place): void {
    this.#places.set(orderHash, place)
    const [oldest] = this.#places.keys()
    if (this.#places.size > PLACES_MAX) this.#places.delete(oldest!)
  }

  /** Returns market and side of an order. Reads them from the exchange if this object does not remember the order. */
  protected async placeOf(id: string): Promise<Place> {
    const known = this.#places.get(id)
    if (known !== undefined) return known
    const { marketId, side } = await this.storedOrder(id)
    return { marketId, side: side === 0 ? 'buy' : 'sell' }
  }

  override async cancelOrder(id: string): Promise<PredictionOrder> {
    const place = await this.placeOf(id)
    const { marketId, side } = place
    const info = await this.call((client) =>
      client.orders.cancel({ orderHash: id, marketId, side }),
    )
    this.#places.delete(id)
    await this.loadMarketsById([marketId])
    const { market } = this.markets_by_id![marketId][0]
    return this.safePredictionOrder({ id, market, side, status: 'canceled', info })
  }

  override async cancelOrders(ids: string[]): Promise<PredictionOrder[]> {
    const cancelled: PredictionOrder[] = []
    for (const id of ids) cancelled.push(await this.cancelOrder(id))
    return cancelled
  }

  /**
   * Cancels all open orders. `outcome` restricts the cancel to one market, and `params.group` restricts it to one
   * group.
   */
  async cancelAllOrders(outcome?: Str, params: Dict = {}): Promise<PredictionOrder[]> {
    const row = outcome === undefined ? undefined : await this.outcomeRow(outcome)
    const group = this.safeString(params, 'group')
    const open = await this.openOrders(row)
    const wanted = open.filter((order) => group === undefined || order.group === group)
    // With an API key, one request cancels all these orders. Without an API key, each order is cancelled by a separate
    // request.
    if (!this.apiKey) return this.cancelOrders(wanted.map(({ orderHash }) => orderHash))
    const where = {
      ...(row === undefined ? {} : { market: row.marketId }),
      ...(group === undefined ? {} : { group }),
    }
    const { orderHashes } = await this.call((client) => client.orders.cancelAll(where))
    return orderHashes.map((id) => this.safePredictionOrder({ id, status: 'canceled', info: {} }))
  }

  /**
   * Sets the dead-man switch of the API key: unless this method is called again within `timeout` ms, all orders are
   * cancelled.
   */
  override async cancelAllOrdersAfter(timeout: Int): Promise<Dict> {
    if (timeout === undefined)
      throw new ArgumentsRequired(`${this.id} cancelAllOrdersAfter() requires a timeout in ms`)
    return this.call((client) => client.orders.deadman(timeout))
  }

  override async fetchOpenOrders(
    outcome?: Str,
    since?: Int,
    limit?: Int,
  ): Promise<PredictionOrder[]> {
    const row = outcome === undefined ? undefined : await this.outcomeRow(outcome)
    const open = await this.openOrders(row)
    await this.loadMarketsById(open.map(({ marketId }) => marketId))
    return this.parsePredictionOrders(open, row, since, limit)
  }

  protected async openOrders(row: OutcomeRow | undefined): Promise<OpenOrder[]> {
    const trader = await this.trader()
    const market = row === undefined ? {} : { market: row.marketId }
    return this.call((client) => client.orders.list({ trader, ...market }))
  }

  /** Returns an order, open or ended. `fetchOrderTrades` returns the order's fills. */
  async fetchOrder(id: string, outcome?: Str): Promise<PredictionOrder> {
    const row = outcome === undefined ? undefined : await this.outcomeRow(outcome)
    const found = (await this.openOrders(row)).find(({ orderHash }) => orderHash === id)
    const order = found ?? (await this.endedOrder(id))
    await this.loadMarketsById([order.marketId])
    return this.parsePredictionOrder(order)
  }

  /** Reads an ended order from the database. Repeats the read while the database still lags behind the market. */
  protected async endedOrder(id: string): Promise<StoredOrder> {
    for (let tries = 1; ; tries++) {
      const order = await this.storedOrder(id, tries).catch((error: unknown) => {
        if (error instanceof OrderNotFound && tries < BEHIND_TRIES && this.#places.has(id))
          return undefined
        throw error
      })
      if (order !== undefined && (order.status !== 'open' || tries === BEHIND_TRIES)) return order
      await this.sleep(BEHIND_MS)
    }
  }

  protected async storedOrder(id: string, _tries = 1): Promise<StoredOrder> {
    if (!/^0x[0-9a-fA-F]{64}$/.test(id))
      throw new BadRequest(`${this.id} ${id} is not the id of an order`)
    return this.call((client) => client.orders.get(id))
  }

  override parsePredictionOrder(order: Dict): PredictionOrder {
    const raw = order as RawOrder
    const row = this.safeOutcome(outcomeIdOf(raw.marketId, raw.outcome)) as OutcomeRow
    const size = raw.size ?? this.#places.get(raw.orderHash)?.size
    const parsed = this.safePredictionOrder({
      ...this.identity(row),
      id: raw.orderHash,
      clientOrderId: raw.label,
      timestamp: raw.status === 'accepted' ? raw.ts : seconds(raw.timestamp),
      lastUpdateTimestamp: raw.ts ?? seconds(raw.updatedAt),
      type: 'limit',
      timeInForce: 'GTC',
      side: raw.side === 0 ? 'buy' : 'sell',
      price: decimal(raw.price),
      amount: size === undefined ? undefined : decimal(size),
      remaining: decimal(raw.remainingSize),
      status: STATUSES[raw.status ?? 'open'],
      reduceOnly: false,
      fee: { cost: 0, currency: 'USDC' },
      info: order,
    })
    // Omits the cost of an order with fills. The fills may have better prices than the order's limit, so only the
    // trades show the real cost.
    return parsed.filled === 0 ? parsed : { ...parsed, cost: undefined, average: undefined }
  }
}

const seconds = (unix: number | undefined): Int => (unix === undefined ? undefined : unix * 1_000)
