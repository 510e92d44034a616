/**
 * Checks ccxt's data structures, such as orders and trades, against the ccxt manual, because the ccxt package contains
 * no checks. A structure must have every key that ccxt's base class writes. Its times must be consistent, its amounts
 * must be numbers, and the exchange must know its outcome.
 */

import assert from 'node:assert/strict'
import type {
  OHLCV,
  PredictionMarket,
  PredictionOrder,
  PredictionOrderBook,
  PredictionPosition,
  PredictionTicker,
  PredictionTrade,
} from 'ccxt'
import type { Sibyl } from '#ccxt/sibyl.ts'

type Fields = Readonly<Record<string, unknown>>

const isAmount = (value: unknown): boolean =>
  value === undefined || (typeof value === 'number' && Number.isFinite(value) && value >= 0)

function checkFields(name: string, fields: Fields, keys: readonly string[]): void {
  for (const key of [...keys, 'info']) assert.ok(key in fields, `${name} lacks ${key}`)
  if (typeof fields.timestamp === 'number') {
    assert.ok(Number.isSafeInteger(fields.timestamp), `${name}.timestamp`)
    assert.ok(fields.timestamp > 1_230_940_800_000, `${name}.timestamp is in milliseconds`)
    assert.equal(fields.datetime, new Date(fields.timestamp).toISOString(), `${name}.datetime`)
  }
}

function checkAmounts(name: string, fields: Fields, keys: readonly string[]): void {
  for (const key of keys) assert.ok(isAmount(fields[key]), `${name}.${key} is ${fields[key]}`)
}

function checkOutcome(exchange: Sibyl, name: string, fields: Fields): void {
  const row = exchange.outcome(fields.outcome as string)
  assert.equal(fields.outcomeId, row.outcomeId, `${name}.outcomeId`)
  assert.equal(fields.market, row.market, `${name}.market`)
}

export function checkMarket(exchange: Sibyl, market: PredictionMarket): void {
  const fields = market as unknown as Fields
  checkFields('market', fields, ['id', 'market', 'title', 'marketType', 'executionModel', 'limits'])
  assert.deepEqual([market.marketType, market.executionModel], ['binary', 'clob'])
  assert.match(market.market, /^[A-Z0-9_]+$/)
  assert.equal(market.outcomes.length, 2)
  for (const one of market.outcomes) {
    assert.equal(one.market, market.market)
    assert.equal(exchange.outcome(one.outcome), exchange.outcome(one.outcomeId))
    checkAmounts('outcome', one as unknown as Fields, ['price', 'bid', 'ask'])
  }
  assert.ok((market.end ?? 0) > (market.created ?? 0))
}

export function checkTicker(exchange: Sibyl, ticker: PredictionTicker): void {
  const fields = ticker as unknown as Fields
  const prices = ['bid', 'ask', 'last', 'close', 'open', 'quoteVolume']
  checkFields('ticker', fields, ['timestamp', 'high', 'low', 'change', ...prices])
  checkAmounts('ticker', fields, prices)
  checkOutcome(exchange, 'ticker', fields)
  if (ticker.bid !== undefined && ticker.ask !== undefined) assert.ok(ticker.bid < ticker.ask)
}

export function checkBook(exchange: Sibyl, book: PredictionOrderBook): void {
  const { bids, asks, nonce } = book
  checkOutcome(exchange, 'book', book as unknown as Fields)
  assert.ok(Number.isSafeInteger(nonce))
  for (const [side, sign] of [
    [bids, -1],
    [asks, 1],
  ] as const) {
    for (const [at, [price, amount]] of side.entries()) {
      assert.ok(price! > 0 && price! < 1 && amount! > 0)
      if (at > 0) assert.ok((price! - side[at - 1]![0]!) * sign > 0, 'levels are sorted')
    }
  }
  if (bids.length > 0 && asks.length > 0) assert.ok(bids[0]![0]! < asks[0]![0]!, 'not crossed')
}

export function checkTrade(exchange: Sibyl, trade: PredictionTrade): void {
  const fields = trade as unknown as Fields
  const amounts = ['price', 'amount', 'cost']
  checkFields('trade', fields, ['id', 'order', 'timestamp', 'takerOrMaker', 'fee', ...amounts])
  checkAmounts('trade', fields, amounts)
  checkOutcome(exchange, 'trade', fields)
  assert.ok(['buy', 'sell'].includes(trade.side ?? ''), `side is ${trade.side}`)
}

export function checkOrder(exchange: Sibyl, order: PredictionOrder): void {
  const fields = order as unknown as Fields
  const amounts = ['price', 'amount', 'filled', 'remaining', 'cost', 'average']
  checkFields('order', fields, ['id', 'clientOrderId', 'timestamp', 'trades', 'fee', ...amounts])
  checkAmounts('order', fields, amounts)
  checkOutcome(exchange, 'order', fields)
  assert.match(order.id ?? '', /^0x[0-9a-f]{64}$/)
  assert.ok(['open', 'closed', 'canceled', 'expired'].includes(order.status ?? ''))
  assert.equal(order.amount, Number(((order.filled ?? 0) + (order.remaining ?? 0)).toFixed(6)))
}

export function checkPosition(exchange: Sibyl, position: PredictionPosition): void {
  const fields = position as unknown as Fields
  const amounts = ['contracts', 'collateral', 'entryPrice']
  checkFields('position', fields, ['side', 'resolved', ...amounts])
  checkAmounts('position', fields, amounts)
  checkOutcome(exchange, 'position', fields)
  assert.equal(position.side, 'long')
}

export function checkCandle([timestamp, open, high, low, close, volume]: OHLCV): void {
  assert.ok(timestamp! % 60_000 === 0)
  assert.ok(low! <= Math.min(open!, close!) && high! >= Math.max(open!, close!))
  assert.ok(volume! >= 0)
}

/** Asserts that `has` lists exactly the methods that this exchange implements itself. */
export function checkHas(exchange: Sibyl, base: object): void {
  const own = new Set<string>()
  for (let at = Object.getPrototypeOf(exchange); at !== base; at = Object.getPrototypeOf(at)) {
    for (const name of Object.getOwnPropertyNames(at)) own.add(name)
  }
  const has = exchange.has as Readonly<Record<string, unknown>>
  const unified = Object.keys(has).filter((name) =>
    /^(un)?(fetch|create|cancel|edit|watch)/i.test(name),
  )
  const derived = ['createLimitOrder', 'createMarketOrder']
  const claimed = unified.filter((name) => has[name] === true && !derived.includes(name)).sort()
  assert.deepEqual(claimed, unified.filter((name) => own.has(name)).sort())
}
