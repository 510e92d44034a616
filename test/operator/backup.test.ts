import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Fault } from '#domain/fault.ts'
import { PACKED } from '#log/packed-event.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { openMysqlLog } from '#log/server/mysql-log.ts'
import { backup, type Places } from '#operator/backup.ts'
import { lastBackupMs } from '#operator/last-backup.ts'
import { rebuild } from '#operator/rebuild.ts'
import { restore } from '#operator/restore.ts'
import { tablesOnServer } from '#store/copies/server-copy.ts'
import { type Database, read, sqlConnection } from '#store/engine/database.ts'
import { saveTransaction } from '#store/writes/transactions.ts'
import type { Command } from '../services/market/thread-fixture.ts'
import { onBothDatabases } from '../support/databases.ts'
import {
  archiveIn,
  cut,
  type Host,
  newTrading,
  projectAll,
  readWhole,
  startTrading,
  tablesOf,
  withDatabase,
} from './trading.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const execute = promisify(execFile)
const quiet = () => undefined

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-upkeep-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const placesOf = (dataDir: string, databaseUrl: string): Places => ({
  dataDir,
  databaseUrl,
  archiveDir: archiveIn(dataDir),
  logUrl: '',
})

/** Runs a command of package.json as an operator does, while trading continues in this process. */
function command(name: string, places: Places, ...args: string[]) {
  const { dataDir, databaseUrl } = places
  return execute(
    process.execPath,
    [...process.execArgv, `src/operator/${name}-command.ts`, ...args],
    {
      cwd: ROOT,
      env: { PATH: process.env.PATH, SIBYL_DATA_DIR: dataDir, SIBYL_DATABASE_URL: databaseUrl },
    },
  )
}

function says(code: string, pattern: RegExp) {
  return (error: unknown) => {
    assert(error instanceof Fault, `${error}`)
    assert.equal(error.code, code)
    assert.match(error.message, pattern)
    return true
  }
}

/** Returns a host whose markets have replayed the whole log up to these offsets. */
async function replayed(dataDir: string, lasts: readonly number[]): Promise<Host> {
  const folder = newFolder()
  const whole = readWhole(dataDir)
  const own = lasts.map((_, partition) => partition)
  const log = openSqliteLog({ form: PACKED, dataDir: folder, partitions: own.length, own })
  for (const [partition, last] of lasts.entries()) {
    for (let at = 0; at < last; ) {
      const events = whole.read(partition, at + 1, Math.min(500, last - at)).map((r) => r.event)
      await log.append(partition, { events, nowMs: events.at(-1)!.atMs })
      at += events.length
    }
  }
  await log.close()
  await whole.close()
  return startTrading(folder)
}

/** Checks that a machine with the database server, but without the restored folder, has the whole log. */
async function inServer({ logUrl, dataDir }: Places, lasts: readonly number[]): Promise<void> {
  const own = lasts.map((_, partition) => partition)
  const here = { form: PACKED, partitions: own.length, own, checkpointThread: false }
  const log = await openMysqlLog({ ...here, url: logUrl, dataDir: newFolder() })
  const filled = openSqliteLog({ ...here, dataDir })
  for (const [partition, last] of lasts.entries()) {
    assert.equal(log.lastOffset(partition), last)
    const { firstOffset } = filled.state(partition)
    const read = (from: typeof log) => from.read(partition, firstOffset, last)
    assert.deepEqual(read(log), read(filled))
    assert.deepEqual(log.snapshots(partition), filled.snapshots(partition))
  }
  await filled.close()
  await log.close()
}

/** Every row of every table. */
async function everything(database: Database): Promise<Record<string, string[]>> {
  const list =
    database.address.dialect === 'sqlite'
      ? `select name from sqlite_master where type = 'table' and name not like 'sqlite_%'`
      : `select table_name as name from information_schema.tables where table_schema = database()`
  const all = <Row>(sql: string) => read(database, (em) => em.getConnection().execute<Row[]>(sql))
  const tables: Record<string, string[]> = {}
  for (const { name } of await all<{ name: string }>(list)) {
    tables[name] = (await all<object>(`select * from ${name}`))
      .map((row) => JSON.stringify(row))
      .sort()
  }
  return tables
}

