/**
 * `npm run bench -- close-market`: closes a market of 200,000 resting orders (`--orders`; `--quick`: 50,000). The first
 * part uses a real exchange on SQLite, which checks the health of its threads every 100 ms. It prints how often a
 * thread died, and how long it took until every order had ended in the database. The second part uses the projection
 * alone, which writes events to the database (`--projection` runs only this part). The figure is the longest time for
 * which the projection blocked the event loop of its thread; the limit is 50 ms. Delays while the host of a virtual
 * machine withheld a processor do not count. Their number is printed.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { MarketId } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import { databaseCopier } from '#services/projector/thread/database-copier.ts'
import { closeDatabase, type Database, read } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { claimLog } from '#store/projection/checkpoints.ts'
import { project } from '#store/projection/project.ts'
import type { ProjectionBatch } from '#store/projection/rows.ts'
import { openExchange } from '../test/support/exchange.ts'
import { TEST_PARTITIONS } from '../test/support/partitions.ts'
import { processorTimes, quick, report } from './bench.ts'
import { openFilledLog } from './filled-log.ts'
import { FlowRecorder } from './market-flow.ts'

const LIMIT_MS = 50
const PART = 50_000
const TIME_MS_MAX = 600_000
const { values } = parseArgs({
  strict: false,
  options: { orders: { type: 'string', default: quick ? '50000' : '200000' } },
})
const ORDERS = Number(values.orders)

async function fill(dataDir: string): Promise<void> {
  const recorder = new FlowRecorder(1, 1)
  const [market] = recorder.markets
  if (market === undefined) throw new Error('one market')
  const log = openFilledLog(dataDir, TEST_PARTITIONS)
  await log.run([{ type: 'OpenMarket', message: { market } }])
  for (let left = ORDERS; left > 0; left -= PART) {
    await log.run(recorder.resting(Math.min(PART, left)))
  }
  await log.run([{ type: 'CloseMarket', message: { marketId: market.id, reason: 'withdrawn' } }])
  await log.close()
}

/** Returns the number of open orders in the database; -1 until the database contains all `ORDERS`. */
async function openIn(database: Database): Promise<number> {
  const [row] = await read(database, (em) =>
    em
      .getConnection()
      .execute<{ n: number; open: number }[]>(
        `select count(*) as n, coalesce(sum(status = 'open'), 0) as open from orders`,
      ),
  )
  return row?.n === ORDERS ? row.open : -1
}

