/**
 * `npm run bench -- audit`: the time of an audit of 1,000,000 trades by 100,000 users in 1,000 markets. It first
 * computes the position sums from the trades, then audits everything, and measures both steps on SQLite. With `--mysql`
 * it measures the server of `SIBYL_TEST_MYSQL_URL`, too. Exits with 1 if the audit finds a difference.
 */

import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { auditPositions } from '#store/audit/audit-positions.ts'
import { auditTrades } from '#store/audit/audit-trades.ts'
import { closeDatabase, sqlConnection } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { seedTrades } from '../test/store/reads/large-seed.ts'
import { onServer, TEST_MYSQL_URL } from '../test/support/databases.ts'
import { fillSums } from '../test/support/fill-sums.ts'
import { quick } from './bench.ts'

const SIZE = quick
  ? { trades: 100_000, markets: 100, users: 10_000 }
  : { trades: 1_000_000, markets: 1_000, users: 100_000 }

await onSqlite()
if (process.argv.includes('--mysql')) await onMysql()

async function onSqlite(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-large-'))
  try {
    await run('sqlite', `sqlite:${join(folder, 'sibyl.db')}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function onMysql(): Promise<void> {
  const name = `sibyl_large_${randomBytes(4).toString('hex')}`
  await onServer(`create database ${name}`)
  try {
    const url = new URL(TEST_MYSQL_URL)
    url.pathname = name
    await run('mysql', url.href)
  } finally {
    await onServer(`drop database ${name}`)
  }
}

async function run(dialect: string, url: string): Promise<void> {
  const database = await openDatabase(url)
  try {
    await migrate(database)
    const seedMs = await timed(() => seedTrades(database, SIZE))
    // Deletes the sums that were inserted with the trades, because the next step measures how long computing them
    // takes.
    for (const table of ['market_stats', 'candles', 'chain_spans', 'chain_stats', 'traders']) {
      await sqlConnection(database).execute(`delete from ${table}`)
    }
    const countMs = await timed(() => fillSums(database))
    let differences = 0
    let positions = 0
    let trades = 0
    const auditMs = await timed(async () => {
      const audited = [await auditTrades(database), await auditPositions(database)] as const
      trades = audited[0].trades
      positions = audited[1].positions
      for (const audit of audited) {
        differences += audit.differences.length
        for (const one of audit.differences.slice(0, 5))
          process.stdout.write(`${JSON.stringify(one)}\n`)
      }
    })
    const seconds = (ms: number) => Math.round(ms / 100) / 10
    process.stdout.write(
      `${JSON.stringify({
        bench: `audit-large-${dialect}`,
        ...SIZE,
        counted: trades,
        positions,
        seedSec: seconds(seedMs),
        countSec: seconds(countMs),
        auditSec: seconds(auditMs),
        differences,
      })}\n`,
    )
    if (differences > 0) process.exitCode = 1
  } finally {
    await closeDatabase(database)
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now()
  await work()
  return performance.now() - startMs
}