await onBothDatabases('a backup restores an exchange', ({ fresh, dialect }) => {
  it('a backup that is made during trading captures a single instant, and an exchange can start from it', async () => {
    const dataDir = newFolder()
    const host = startTrading(dataDir, { closedTailMax: 100 })
    const trading = newTrading(41)
    const places = placesOf(dataDir, await fresh())
    const project = () => withDatabase(places.databaseUrl, (database) => projectAll(host, database))
    await trading.trade(host, 60)
    await project()
    await cut(host, 100)

    const folder = join(newFolder(), 'made')
    let isOver = false
    const made = command('backup', places, '--to', folder).finally(() => {
      isOver = true
    })
    made.catch(() => undefined)
    while (!isOver) {
      await trading.trade(host, 5)
      await project()
      host.tidy()
      await host.keepHouse()
    }
    assert.match((await made).stdout, /is complete: \d+ files/)

    // In the run with a database server, the log is restored into the data folder and also into a new database of the
    // server.
    const there = {
      ...placesOf(join(newFolder(), 'data'), await fresh()),
      logUrl: dialect === 'mysql' ? await fresh() : '',
    }
    const { partitions } = await restore(folder, there, quiet)
    const lasts = partitions.map(({ lastOffset }) => lastOffset)
    if (there.logUrl !== '') await inServer(there, lasts)
    const restored = startTrading(there.dataDir)
    for (const [partition, last] of lasts.entries()) {
      assert.equal(restored.log.lastOffset(partition), last)
    }
    const reference = await replayed(dataDir, lasts)
    assert.deepEqual(restored.hashes(), reference.hashes())
    await reference.stop()

    const log = readWhole(dataDir)
    const until = { ...log, lastOffset: (partition: number) => lasts[partition]! }
    const other = await fresh()
    await withDatabase(other, (database) => rebuild({ log: until, database, say: quiet }))
    const expected = await withDatabase(other, tablesOf)
    assert.deepEqual(await withDatabase(there.databaseUrl, tablesOf), expected)
    await log.close()
    await host.stop()

    await trading.trade(restored, 10)
    await withDatabase(there.databaseUrl, (database) => projectAll(restored, database))
    await restored.stop()
  })

  // Where there is a server.
  const onServer = dialect === 'mysql' ? it : () => undefined
  onServer('a backup can be restored into one database server that also has the log', async () => {
    const dataDir = newFolder()
    const host = startTrading(dataDir, { closedTailMax: 100 })
    const places = placesOf(dataDir, await fresh())
    await newTrading(43).trade(host, 20)
    await withDatabase(places.databaseUrl, (database) => projectAll(host, database))
    await host.stop()
    const folder = newFolder()
    await backup(places, folder, quiet)
    const url = await fresh()
    const there = { ...placesOf(join(newFolder(), 'data'), url), logUrl: url }
    await restore(folder, there, quiet)
    // And out of it again.
    const again = newFolder()
    await backup(there, again, quiet)
    assert(!readdirSync(join(again, 'database')).some((name) => name.startsWith('log')))
    const next = await fresh()
    await restore(again, { ...placesOf(join(newFolder(), 'data'), next), logUrl: next }, quiet)
  })

  it('the restore refuses a backup of a newer version, and writes nothing', async () => {
    const dataDir = newFolder()
    const host = startTrading(dataDir)
    const places = placesOf(dataDir, await fresh())
    await newTrading(45).trade(host, 5)
    await withDatabase(places.databaseUrl, async (database) => {
      await projectAll(host, database)
      await sqlConnection(database).execute("INSERT INTO migrations (name) VALUES ('999-future')")
    })
    await host.stop()
    const folder = newFolder()
    await backup(places, folder, quiet)
    const there = placesOf(join(newFolder(), 'data'), await fresh())
    await assert.rejects(
      restore(folder, there, quiet),
      says('RESTORE_REFUSED', /this version: .*newer version.*999-future.*nothing was changed$/),
    )
    assert(!existsSync(there.dataDir))
    if (dialect === 'sqlite') assert(!existsSync(there.databaseUrl.slice('sqlite:'.length)))
    else assert.deepEqual(await tablesOnServer(there.databaseUrl), [])
  })

  it('a restored exchange has the same data, and answers repeated orders as before', async () => {
    const dataDir = newFolder()
    const host = startTrading(dataDir, { closedTailMax: 100 })
    const trading = newTrading(43)
    const places = placesOf(dataDir, await fresh())
    await trading.trade(host, 80)
    writeFileSync(join(dataDir, 'chain.json'), '{"31337":{}}\n')
    await withDatabase(places.databaseUrl, async (database) => {
      await projectAll(host, database)
      await saveTransaction(database, { row: aTransaction() })
    })
    await cut(host, 100)
    const folder = newFolder()
    const { madeAt } = await backup(places, folder, quiet)
    assert.equal(lastBackupMs(dataDir), Date.parse(madeAt))
    await assert.rejects(backup(places, folder, quiet), says('BACKUP_REFUSED', /is not empty: /))

    const there = placesOf(join(newFolder(), 'data'), await fresh())
    await restore(folder, there, quiet)
    assert.equal(readFileSync(join(there.dataDir, 'chain.json'), 'utf8'), '{"31337":{}}\n')
    assert.deepEqual(
      await withDatabase(there.databaseUrl, everything),
      await withDatabase(places.databaseUrl, everything),
    )
    const restored = startTrading(there.dataDir)
    assert.deepEqual(restored.hashes(), host.hashes())
    const again = [...trading.placed.values()].map(
      ({ order }): Command => ({ type: 'PlaceOrder', message: { order } }),
    )
    assert(again.length > 200)
    assert.deepEqual(await restored.run(...again), await host.run(...again))
    await restored.stop()
    await host.stop()

    await assert.rejects(
      restore(folder, there, quiet),
      says('RESTORE_REFUSED', /data is not empty: .*log.*; nothing was changed$/),
    )
    const beside = { ...there, dataDir: join(newFolder(), 'b'), archiveDir: newFolder() }
    await assert.rejects(
      restore(folder, beside, quiet),
      says('RESTORE_REFUSED', /^the database is not empty: /),
    )
    assert(!existsSync(beside.dataDir))
    const wrong = dialect === 'sqlite' ? 'mysql://root@127.0.0.1:1/none' : 'sqlite:/tmp/none.db'
    await assert.rejects(
      restore(folder, { ...beside, databaseUrl: wrong }, quiet),
      says('RESTORE_REFUSED', /^the backup contains .*SIBYL_DATABASE_URL names/),
    )
  })
})

