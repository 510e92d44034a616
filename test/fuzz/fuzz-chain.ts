/**
 * `npm run fuzz -- chain [logs [seed]]`: feeds the indexer with hostile logs among honest ones, on SQLite and, if a
 * server is available, on MariaDB or MySQL.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { closeDatabase } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { onServer, TEST_MYSQL_URL } from '../support/databases.ts'
import { fuzzChain } from './chain-fuzz.ts'

const logs = Number(process.argv[2] ?? 10_000)
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31)
console.log(`chain fuzz: ${logs} logs, seed ${seed}`)

async function run(name: string, url: string): Promise<void> {
  const database = await openDatabase(url)
  try {
    await migrate(database)
    const startMs = performance.now()
    const report = await fuzzChain(database, { seed, logs })
    console.log(name, report, `${((performance.now() - startMs) / 1_000).toFixed(1)} s`)
  } finally {
    await closeDatabase(database)
  }
}

const folder = mkdtempSync(join(tmpdir(), 'sibyl-fuzz-'))
try {
  await run('SQLite', `sqlite:${join(folder, 'chain.db')}`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}

const name = `sibyl_fuzz_${process.pid}`
const isThere = await onServer(`create database ${name}`).then(
  () => true,
  () => false,
)
if (!isThere) console.log(`no server at ${new URL(TEST_MYSQL_URL).host}: SQLite only`)
else {
  try {
    const url = new URL(TEST_MYSQL_URL)
    url.pathname = name
    await run('MariaDB', url.href)
  } finally {
    await onServer(`drop database ${name}`)
  }
}
