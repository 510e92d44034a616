/**
 * Tests the bases (copies of a partition's files) of a log in a database server, while the owner changes or the copying
 * is interrupted.
 */

import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, test } from 'node:test'
import { copyPartition } from '#log/copy-log.ts'
import type { EventLog } from '#log/event-log.ts'
import { partitionPaths, readIdentity } from '#log/log-folder.ts'
import { openLogFollower } from '#log/server/log-follower.ts'
import { positionIn, uploadBase } from '#log/server/mysql-base.ts'
import { openMysqlLog } from '#log/server/mysql-log.ts'
import { LogRows, refused } from '#log/server/mysql-rows.ts'
import { MysqlServer, parseMysqlAddress } from '#log/server/mysql-server.ts'
import { onServerDatabase, type TestDatabases } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import { randomFrom } from '../support/random.ts'
import { fault, range } from './conformance.ts'
import { marketNamed, type Noted, notes } from './flow.ts'

const market = marketNamed(randomFrom(9))
const note = notes(market)
const NOW = 1_790_000_000_000

await onServerDatabase('bases of the log stay consistent when their owners pause or fail', tests)

function tests(databases: TestDatabases): void {
  const disposed: (() => Promise<unknown> | unknown)[] = []
  afterEach(async () => {
    for (const dispose of disposed.splice(0).reverse()) await dispose()
  })

  function folder(): string {
    const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-mysql-base-'))
    disposed.push(() => rmSync(dataDir, { recursive: true, force: true }))
    return dataDir
  }

  function kept<Closed extends { close(): Promise<void> }>(closed: Closed): Closed {
    disposed.push(() => closed.close())
    return closed
  }

  type Owner = { readonly dataDir: string; readonly log: EventLog<Noted>; readonly epoch: number }

  async function place() {
    const url = await databases.fresh()
    const address = parseMysqlAddress(url)!
    const server = kept(new MysqlServer(address))
    return {
      ...{ url, server },
      async take(dataDir = folder()): Promise<Owner> {
        const options = { url, dataDir, partitions: 1, own: [0], checkpointThread: false }
        const log = kept(await openMysqlLog<Noted>(options))
        const [last] = await server.rows<{ epoch: number }>('SELECT MAX(epoch) AS epoch FROM log')
        return { dataDir, log, epoch: last!.epoch }
      },
      /**
       * Makes a base (a copy of the partition's files) as the base thread does. Calls `before` before each statement
       * that changes the database.
       */
      async base(owner: Owner, before: (sql: string) => Promise<void> | void = () => {}) {
        const { dataDir, epoch } = owner
        const draft = folder()
        mkdirSync(join(draft, 'log'), { recursive: true })
        copyPartition({ logId: readIdentity(dataDir).id, partition: 0 }, dataDir, draft)
        const paths = partitionPaths(draft, 0)
        const own = kept(new MysqlServer(address))
        const change = own.change.bind(own)
        own.change = async (sql, values) => {
          await before(sql)
          return change(sql, values)
        }
        const rows = new LogRows(own, 0, { totalMs: 60_000 })
        await uploadBase(rows, paths, { ...positionIn(paths), epoch })
      },
      async names(): Promise<{ named: string[]; stored: string[] }> {
        const bases = await server.rows<{ files: string }>('SELECT files FROM log_bases')
        const files = await server.rows<{ file: string }>(
          'SELECT DISTINCT file FROM log_files WHERE part = 0',
        )
        const named = bases.flatMap(({ files: text }) =>
          (JSON.parse(text) as { stored: string }[]).map(({ stored }) => stored),
        )
        return { named: [...new Set(named)].sort(), stored: files.map(({ file }) => file).sort() }
      },
    }
  }

  async function append({ log }: Owner, seq: number): Promise<void> {
    await log.append(0, { events: [note(seq)], nowMs: NOW + seq })
  }

  async function snapshot({ log, dataDir }: Owner, offset: number): Promise<void> {
    const writer = log.beginSnapshot(0, market, offset, offset)
    writer.writeChunk(Buffer.from(`state at ${offset}`))
    await writer.commit()
    // The previous snapshot is deleted a little later.
    const { snapshots } = partitionPaths(dataDir, 0)
    await eventually(() => assert.equal(readdirSync(snapshots).length, 1))
  }

  const PAUSES = [
    ['records its base', 'INTO log_bases'],
    ['deletes rows', 'DELETE FROM log '],
    ['deletes older bases', 'DELETE FROM log_bases '],
    ['deletes files', 'DELETE FROM log_files '],
  ] as const

  for (const [what, statement] of PAUSES) {
    test(`a log owner that pauses before it ${what} does not damage the next owner’s base (stored log copy)`, async () => {
      const { take, base, names, server, url } = await place()
      const first = await take()
      await append(first, 1)
      await snapshot(first, 1)
      await append(first, 2)
      await base(first)
      // A follower has the older snapshot and continues with it after a takeover.
      const dataDir = folder()
      const follower = await openLogFollower({ url, dataDir, partitions: 1 })
      await follower.follow([0])
      await follower.pull(0)
      await append(first, 3)
      await snapshot(first, 3)
      await follower.pull(0)
      await follower.close()
      const met = Promise.withResolvers<void>()
      const going = Promise.withResolvers<void>()
      const late = base(first, async (sql) => {
        if (!sql.includes(statement)) return
        met.resolve()
        await going.promise
      }).catch((error: unknown) => error)
      await met.promise
      const second = await take(dataDir)
      await append(second, 4)
      await base(second)
      await append(second, 5)
      const before = await names()
      const rows = await server.rows('SELECT seq FROM log ORDER BY seq')
      going.resolve()
      const answer = await late
      if (statement === PAUSES[0][1]) assert(fault('LOG_FENCED')(answer as Error))
      else assert.equal(answer, undefined)
      assert.deepEqual((await names()).named, before.named)
      for (const file of before.named) assert((await names()).stored.includes(file), file)
      assert.deepEqual(await server.rows('SELECT seq FROM log ORDER BY seq'), rows)
      const third = await take()
      assert.deepEqual(
        third.log.read(0, 1, 10).map(({ event }) => event),
        range(1, 5).map(note),
      )
    })
  }

  test('if files of the log’s base (stored copy) are missing in the database, the next base contains them again', async () => {
    const { take, base, server } = await place()
    const first = await take()
    await append(first, 1)
    await snapshot(first, 1)
    await append(first, 2)
    await base(first)
    await server.change("DELETE FROM log_files WHERE file NOT LIKE '%-db'")
    await append(first, 3)
    await base(first)
    const second = await take()
    assert.deepEqual(
      second.log.read(0, 1, 10).map(({ event }) => event),
      range(1, 3).map(note),
    )
  })

  test('making a new base (stored copy) of a partition deletes the files of the partition’s unfinished bases', async () => {
    const { take, base, names, server } = await place()
    const first = await take()
    // Files of another partition must not be deleted.
    await server.change(
      "INSERT INTO log_files (part, file, piece, body) VALUES (1, '3-db', 0, 'x')",
    )
    const interrupted = (sql: string) => {
      if (sql.includes('INTO log_bases'))
        throw refused('ENDED', 'the thread that uploads bases has ended')
    }
    for (const seq of range(1, 3)) {
      await append(first, seq)
      await assert.rejects(base(first, interrupted), fault('ENDED'))
    }
    assert.equal((await names()).stored.length, 3)
    await append(first, 4)
    await base(first)
    const whole = await names()
    assert.deepEqual(whole.stored, whole.named)
    await append(first, 5)
    await assert.rejects(base(first, interrupted), fault('ENDED'))
    const second = await take()
    await append(second, 6)
    await base(second)
    const after = await names()
    assert.deepEqual(after.stored, after.named)
    assert.equal((await server.rows('SELECT file FROM log_files WHERE part = 1')).length, 1)
  })
}