await onBothDatabases('an incomplete backup is refused', ({ fresh, dialect }) => {
  // The checks that follow do not depend on the kind of database, so they run with SQLite only.
  if (dialect === 'mysql') return
  it('an incomplete backup is refused, and the message names the missing file', async () => {
    const dataDir = newFolder()
    const host = startTrading(dataDir)
    const places = placesOf(dataDir, await fresh())
    await newTrading(44).trade(host, 40)
    await withDatabase(places.databaseUrl, (database) => projectAll(host, database))
    await cut(host)
    const folder = newFolder()
    const { files } = await backup(places, folder, quiet)
    await host.stop()
    const into = placesOf(join(newFolder(), 'data'), await fresh())
    const refused = (pattern: RegExp) =>
      assert.rejects(restore(folder, into, quiet), says('BACKUP_REFUSED', pattern))
    assert(files.some(({ path }) => path.startsWith('archive/')))
    for (const { path } of files) {
      const whole = join(folder, path)
      const bytes = readFileSync(whole)
      const spoilt = Buffer.from(bytes)
      spoilt[spoilt.length >> 1]! ^= 1
      writeFileSync(whole, spoilt)
      await refused(/ is damaged$/)
      rmSync(whole)
      await refused(/ is missing$/)
      writeFileSync(whole, bytes)
    }
    const manifest = join(folder, 'manifest.json')
    const text = readFileSync(manifest, 'utf8')
    writeFileSync(manifest, text.replace('"lastOffset": ', '"lastOffset": 1'))
    await refused(/manifest.json is damaged$/)
    rmSync(manifest)
    await refused(/has no manifest.json: it is not a backup, or an unfinished one$/)
    assert.deepEqual(existsSync(into.dataDir) ? readdirSync(into.dataDir) : [], [])
  })

  it('the backup command exits with code 2 and names the option if an option is invalid', async () => {
    const places = placesOf(newFolder(), await fresh())
    const inside = join(places.dataDir, 'inside')
    mkdirSync(inside)
    const refusals: [string, string[], RegExp][] = [
      ['backup', ['--to', inside], /^sibyl: --to must be a folder outside of/],
      ['restore', ['--from', join(inside, 'nothing')], /^sibyl: --from must be a folder/],
      ['rebuild', ['--all'], /^sibyl: Unknown option '--all'/],
    ]
    for (const [name, args, pattern] of refusals) {
      const failed = await command(name, places, ...args).then(
        () => assert.fail('it went well'),
        (error: { code: number; stderr: string }) => error,
      )
      assert.equal(failed.code, 2)
      assert.match(failed.stderr, pattern)
    }
  })
})

function aTransaction() {
  return {
    chainId: 31_337,
    sender: `0x${'ab'.repeat(20)}` as never,
    nonce: 7,
    revision: 3,
    purpose: 'settle',
    reference: 'a\'b"c\\d\n',
    raw: '0x02',
    hashes: ['0x01', '0x02'],
    blanks: [],
    maxFeePerGas: '1',
    maxPriorityFeePerGas: '1',
    state: 'open' as const,
    txHash: '',
    blockNumber: null,
    blockHash: '',
    gasUsed: null,
    error: 'ein Fehler: „nein“ 有',
    signedAtMs: 1,
    updatedAtMs: 2,
    finishedAtMs: null,
  }
}
