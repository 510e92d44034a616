import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tradeId } from '#domain/ids.ts'
import { PROJECTION_ROWS_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { BUY, OUTCOMES, SELL } from '#domain/order.ts'
import { derive, withinRows } from '#services/projector/projector.ts'
import type { OrderChange, ProjectionBatch } from '#store/projection/rows.ts'
import { buy, sell } from '../../support/orders.ts'
import { type Random, withSeeds } from '../../support/random.ts'
import { given } from '../market/market-fixture.ts'
import { randomFlow } from '../market/random-flow.ts'

type OrderLine = Pick<OrderChange, 'status' | 'remaining'>

/** Tables in the simplest form: a row is inserted once, and only existing rows are changed. */
class Tables {
  readonly orders = new Map<string, OrderLine>()
  readonly trades = new Map<string, { status: string; txHash: string; line: string }>()
  readonly markets = new Map<string, string>()
  offset = 0

  take(batch: ProjectionBatch): void {
    assert.equal(batch.from, this.offset)
    this.offset = batch.to
    for (const { market } of batch.markets) insert(this.markets, market.id, 'open')
    for (const { order, status, remaining } of batch.orders) {
      insert(this.orders, order.orderHash, { status, remaining })
    }
    for (const { tradeId: id, price, size, buyOrderHash, sellOrderHash } of batch.trades) {
      const line = `${price} ${size} ${buyOrderHash} ${sellOrderHash}`
      insert(this.trades, id, { status: 'matched', txHash: '', line })
    }
    for (const { orderHash, status, remaining } of batch.orderChanges) {
      update(this.orders, orderHash, { status, remaining })
    }
    for (const { tradeId: id, status, txHash } of batch.tradeChanges) {
      update(this.trades, id, { ...this.trades.get(id)!, status, txHash })
    }
    for (const { marketId, closed } of batch.marketChanges) {
      update(this.markets, marketId, closed)
      for (const [hash, line] of this.orders) {
        if (line.status === 'open') this.orders.set(hash, { ...line, status: 'market-closed' })
      }
    }
  }
}

function insert<Value>(table: Map<string, Value>, key: string, value: Value): void {
  assert(!table.has(key), `${key} is inserted twice`)
  table.set(key, value)
}

function update<Value>(table: Map<string, Value>, key: string, value: Value): void {
  assert(table.has(key), `${key} changes and is not there`)
  table.set(key, value)
}

function projected(events: readonly MarketEvent[], random: Random): Tables {
  const tables = new Tables()
  for (let from = 0; from < events.length; ) {
    const part = events.slice(from, from + random.int(1, 40))
    tables.take(derive('log', 3, from, part))
    from += part.length
  }
  return tables
}

test('the projected order and trade rows agree with the market, however its events are divided into batches', () => {
  withSeeds([11, 12, 13], (random) => {
    const market = given({ selfTrade: random.chance(0.5) ? 'allow' : 'cancel-resting' })
    const flow = randomFlow(market, random)
    for (let step = 0; step < 5_000; step++) flow.step()
    const tables = projected(market.events, random)

    const open = new Map<string, number>()
    for (const outcome of OUTCOMES) {
      for (const side of [BUY, SELL] as const) {
        for (const order of market.state.books[outcome].orders(side)) {
          open.set(order.orderHash, order.remaining)
        }
      }
    }
    const ended = new Map<string, string>()
    for (const event of market.events) {
      if (event.type === 'OrderClosed') ended.set(event.orderHash, event.reason)
    }
    assert.equal(tables.orders.size, flow.firstAnswers.size, 'a row for each accepted order')
    for (const [hash, { status, remaining }] of tables.orders) {
      assert(flow.firstAnswers.has(hash as never))
      if (status === 'open') assert.equal(remaining, open.get(hash))
      else {
        // The log has `taken` for an order that was filled on arrival. Clients see `filled`, as for an order that was
        // filled later.
        const said = ended.get(hash)
        assert.equal(status, said === 'taken' ? 'filled' : said)
        // If an order was partly filled on arrival and its rest was cancelled, the log has `cancelled`. But the
        // market's record of the order, in `recall`, has `taken`.
        const recalled = market.recall.closed.get(hash as never)?.reason
        if (recalled !== said) assert.deepEqual([recalled, said], ['taken', 'cancelled'])
      }
    }
    const openRows = [...tables.orders.values()].filter(({ status }) => status === 'open')
    assert.equal(openRows.length, open.size)

    assert.equal(tables.trades.size, flow.trades.length)
    let unsettled = 0
    for (const [id, { status, txHash }] of tables.trades) {
      const known = market.recall.trades.get(id as never)
      assert.deepEqual([status, txHash], [known?.status ?? 'matched', known?.txHash ?? ''])
      if (status !== 'confirmed' && status !== 'failed') unsettled++
    }
    assert.equal(unsettled, market.state.unsettled)

    market.ask('CloseMarket', { marketId: market.marketId, reason: 'resolved' })
    const closed = projected(market.events, random)
    assert.equal(closed.markets.get(market.marketId), 'resolved')
    const left = [...closed.orders.values()].filter(({ status }) => status === 'market-closed')
    assert.equal(left.length, open.size)
  })
})

test('a trade row names buyer and seller, whichever of them was the taker', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(2).by('bob').named('s'))
  market.place(buy('YES').at(0.5).size(1).by('ann').named('b'))
  market.place(buy('NO').at(0.6).size(2).by('ann').named('b2'))
  market.place(sell('NO').at(0.5).size(1).by('bob').named('s2'))
  const { trades } = derive('log', 0, 0, market.events)
  const [bought, sold] = trades
  assert(bought !== undefined && sold !== undefined)
  for (const trade of trades) {
    assert.notEqual(trade.buyer, trade.seller)
    assert.equal(trade.tradeId, tradeId(market.marketId, trade.seq, 0))
  }
  assert.deepEqual(
    [bought.takerSide, bought.price, sold.takerSide, sold.price],
    [BUY, 400_000, SELL, 600_000],
  )
  assert.equal(bought.buyer, sold.buyer)
  assert.equal(bought.seller, sold.seller)
})

