/**
 * Compares the log, the markets and the database. The state computed from the log's events must equal the open orders
 * of the markets and the rows of the database.
 */

import assert from 'node:assert/strict'
import type { MarketEvent } from '#domain/market-event.ts'
import { openLogReader } from '#log/log-reader.ts'
import { PACKED } from '#log/packed-event.ts'
import type { OpenOrder } from '#protocol/market.ts'
import { closeDatabase, type Database, read } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { eventually } from '../../support/eventually.ts'

type OrderLine = { status: string; remaining: number }

export type Expected = {
  readonly orders: Map<string, OrderLine>
  /** By `market/seq/fill`. */
  readonly trades: Map<string, string>
  readonly offsets: number[]
}

export function eventsOf(dataDir: string): { events: MarketEvent[]; offsets: number[] } {
  const log = openLogReader(dataDir, { form: PACKED })
  const events: MarketEvent[] = []
  const offsets: number[] = []
  for (let partition = 0; partition < log.partitions; partition++) {
    const last = log.lastOffset(partition)
    offsets.push(last)
    for (let offset = 1; offset <= last; ) {
      const records = log.read(partition, offset, 1_000)
      for (const { event } of records) events.push(event)
      offset += records.length
    }
  }
  void log.close()
  return { events, offsets }
}

/**
 * Computes the expected orders and trades from the log's events one by one. Throws if an order is placed
 * twice.
 */
export function expectedFrom(dataDir: string): Expected {
  const { events, offsets } = eventsOf(dataDir)
  const orders = new Map<string, OrderLine>()
  const trades = new Map<string, string>()
  const marketOf = new Map<string, string>()
  const enter = (order: { orderHash: string; marketId: string }, remaining: number) => {
    assert(!orders.has(order.orderHash), `${order.orderHash} was taken twice`)
    orders.set(order.orderHash, { status: 'open', remaining })
    marketOf.set(order.orderHash, order.marketId)
  }
  for (const event of events) {
    if (event.type === 'OrderRested') {
      if (event.order !== undefined) enter(event.order, event.remaining)
      else orders.set(event.orderHash, { status: 'open', remaining: event.remaining })
    } else if (event.type === 'OrdersMatched') {
      const { taker, takerRemaining: remaining, fills, known } = event
      if (!known) enter(taker, remaining)
      orders.set(taker.orderHash, { status: remaining === 0 ? 'filled' : 'open', remaining })
      for (const [index, { makerHash, makerRemaining }] of fills.entries()) {
        const status = makerRemaining === 0 ? 'filled' : 'open'
        orders.set(makerHash, { status, remaining: makerRemaining })
        trades.set(`${event.marketId}/${event.seq}/${index}`, 'matched')
      }
    } else if (event.type === 'OrderClosed') {
      orders.set(event.orderHash, { status: event.reason, remaining: event.remaining })
    } else if (event.type === 'MarketClosed') {
      for (const [hash, line] of orders) {
        if (line.status !== 'open' || marketOf.get(hash) !== event.marketId) continue
        orders.set(hash, { ...line, status: 'market-closed' })
      }
    } else if (event.type !== 'MarketOpened') {
      const status = event.type.slice('Trade'.length).toLowerCase()
      trades.set(event.tradeId.replaceAll('-', '/'), status)
    }
  }
  return { orders, trades, offsets }
}

/** Asserts that the open orders of the markets equal those of the log. */
export function assertOpen(expected: Expected, open: readonly OpenOrder[]): void {
  const held = new Map(open.map(({ orderHash, remaining }) => [orderHash as string, remaining]))
  assert.equal(held.size, open.length, 'an order is open twice')
  for (const [hash, { status, remaining }] of expected.orders) {
    assert.equal(held.get(hash), status === 'open' ? remaining : undefined, hash)
  }
}

/** Returns the projected offset of each partition. */
export async function projectedTo(databaseUrl: string): Promise<number[]> {
  return withDatabase(databaseUrl, checkpointsOf)
}

/**
 * Waits until the database has all events of the log. The connection stays open meanwhile, because opening takes longer
 * than a query.
 */
export async function untilProjected(expected: Expected, databaseUrl: string): Promise<void> {
  await withDatabase(databaseUrl, (database) =>
    eventually(async () => assert.deepEqual(await checkpointsOf(database), expected.offsets)),
  )
}

async function checkpointsOf(database: Database): Promise<number[]> {
  const rows = await read(database, (em) =>
    em
      .getConnection()
      .execute<{ log_offset: number | string }[]>(
        'select log_offset from checkpoints order by log_partition',
      ),
  )
  return rows.map((row) => Number(row.log_offset))
}

async function withDatabase<T>(url: string, work: (database: Database) => Promise<T>): Promise<T> {
  const database = await openDatabase(url, { readOnly: true })
  try {
    return await work(database)
  } finally {
    await closeDatabase(database)
  }
}

/** Asserts that the rows of the database equal the log. */
export async function assertProjected(expected: Expected, databaseUrl: string): Promise<void> {
  const database = await openDatabase(databaseUrl, { readOnly: true })
  try {
    const ask = <Row extends object>(sql: string) =>
      read(database, (em) => em.getConnection().execute<Row[]>(sql))
    const orders = await ask<{ hash: string; status: string; remaining: number | string }>(
      // When a market closes, the database ends its orders in steps. So an order that is still open in a closed market
      // counts as ended.
      `select lower(hex(order_hash)) as hash, remaining_e6 as remaining,
        case when status = 'open' and close_reason is not null then 'market-closed' else status end
          as status
        from orders join markets using (market_id)`,
    )
    assert.equal(orders.length, expected.orders.size, 'the orders of the database')
    for (const { hash, status, remaining } of orders) {
      assert.deepEqual({ status, remaining: Number(remaining) }, expected.orders.get(`0x${hash}`))
    }
    const trades = await ask<{ market: string; seq: number; fill: number; status: string }>(
      'select lower(hex(market_id)) as market, seq, fill_index as fill, status from trades',
    )
    assert.equal(trades.length, expected.trades.size, 'the trades of the database')
    for (const { market, seq, fill, status } of trades) {
      assert.equal(status, expected.trades.get(`0x${market}/${Number(seq)}/${Number(fill)}`))
    }
  } finally {
    await closeDatabase(database)
  }
}
