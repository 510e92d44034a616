/**
 * Rows a second that the projection writes, on SQLite and on MariaDB, beside the ORM's own
 * `insertMany` of 500 at a time into the same tables in the same run. A batch of ours also moves its
 * checkpoint and changes orders of the batch before; a changed row counts as a row.
 *
 * `SIBYL_TEST_MYSQL_URL` names the server; without one only SQLite is measured.
 */

import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MikroORM } from '@mikro-orm/mysql'
import {
  type Address,
  type MarketId,
  type OrderHash,
  tradeId,
  type Uint64,
  ZERO_ADDRESS,
} from '#domain/ids.ts'
import { PROJECTION_ROWS_MAX } from '#domain/limits.ts'
import { costCeil, ONE, type Price, type Shares } from '#domain/money.ts'
import { BUY, type Outcome, type Side, type VerifiedOrder } from '#domain/order.ts'
import type { Trade } from '#domain/trade.ts'
import { closeDatabase, type Database } from '#store/engine/database.ts'
import { OrderEntity } from '#store/entities/order.ts'
import { TradeEntity } from '#store/entities/trade.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { claimLog } from '#store/projection/checkpoints.ts'
import { project } from '#store/projection/project.ts'
import type { OrderChange, OrderRow, ProjectionBatch } from '#store/projection/rows.ts'
import { type BenchResult, quick, report, runBench } from './bench.ts'

const LOG_ID = 'bench'
const BATCHES = quick ? 3 : 20
/** Of every ten rows of a batch five are new orders, three are trades, two are changed orders. */
const ORDERS = PROJECTION_ROWS_MAX * 0.5
const TRADES = PROJECTION_ROWS_MAX * 0.3
const CHANGES = PROJECTION_ROWS_MAX * 0.2
const INSERT_MANY = 500
const START_MS = 1_700_000_000_000

const hex = (bytes: number) => `0x${randomBytes(bytes).toString('hex')}`
const markets = Array.from({ length: 50 }, () => hex(32) as MarketId)
const traders = Array.from({ length: 1_000 }, () => hex(20) as Address)
const pick = <Item>(items: readonly Item[], index: number) => items[index % items.length]!

/** One round's rows, made before the clock starts. */
function flow(from: number): ProjectionBatch[] {
  const batches: ProjectionBatch[] = []
  let seq = from * PROJECTION_ROWS_MAX
  let earlier: readonly OrderRow[] = []
  for (let index = 0; index < BATCHES; index++) {
    const orders = Array.from({ length: ORDERS }, (_, n): OrderRow => {
      const order: VerifiedOrder = {
        orderHash: hex(32) as OrderHash,
        marketId: pick(markets, n),
        trader: pick(traders, n * 7),
        side: (n % 2) as Side,
        outcome: (n % 3 === 0 ? 1 : 0) as Outcome,
        price: (100_000 + (n % 800) * 1_000) as Price,
        size: (ONE * (1 + (n % 100))) as Shares,
        nonce: BigInt.asUintN(64, BigInt(hex(8))).toString() as Uint64,
        expiration: '1999999999' as Uint64,
        makerFeeRecipient: ZERO_ADDRESS,
        signature: hex(65),
      }
      const atMs = START_MS + ++seq
      const { size } = order
      return { order, status: 'open', remaining: size, matches: 0, placedAtMs: atMs, seq, atMs }
    })
    const trades = Array.from({ length: TRADES }, (_, n): Trade => {
      const { order } = pick(orders, n)
      return {
        tradeId: tradeId(order.marketId, ++seq, 0),
        marketId: order.marketId,
        seq,
        fillIndex: 0,
        outcome: order.outcome,
        price: order.price,
        size: ONE as Shares,
        buyer: pick(traders, n),
        seller: pick(traders, n + 1),
        buyOrderHash: order.orderHash,
        sellOrderHash: order.orderHash,
        takerSide: BUY,
        matchedAtMs: START_MS + seq,
      }
    })
    const orderChanges = earlier.slice(0, CHANGES).map(
      ({ order: { orderHash } }, n): OrderChange => ({
        orderHash,
        status: n % 2 === 0 ? 'filled' : 'open',
        remaining: n % 2,
        seq: ++seq,
        atMs: START_MS + seq,
      }),
    )
    batches.push({
      logId: LOG_ID,
      partition: 0,
      from: from + index,
      to: from + index + 1,
      markets: [],
      marketChanges: [],
      orders,
      orderChanges,
      trades,
      tradeChanges: [],
    })
    earlier = orders
  }
  return batches
}

