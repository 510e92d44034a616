/**
 * `npm run bench -- mysql-log`: compares the event log in a separate database server on this machine with the one in
 * SQLite files, in the same run: durable appends of 1 and 100 events, and accepted signed orders per second over HTTP.
 * `--nodes 3` uses a Galera cluster of three servers instead of one MariaDB.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { missingServers, openDatabaseServers } from '#devnet/cluster/database-servers.ts'
import type { MarketId } from '#domain/ids.ts'
import type { EventLog } from '#log/event-log.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { openMysqlLog } from '#log/server/mysql-log.ts'
import { type Noted, notes } from '../test/log/flow.ts'
import { openExchange } from '../test/support/exchange.ts'
import { randomFrom } from '../test/support/random.ts'
import { progress, quick, report, runBench } from './bench.ts'
import { Histogram } from './histogram.ts'
import { type Request, writeRequest } from './http-driver.ts'
import { openPlacing } from './placing.ts'
import { makeTrader, signOrders } from './signed-orders.ts'
import { openTarget } from './target.ts'

const at = process.argv.indexOf('--nodes')
const NODES = at > 0 ? Number(process.argv[at + 1]) : 1
const PER_ROUND = quick ? 5_000 : 15_000
const ROUNDS = quick ? 3 : 5
const WARMUPS = 1
const APPEND_MS = quick ? 1_000 : 3_000

const missing = missingServers(NODES)
if (missing !== undefined) {
  process.stderr.write(`it cannot run here: ${missing}\n`)
  process.exit(2)
}

progress('starting the servers')
const servers = await openDatabaseServers(NODES)
const folder = mkdtempSync(join(tmpdir(), 'sibyl-mysql-log-bench-'))
try {
  await appends()
  await orders()
} finally {
  await servers.dispose()
  rmSync(folder, { recursive: true, force: true })
}

async function appends(): Promise<void> {
  const place = { partitions: 1, own: [0] } as const
  const sqlite = openSqliteLog<Noted>({ ...place, dataDir: join(folder, 'sqlite') })
  const url = servers.url()
  const mysql = await openMysqlLog<Noted>({ ...place, url, dataDir: join(folder, 'mysql') })
  const note = notes(randomFrom(1).hex(32) as MarketId, 'x'.repeat(200))
  for (const size of [1, 100]) {
    for (const [name, log] of Object.entries({ sqlite, mysql })) {
      await timed(log, size, note)
      const each = await timed(log, size, note)
      const rate = (each.count * size * 1_000) / APPEND_MS
      const [p50, p99] = [0.5, 0.99].map((q) => each.quantileMs(q).toFixed(2))
      print(
        `${name}, batches of ${size}: ${rate.toFixed(0)} events/s, p50 ${p50} ms, p99 ${p99} ms`,
      )
    }
  }
  await sqlite.close()
  await mysql.close()
}

async function timed(
  log: EventLog<Noted>,
  size: number,
  note: (seq: number) => Noted,
): Promise<Histogram> {
  const each = new Histogram()
  const endMs = performance.now() + APPEND_MS
  while (performance.now() < endMs) {
    const from = log.lastOffset(0)
    const events = Array.from({ length: size }, (_, index) => note(from + 1 + index))
    const begunMs = performance.now()
    await log.append(0, { events, nowMs: 1 })
    each.recordMs(performance.now() - begunMs)
  }
  return each
}

async function orders(): Promise<void> {
  const environment = { SIBYL_LOG_LEVEL: 'error', SIBYL_LIMITS: 'false', SIBYL_LOG_PARTITIONS: '1' }
  const inFiles = await openExchange({ environment })
  const inDatabase = await openExchange({
    environment: { ...environment, SIBYL_LOG_URL: servers.url(0, 'sibyl_other') },
  })
  try {
    const { domain, markets } = await openTarget(inFiles.url, 10, 3_600)
    const traders = Array.from({ length: 50 }, (_, index) =>
      makeTrader(Buffer.from((index + 1).toString(16).padStart(64, '0'), 'hex')),
    )
    progress('signing orders')
    const rounds = Array.from({ length: ROUNDS + WARMUPS }, () =>
      signOrders({ count: PER_ROUND, traders, markets, domain }).map((signed) =>
        writeRequest('POST', '/api/v1/orders', JSON.stringify(signed)),
      ),
    )
    const [ours, theirs] = [await openPlacing(inDatabase.url), await openPlacing(inFiles.url)]
    const result = await runBench({
      bench: 'mysql-log',
      unit: `accepted orders/s over HTTP, the log in ${NODES === 1 ? 'MariaDB' : `a Galera of ${NODES}`}`,
      peer: 'the same, the log in SQLite files',
      bar: NODES === 1 ? 0.5 : 0.1,
      rounds: ROUNDS,
      warmups: WARMUPS,
      ours: ({ index }) => ours.place(rounds[index + WARMUPS] as Request[]),
      theirs: ({ index }) => theirs.place(rounds[index + WARMUPS] as Request[]),
    })
    ours.close()
    theirs.close()
    report(result)
  } finally {
    await inDatabase.dispose()
    await inFiles.dispose()
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
