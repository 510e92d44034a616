/**
 * One market without a thread or a log: the test sends commands, receives answers and events, and controls the clock.
 * Events are printed as short lines and books as small tables, so that tests are easy to read.
 */

import type { Address, MarketId, TradeId, Uint64 } from '#domain/ids.ts'
import { tradeId, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import type { MarketEvent, OrdersMatched } from '#domain/market-event.ts'
import { isTakerBuyer } from '#domain/match-trades.ts'
import { ONE } from '#domain/money.ts'
import { BUY, byAge, OUTCOMES, SELL, type VerifiedOrder, YES } from '#domain/order.ts'
import type { TimeInForce } from '#domain/time-in-force.ts'
import { JsonBytes } from '#log/json-bytes.ts'
import { PACKED } from '#log/packed-event.ts'
import type { MarketProtocol, OpenOrder, PlacedOrder, TradeReport } from '#protocol/market.ts'
import { apply, market, newMarket } from '#services/market/market.ts'
import type { MarketRules, MarketState, Recall, RiskRules } from '#services/market/state.ts'
import { hashNamed, nameOf, type OrderBuilder, traderNamed } from '../../support/orders.ts'
import { stateHashOf } from './state-hash.ts'

export const START_SEC = 1_700_000_000
export const MARKET_ID = `0x${'ab'.repeat(32)}` as MarketId

/** Returns a trader's open orders, oldest first, found by a scan of every book. */
export function openOrdersIn(
  states: readonly MarketState[],
  trader: Address,
  limit = Number.POSITIVE_INFINITY,
  nowSec = START_SEC,
): { orders: OpenOrder[]; count: number } {
  const orders: OpenOrder[] = []
  for (const { market: where, books } of states) {
    for (const outcome of OUTCOMES) {
      for (const side of [BUY, SELL] as const) {
        for (const order of books[outcome].orders(side)) {
          if (order.trader !== trader || order.expiresAtSec <= nowSec) continue
          orders.push({ ...order, marketId: where.id, outcome })
        }
      }
    }
  }
  return { orders: orders.sort(byAge).slice(0, limit), count: orders.length }
}

export function aMarket(more: Partial<Market> = {}): Market {
  return {
    id: MARKET_ID,
    question: 'Will it rain?',
    description: '',
    category: 'general',
    contractAddress: traderNamed('contract'),
    maker: traderNamed('maker'),
    expiration: START_SEC + 1_000_000,
    chainId: 31_337,
    createdAt: START_SEC,
    quick: false,
    ...more,
  }
}

/** Returns the events in the format of the log's rows. */
export function packed(events: readonly MarketEvent[]): unknown[] {
  return events.map((event, index) => {
    const text = new JsonBytes()
    PACKED.write(event, events[index - 1], text)
    return JSON.parse(text.bytes.toString('utf8'))
  })
}

/** The order as its trader signed it. */
export function signed(builder: OrderBuilder, marketId = MARKET_ID): VerifiedOrder {
  const { orderHash, trader, side, outcome, price, size, expiresAtSec } = builder.fields
  return {
    marketId,
    trader,
    side,
    outcome,
    price,
    size,
    nonce: '7' as Uint64,
    expiration: String(expiresAtSec) as Uint64,
    makerFeeRecipient: ZERO_ADDRESS,
    orderHash,
    signature: `0x${'11'.repeat(65)}`,
  }
}

export type Given = {
  readonly selfTrade?: 'allow' | 'cancel-resting'
  readonly ordersMax?: number
  readonly market?: Partial<Market>
  readonly risk?: RiskRules
  readonly settled?: boolean
  readonly sessions?: MarketRules['sessions']
}

export function given(given_: Given = {}) {
  const { selfTrade = 'allow', ordersMax = 1_000_000, market: more, risk, settled = true } = given_
  const { sessions } = given_
  const recall: Recall = { closed: new Map(), trades: new Map() }
  const rules = {
    ...{ selfTrade, ordersMax, seed: 42 },
    settled: { has: () => settled },
    ...(risk === undefined ? {} : { risk }),
    ...(sessions === undefined ? {} : { sessions }),
  }
  const opened = aMarket(more)
  const state = newMarket(opened, rules, recall)
  const events: MarketEvent[] = []
  const orders = new Map<string, VerifiedOrder>()
  let read = 0
  let nowMs = START_SEC * 1_000
  const context = {
    get nowMs() {
      return nowMs
    },
    // Events pass through JSON as in the log. So a value that the log cannot keep is lost in tests, too.
    emit: (event: MarketEvent) => void events.push(JSON.parse(JSON.stringify(event))),
  }
  const ask = <K extends keyof MarketProtocol>(
    type: K,
    message: MarketProtocol[K]['takes'],
  ): MarketProtocol[K]['answers'] => market[type](state, message as never, context)

  const matchOf = (taker: string): OrdersMatched => {
    const found = events.findLast(
      (event) => event.type === 'OrdersMatched' && nameOf(event.taker.orderHash) === taker,
    )
    if (found?.type !== 'OrdersMatched') throw new Error(`${taker} has matched nothing`)
    return found
  }
  const told = {
    state,
    recall,
    events,
    ask,
    marketId: opened.id,
    get nowSec() {
      return Math.floor(nowMs / 1_000)
    },
    /** Moves the clock to this many seconds after the start. */
    at(seconds: number) {
      nowMs = (START_SEC + seconds) * 1_000
    },
    open: () => ask('OpenMarket', { market: opened }),
    place(
      builder: OrderBuilder,
      timeInForce?: TimeInForce,
      more: Omit<PlacedOrder, 'order' | 'timeInForce'> = {},
    ) {
      const order = signed(builder, opened.id)
      orders.set(nameOf(order.orderHash), order)
      return ask('PlaceOrder', {
        ...{ order, ...more },
        ...(timeInForce === undefined ? {} : { timeInForce }),
      })
    },
    cancel(name: string, side: 'buy' | 'sell', by?: string) {
      return ask('CancelOrder', {
        marketId: opened.id,
        orderHash: hashNamed(name),
        side: side === 'buy' ? BUY : SELL,
        ...(by === undefined ? {} : { trader: traderNamed(by) }),
      })
    },
    /** Returns the trade id of one fill in the newest match of this taker. */
    tradeOf: (taker: string, fill = 0): TradeId => tradeId(opened.id, matchOf(taker).seq, fill),
    /** The report of settlement about that fill. */
    reportOf(taker: string, what: Partial<TradeReport>, fill = 0): TradeReport {
      const event = matchOf(taker)
      const { makerHash, size } = event.fills[fill]!
      const maker = orders.get(nameOf(makerHash))!
      const isBuyer = isTakerBuyer(event.taker, event.fills[fill]!)
      const [buy, sell] = isBuyer ? [event.taker, maker] : [maker, event.taker]
      const outcome = {
        status: 'failed',
        txHash: '0xaa',
        reason: 'InsufficientShares',
        fault: 'none',
      } as const
      return { tradeId: told.tradeOf(taker, fill), ...outcome, size, buy, sell, ...what }
    },
    report(taker: string, what: Partial<TradeReport>, fill = 0) {
      return ask('ReportTrade', {
        marketId: opened.id,
        report: told.reportOf(taker, what, fill),
      })
    },
    /** Events since the last call. */
    said(): string[] {
      const lines = events.slice(read).map(tell)
      read = events.length
      return lines
    },
    book: () => drawn(state),
    /** Returns the market that a replay of the events gives. */
    replayed(): MarketState {
      const fresh = newMarket(opened, rules, { closed: new Map(), trades: new Map() })
      for (const event of events) apply(fresh, event)
      return fresh
    },
    hash: () => stateHashOf(state),
  }
  told.open()
  read = events.length
  return told
}

const units = (amount: number): string => String(amount / ONE)
const sideNames = ['buy', 'sell'] as const
const outcomeNames = ['YES', 'NO'] as const

export function tell(event: MarketEvent): string {
  switch (event.type) {
    case 'MarketOpened':
      return 'market opened'
    case 'MarketClosed':
      return `market closed: ${event.reason}`
    case 'OrderRested': {
      const back = event.returned ? ` (${units(event.added)} came back)` : ''
      const what = `${sideNames[event.side]} ${outcomeNames[event.outcome]}`
      return `${nameOf(event.orderHash)} rests: ${what} ${units(event.remaining)} at ${units(event.price)}${back}`
    }
    case 'OrdersMatched': {
      const fills = event.fills.map(
        ({ makerHash, size, price, makerRemaining, kind }) =>
          `${kind === undefined ? '' : `${kind} `}${nameOf(makerHash)} ${units(size)} at ${units(price)}, ${units(makerRemaining)} left`,
      )
      const again = event.known ? ' again' : ''
      const taker = nameOf(event.taker.orderHash)
      return `${taker} meets${again} ${fills.join('; ')} | ${units(event.takerRemaining)} of it left`
    }
    case 'OrderClosed':
      return `${nameOf(event.orderHash)} ended: ${event.reason}, ${units(event.remaining)} rested${
        event.pending === undefined ? '' : `, ${units(event.pending)} pending`
      }`
    case 'TradeFailed':
      return `${event.type} ${event.tradeId.slice(67)} ${event.txHash}${
        event.excused === undefined ? '' : `, ${event.excused} excused`
      }`
    default:
      return `${event.type} ${event.tradeId.slice(67)} ${event.txHash}`
  }
}

/** Returns one line for each resting order, in price-time priority, such as `YES buy 0.42 a 10`. */
export function drawn(state: MarketState): string[] {
  const lines: string[] = []
  for (const outcome of OUTCOMES) {
    for (const side of [BUY, SELL] as const) {
      for (const order of state.books[outcome].orders(side)) {
        const where = `${outcome === YES ? 'YES' : 'NO'} ${sideNames[side]}`
        const { price, remaining, orderHash } = order
        lines.push(`${where} ${units(price)} ${nameOf(orderHash)} ${units(remaining)}`)
      }
    }
  }
  return lines
}