async function inAnExchange(): Promise<void> {
  const exchange = await openExchange({
    environment: { SIBYL_HEALTH_INTERVAL_MS: '100', SIBYL_DEMO_MARKETS: 'false' },
    outputCharsMax: 1_000_000,
    prepare: fill,
  })
  const startMs = performance.now()
  let isAlive = true
  let open = -1
  const url = `sqlite:${join(exchange.dataDir, 'sibyl.db')}`
  const database = await openDatabase(url, { readOnly: true })
  try {
    while (open !== 0 && isAlive && performance.now() - startMs < TIME_MS_MAX) {
      isAlive = await fetch(`${exchange.url}/healthz`).then(
        () => true,
        () => false,
      )
      open = await openIn(database)
      await pause(500)
    }
  } finally {
    await closeDatabase(database)
    const deaths = exchange.output().match(/died \(/g)?.length ?? 0
    const end = !isAlive ? 'the exchange ended' : open === 0 ? 'all ended' : 'they never ended'
    const seconds = ((performance.now() - startMs) / 1_000).toFixed(1)
    process.stdout.write(
      `${ORDERS} orders in an exchange: ${end} after ${seconds} s, ${deaths} deaths of threads\n`,
    )
    await exchange.dispose()
  }
}

const LOG = { logId: 'bench', partitions: 1 }

function batchOf(from: number, rows: Partial<ProjectionBatch>): ProjectionBatch {
  const none = { markets: [], marketChanges: [], orders: [], orderChanges: [] }
  const head = { logId: LOG.logId, partition: 0, from, to: from + 1 }
  return { ...head, ...none, trades: [], tradeChanges: [], ...rows }
}

async function projectOrders(database: Database): Promise<Market> {
  const recorder = new FlowRecorder(1, 1)
  const [market] = recorder.markets
  if (market === undefined) throw new Error('one market')
  await project(database, batchOf(0, { markets: [{ market, seq: 1, atMs: 1 }] }))
  const rows = 1_000
  for (let from = 0; from < ORDERS; from += rows) {
    const orders = recorder.resting(rows).flatMap((command) => {
      if (command.type !== 'PlaceOrder') return []
      const { order } = command.message
      const seq = 2 + from
      const state = { status: 'open', remaining: order.size, matches: 0 } as const
      return [{ order, ...state, placedAtMs: seq, seq, atMs: seq }]
    })
    await project(database, batchOf(1 + from / rows, { orders }))
    // Lets the event loop run, because in an exchange the next orders arrive with a new message.
    await new Promise(setImmediate)
  }
  return market
}

/**
 * Ends the orders that the projection has left open, step by step. Returns the number of steps; 0 if this version of
 * the projection has no `end-orders.ts`.
 */
async function endAll(database: Database, marketId: MarketId): Promise<number> {
  const file = '#store/projection/end-orders.ts'
  const found = await import(file).catch(() => undefined)
  let steps = 0
  while (found !== undefined && (await found.endOrders(database, marketId))) {
    steps++
    // Lets the event loop turn, because in an exchange each step is started by a new message.
    await new Promise(setImmediate)
  }
  return steps
}

type Turn = { readonly lateMs: number; readonly stolenBefore: number }

/**
 * Measures how late the timers of this thread fire, until the returned function is called. That function prints the
 * delays that the host caused, and returns the longest of the other delays.
 */
function watchTurns(): () => number {
  const turns: Turn[] = []
  let atMs = performance.now()
  let stolenBefore = processorTimes().stolen
  const timer = setInterval(() => {
    const lateMs = performance.now() - atMs
    turns.push({ lateMs, stolenBefore })
    stolenBefore = processorTimes().stolen
    atMs = performance.now()
  }, 1)
  return () => {
    clearInterval(timer)
    // The kernel may report withheld processor time one turn late. So a turn does not count if such time was reported
    // during it or during the next turn.
    const isDisturbed = ({ stolenBefore: before }: Turn, at: number): boolean =>
      before !== (turns[at + 2] ?? turns.at(-1)!).stolenBefore
    const longest = (of: readonly Turn[]) => Math.max(0, ...of.map(({ lateMs }) => lateMs))
    const long = turns.filter(({ lateMs }) => lateMs > LIMIT_MS / 4)
    const disturbed = turns.filter((turn, at) => long.includes(turn) && isDisturbed(turn, at))
    process.stdout.write(
      `of ${long.length} turns longer than ${LIMIT_MS / 4} ms, ${disturbed.length} fell into moments without a processor, ` +
        `the longest with ${longest(disturbed).toFixed(1)} ms\n`,
    )
    return longest(turns.filter((turn) => !disturbed.includes(turn)))
  }
}

async function inTheProjection(): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-bench-'))
  const database = await openDatabase(`sqlite:${join(folder, 'bench.db')}`, {
    copier: databaseCopier,
  })
  try {
    await migrate(database)
    await claimLog(database, LOG)
    const { id: marketId } = await projectOrders(database)
    const endWatch = watchTurns()
    await pause(100)
    const startMs = performance.now()
    const change = { marketId, closed: 'withdrawn', seq: ORDERS + 2, atMs: 3 } as const
    await project(database, batchOf(1 + ORDERS / 1_000, { marketChanges: [change] }))
    const steps = await endAll(database, marketId)
    const seconds = ((performance.now() - startMs) / 1_000).toFixed(1)
    await pause(100)
    const longestMs = endWatch()
    const open = await openIn(database)
    process.stdout.write(
      `${ORDERS} orders in the projection: ended in ${steps + 1} steps and ${seconds} s, ${open} are open\n`,
    )
    return longestMs
  } finally {
    await closeDatabase(database)
    rmSync(folder, { recursive: true, force: true })
  }
}

if (!process.argv.includes('--projection')) await inAnExchange()
const longestMs = await inTheProjection()
report({
  bench: 'the longest step of the projection while a market closes',
  figure: Math.round(longestMs * 10) / 10,
  unit: 'ms',
  peer: 'a limit',
  peerFigure: LIMIT_MS,
  ratio: Math.round((LIMIT_MS / longestMs) * 1_000) / 1_000,
  bar: 1,
})
