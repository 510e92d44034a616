/**
 * Measures how many rows per second the projection writes, on SQLite and on MariaDB. The peer is the ORM's own
 * `insertMany`, which writes 500 rows at a time into the same tables in the same run. A batch of the projection does
 * more than insert rows: it also moves the checkpoint and changes orders of the previous batch. A changed order counts
 * as a row.
 *
 * `SIBYL_TEST_MYSQL_URL` names the MariaDB server; the default is port 3306 of this machine. If no server answers, only
 * SQLite is measured.
 *
 * On MariaDB, the run also writes four partitions over 1, 2 and 4 connections at the same time. All partitions have the
 * same traders. Large batches are measured first: a projection writes them while it catches up with the log. Then small
 * batches are measured: a projection writes them while it follows the log.
 */

import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
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
import { closeDatabase, type Database, sqlConnection } from '#store/engine/database.ts'
import { OrderEntity } from '#store/entities/order.ts'
import { TradeEntity } from '#store/entities/trade.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { checkpoints, claimLog } from '#store/projection/checkpoints.ts'
import { project } from '#store/projection/project.ts'
import type { OrderChange, OrderRow, ProjectionBatch } from '#store/projection/rows.ts'
import { type BenchResult, median, quick, report, runBench } from './bench.ts'
import { cpuSeconds } from './proc-file.ts'

const LOG_ID = 'bench'
const BATCHES = quick ? 3 : 20
/** Composition of a batch: half of its rows are new orders, 30 % are trades, and 20 % are changed orders. */
const ORDERS = 0.5
const TRADES = 0.3
const CHANGES = 0.2
const PARTITIONS = 4
const WRITERS = [1, 2, 4]
const SMALL_BATCH = 100
const INSERT_MANY = 500
const START_MS = 1_700_000_000_000

const hex = (bytes: number) => `0x${randomBytes(bytes).toString('hex')}`
const markets = Array.from({ length: 50 * PARTITIONS }, () => hex(32) as MarketId)
const marketsOf = (partition: number) => markets.slice(50 * partition, 50 * (partition + 1))
const traders = Array.from({ length: 1_000 }, () => hex(20) as Address)
const pick = <Item>(items: readonly Item[], index: number) => items[index % items.length]!