async function measure(name: string, url: string, bar: number): Promise<BenchResult> {
  const database = await openDatabase(url)
  await migrate(database)
  await claimLog(database, { logId: LOG_ID, partitions: 1 })
  await project(database, openMarkets())
  let offset = 1
  const result = await runBench({
    bench: `store ${name}`,
    unit: 'rows/s',
    peer: `insertMany of ${INSERT_MANY}`,
    bar,
    ours: async () => {
      const batches = flow(offset)
      offset += BATCHES
      return rate(batches, (batch) => project(database, batch))
    },
    theirs: async () => {
      // Its rows are of the same kind; the changes, which it has no counterpart for, are left out.
      const batches = flow(offset).map((batch) => ({ ...batch, orderChanges: [] }))
      offset += BATCHES
      await project(database, { ...empty(offset - BATCHES), to: offset })
      const entities = batches.map((batch) => entitiesOf(batch))
      return rate(batches, (_, index) => insertMany(database, entities[index]!))
    },
  })
  await closeDatabase(database)
  return result
}

async function rate(
  batches: readonly ProjectionBatch[],
  write: (batch: ProjectionBatch, index: number) => Promise<unknown>,
): Promise<number> {
  let rows = 0
  const startMs = performance.now()
  for (const [index, batch] of batches.entries()) {
    await write(batch, index)
    rows += batch.orders.length + batch.trades.length + batch.orderChanges.length
  }
  return (rows / (performance.now() - startMs)) * 1_000
}

function entitiesOf(batch: ProjectionBatch) {
  return {
    orders: batch.orders.map(({ order, atMs, ...row }) => ({
      ...order,
      ...row,
      permit: null,
      chainId: 31337,
      expiresAtSec: Number(order.expiration),
      updatedAtMs: atMs,
      logPartition: 0,
    })),
    trades: batch.trades.map(({ tradeId: _, ...trade }) => ({
      ...trade,
      chainId: 31337,
      cost: costCeil(trade.price, trade.size),
      status: 'matched' as const,
      pending: 1 as const,
      txHash: null,
      reason: null,
      attempts: 0,
      failedAtMs: null,
      updatedAtMs: trade.matchedAtMs,
    })),
  }
}

async function insertMany(
  database: Database,
  { orders, trades }: ReturnType<typeof entitiesOf>,
): Promise<void> {
  await database.orm.em.fork().transactional(async (em) => {
    for (let start = 0; start < orders.length; start += INSERT_MANY) {
      await em.insertMany(OrderEntity, orders.slice(start, start + INSERT_MANY))
    }
    for (let start = 0; start < trades.length; start += INSERT_MANY) {
      await em.insertMany(TradeEntity, trades.slice(start, start + INSERT_MANY))
    }
  })
}

function empty(from: number): ProjectionBatch {
  return {
    logId: LOG_ID,
    partition: 0,
    from,
    to: from + 1,
    markets: [],
    marketChanges: [],
    orders: [],
    orderChanges: [],
    trades: [],
    tradeChanges: [],
  }
}

function openMarkets(): ProjectionBatch {
  return {
    ...empty(0),
    markets: markets.map((id) => ({
      market: {
        id,
        question: 'Will it rain?',
        description: '',
        category: 'general',
        contractAddress: hex(20) as Address,
        maker: hex(20) as Address,
        expiration: 2_000_000_000,
        chainId: 31337,
        createdAt: 1_700_000_000,
        quick: false,
      },
      seq: 1,
      atMs: START_MS,
    })),
  }
}

async function measureSqlite(): Promise<BenchResult> {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-bench-'))
  try {
    return await measure('on SQLite', `sqlite:${join(folder, 'bench.db')}`, 1.5)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function measureServer(): Promise<BenchResult | undefined> {
  const url = new URL(process.env.SIBYL_TEST_MYSQL_URL ?? 'mysql://root@127.0.0.1:3306')
  const name = `sibyl_bench_${randomBytes(4).toString('hex')}`
  const server = await MikroORM.init({
    host: url.hostname,
    port: url.port === '' ? 3306 : Number(url.port),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    dbName: 'information_schema',
    entities: [],
    discovery: { warnWhenNoEntities: false },
    ensureDatabase: false,
    logger: () => {},
  })
  try {
    await server.connect()
    if (!(await server.isConnected())) {
      process.stderr.write(`no server at ${url.host}: only SQLite is measured\n`)
      return undefined
    }
    const connection = server.em.getConnection()
    await connection.execute(`create database ${name}`)
    try {
      url.pathname = name
      return await measure('on MariaDB', url.href, 1.2)
    } finally {
      await connection.execute(`drop database ${name}`)
    }
  } finally {
    await server.close(true)
  }
}

const results = [await measureSqlite(), await measureServer()].filter((each) => each !== undefined)
// The last line is the result that is nearest to its bar; any other is shown before it.
for (const result of results.toSorted((a, b) => b.ratio / b.bar - a.ratio / a.bar)) report(result)