test('the projector splits a batch with too many rows for one transaction, and never makes an empty batch', () => {
  const market = given()
  const makers = PROJECTION_ROWS_MAX / 4
  for (let n = 0; n < 3 * makers; n++) market.place(sell('YES').at(0.4).size(1).named(`m${n}`))
  for (const taker of ['t1', 't2', 't3']) {
    market.place(buy('YES').at(0.4).size(makers).named(taker))
  }
  const matches = market.events.filter((event) => event.type === 'OrdersMatched')
  assert.equal(matches.length, 3)
  assert.equal(withinRows(matches).length, 1, 'each touches more than half of what may be touched')
  assert.equal(withinRows(matches.slice(0, 1)).length, 1)
  const small = market.events.slice(0, PROJECTION_ROWS_MAX)
  assert(withinRows(small).length < small.length)
  assert.equal(withinRows(small.slice(0, 100)).length, 100)
})

test('the row of a failed trade names the side at fault, but not a side that the market excused', () => {
  const { marketId } = given()
  const head = { type: 'TradeFailed', marketId, seq: 2, atMs: 1, txHash: '', reason: '' } as const
  const tradeIdHere = tradeId(marketId, 1, 0)
  const cases = [
    ['seller', undefined, 'seller'],
    ['seller', 'seller', 'none'],
    ['buyer', 'buyer', 'none'],
    ['both', undefined, 'both'],
    ['both', 'seller', 'buyer'],
    ['both', 'buyer', 'seller'],
    ['both', 'both', 'none'],
  ] as const
  for (const [fault, excused, counts] of cases) {
    const event = { ...head, tradeId: tradeIdHere, fault, ...(excused && { excused }) }
    const { tradeChanges } = derive('log', 0, 0, [event as MarketEvent])
    assert.equal(tradeChanges[0]?.fault, counts, `${fault}, ${excused} excused`)
  }
})