/** Makes the rows of one round before the clock starts. */
function flow(
  from: number,
  { partition = 0, count = BATCHES, rows = PROJECTION_ROWS_MAX } = {},
): ProjectionBatch[] {
  const batches: ProjectionBatch[] = []
  const markets = marketsOf(partition)
  let seq = from * PROJECTION_ROWS_MAX
  let earlier: readonly OrderRow[] = []
  for (let index = 0; index < count; index++) {
    const orders = Array.from({ length: rows * ORDERS }, (_, n): OrderRow => {
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
    const trades = Array.from({ length: rows * TRADES }, (_, n): Trade => {
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
    const orderChanges = earlier.slice(0, rows * CHANGES).map(
      ({ order: { orderHash } }, n): OrderChange => ({
        orderHash,
        status: n % 2 === 0 ? 'filled' : 'open',
        remaining: n % 2,
        seq: ++seq,
        atMs: START_MS + seq,
      }),
    )
    batches.push({
      ...empty(from + index, partition),
      orders,
      orderChanges,
      trades,
    })
    earlier = orders
  }
  return batches
}

async function measure(name: string, url: string, bar: number): Promise<BenchResult> {
  const database = await openDatabase(url)
  await migrate(database)
  await claimLog(database, { logId: LOG_ID, partitions: PARTITIONS })
  for (let partition = 0; partition < PARTITIONS; partition++) {
    await project(database, openMarkets(partition))
  }
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
      // `insertMany` cannot change rows. So the peer writes new orders and trades, but no changed orders.
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

/**
 * Prints the rate for each number of writers. Also prints the CPU time per row in this thread, and in the server if it
 * runs on this machine.
 */
async function measureWriters(url: string): Promise<void> {
  const server = await openDatabase(url)
  const pid = await serverPid(server)
  const offsets = (await checkpoints(server)).map(({ offset }) => offset)
  await closeDatabase(server)
  for (const rows of [PROJECTION_ROWS_MAX, SMALL_BATCH]) {
    const count = Math.ceil((BATCHES * PROJECTION_ROWS_MAX) / rows / PARTITIONS)
    const measured = new Map(WRITERS.map((writers) => [writers, [] as Cost[]]))
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      for (const [writers, costs] of measured) {
        const flows = offsets.map((from, partition) => flow(from, { partition, count, rows }))
        for (const partition of offsets.keys()) offsets[partition]! += count
        costs.push(await inParallel(url, { flows, writers, pid }))
      }
    }
    for (const [writers, costs] of measured) {
      const middle = (read: (cost: Cost) => number) => median(costs.map(read))
      process.stdout.write(
        `${PARTITIONS} partitions, batches of ${rows} rows, ${writers} at a time: ` +
          `${Math.round(middle(({ rate }) => rate))} rows/s, CPU per row ` +
          `${middle(({ ownUs }) => ownUs).toFixed(1)} µs in this thread, ` +
          `${middle(({ serverUs }) => serverUs).toFixed(1)} µs in the server\n`,
      )
    }
  }
}

type Cost = { readonly rate: number; readonly ownUs: number; readonly serverUs: number }

async function inParallel(
  url: string,
  {
    flows,
    writers,
    pid,
  }: {
    readonly flows: readonly (readonly ProjectionBatch[])[]
    readonly writers: number
    readonly pid: number
  },
): Promise<Cost> {
  const database = await openDatabase(url, { connectionsMax: writers })
  const ownBefore = process.threadCpuUsage()
  const serverBefore = cpuSeconds(pid)
  const startMs = performance.now()
  const written = await Promise.all(
    flows.map((batches) => writeAll(batches, (batch) => project(database, batch))),
  )
  const ms = performance.now() - startMs
  const own = process.threadCpuUsage(ownBefore)
  const serverUs = (cpuSeconds(pid) - serverBefore) * 1e6
  await closeDatabase(database)
  const rows = written.reduce((sum, each) => sum + each, 0)
  return {
    rate: (rows / ms) * 1_000,
    ownUs: (own.user + own.system) / rows,
    serverUs: serverUs / rows,
  }
}

/** Returns the process id of the server; NaN if it runs on another machine. */
async function serverPid(database: Database): Promise<number> {
  const [row] = await sqlConnection(database).execute<{ file: string }[]>(
    'select @@pid_file as file',
  )
  try {
    return Number(readFileSync(row?.file ?? '', 'utf8'))
  } catch {
    return Number.NaN
  }
}

async function rate(
  batches: readonly ProjectionBatch[],
  write: (batch: ProjectionBatch, index: number) => Promise<unknown>,
): Promise<number> {
  const startMs = performance.now()
  const rows = await writeAll(batches, write)
  return (rows / (performance.now() - startMs)) * 1_000
}

async function writeAll(
  batches: readonly ProjectionBatch[],
  write: (batch: ProjectionBatch, index: number) => Promise<unknown>,
): Promise<number> {
  let rows = 0
  for (const [index, batch] of batches.entries()) {
    await write(batch, index)
    rows += batch.orders.length + batch.trades.length + batch.orderChanges.length
  }
  return rows
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

function empty(from: number, partition = 0): ProjectionBatch {
  return {
    logId: LOG_ID,
    partition,
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

function openMarkets(partition: number): ProjectionBatch {
  return {
    ...empty(0, partition),
    markets: marketsOf(partition).map((id) => ({
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
      const result = await measure('on MariaDB', url.href, 1.2)
      await measureWriters(url.href)
      return result
    } finally {
      await connection.execute(`drop database ${name}`)
    }
  } finally {
    await server.close(true)
  }
}

const results = [await measureSqlite(), await measureServer()].filter((each) => each !== undefined)
// Print the result with the smallest margin last: the one with the lowest ratio relative to its required ratio (`bar`).
for (const result of results.toSorted((a, b) => b.ratio / b.bar - a.ratio / a.bar)) report(result)
