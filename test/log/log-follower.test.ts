/** Tests a log follower: a copy of a log that another machine writes. */

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import Database from 'better-sqlite3'
import type { ClosedOrder } from '#log/event-log.ts'
import { partitionPaths } from '#log/log-folder.ts'
import { openLogReader } from '#log/log-reader.ts'
import { openLogFollower } from '#log/server/log-follower.ts'
import { openMysqlLog } from '#log/server/mysql-log.ts'
import { MysqlServer, parseMysqlAddress } from '#log/server/mysql-server.ts'
import { onServerDatabase } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import { randomFrom } from '../support/random.ts'
import { fault, range } from './conformance.ts'
import { closedOrder, marketNamed, type Noted, notes } from './flow.ts'

const NOW = 1_790_000_000_000
const market = marketNamed(randomFrom(9))
const note = notes(market)
const batch = (seq: number) => ({ events: [note(seq)], nowMs: NOW + seq })

/** At the end of the test, closes the logs in reverse order, and then removes the folders. */
function disposer(t: TestContext) {
  const open: { close(): Promise<void> }[] = []
  const folders: string[] = []
  t.after(async () => {
    for (const each of open.reverse()) await each.close()
    for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  })
  return {
    folder(): string {
      const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-follower-'))
      folders.push(dataDir)
      return dataDir
    },
    kept<Open extends { close(): Promise<void> }>(each: Open): Open {
      open.push(each)
      return each
    },
  }
}

await onServerDatabase('a node can copy the log of another node and take it over', ({ fresh }) => {
  const owner = (url: string, dataDir: string, more: object = {}) =>
    openMysqlLog<Noted>({
      ...{ url, dataDir, partitions: 2, own: [0], checkpointThread: false, ...more },
    })
  const follower = (url: string, dataDir: string) =>
    openLogFollower<Noted>({ url, dataDir, partitions: 2 })

  test('a node can copy another node’s log from the database while the owner continues to write', async (t) => {
    const url = await fresh()
    const { folder, kept } = disposer(t)
    const [here, there] = [folder(), folder()]
    const log = kept(await owner(url, there))
    const copy = kept(await follower(url, here))
    await copy.follow([0, 1])
    assert.deepEqual(copy.followed, [0, 1])
    assert.equal(await copy.pull(0), 0)
    const reader = kept(openLogReader<Noted>(here))
    assert.equal(reader.lastOffset(0), 0)
    for (const seq of range(1, 100)) {
      await log.append(0, batch(seq))
      if (seq % 30 === 0) assert.equal(await copy.pull(0), seq)
    }
    await Promise.all([copy.pull(0), copy.pull(0), copy.pull(1)])
    assert.deepEqual(reader.read(0, 1, 1_000), log.read(0, 1, 1_000))
    // Its owner still owns it.
    await log.append(0, batch(101))
  })

  test('a node that becomes a log’s owner finds closed orders that it had copied to files', async (t) => {
    const url = await fresh()
    const { folder, kept } = disposer(t)
    const [here, there] = [folder(), folder()]
    const log = kept(await owner(url, there))
    const options = { url, dataDir: here, partitions: 2, closedTailMax: 100 }
    const copy = kept(await openLogFollower<Noted>(options))
    await copy.follow([0])
    const random = randomFrom(10)
    const orders: ClosedOrder[] = []
    for (const seq of range(1, 20)) {
      const closed = range(1, 40).map(() => closedOrder(random, market, NOW / 1_000 + 60))
      await log.append(0, { ...batch(seq), closed })
      orders.push(...closed)
      await copy.pull(0)
    }
    const { database } = partitionPaths(here, 0)
    const count = 'SELECT SUM(LENGTH(payload)) / 128 FROM closed_orders'
    await eventually(async () => {
      await copy.pull(0)
      const db = new Database(database, { readonly: true })
      const inRows = db.prepare(count).pluck().get() as number
      db.close()
      assert(inRows < 100, `${inRows} of ${orders.length} are in rows`)
    })
    await copy.follow([])
    const next = kept(await owner(url, here))
    const found = next.closedOrders(
      0,
      orders.map(({ orderHash }) => orderHash),
    )
    assert.deepEqual(found, orders)
  })

  test('after a node takes over a partition that it has copied, the former owner cannot write to it', async (t) => {
    const url = await fresh()
    const { folder, kept } = disposer(t)
    const [here, there] = [folder(), folder()]
    const log = kept(await owner(url, there))
    for (const seq of range(1, 10)) await log.append(0, batch(seq))
    const copy = kept(await follower(url, here))
    await copy.follow([0])
    await copy.pull(0)
    await assert.rejects(owner(url, here), fault('LOG_LOCKED'))
    const pulling = copy.pull(0)
    await copy.follow([1])
    await pulling
    assert.equal(await copy.pull(0), undefined)
    const next = kept(await owner(url, here))
    assert.equal(next.lastOffset(0), 10)
    await next.append(0, batch(11))
    await assert.rejects(log.append(0, batch(12)), fault('LOG_APPEND_FAILED'))
  })

  test('if a newer base (stored copy of the log) has replaced log rows, a copying node continues from it', async (t) => {
    const url = await fresh()
    const { folder, kept } = disposer(t)
    const [here, there] = [folder(), folder()]
    const copy = kept(await follower(url, here))
    await copy.follow([0])
    await copy.pull(0)
    const reader = kept(openLogReader<Noted>(here))
    assert.equal(reader.lastOffset(0), 0)
    let bases = 0
    const watch = {
      ...{ appended() {}, retried() {}, fenced() {}, doubted() {} },
      based: () => bases++,
    }
    const log = kept(await owner(url, there, { baseEveryBytes: 1, watch }))
    let seq = 0
    for (const wanted of [1, 2, 3]) {
      await log.append(0, batch(++seq))
      await eventually(() => assert(bases >= wanted))
    }
    await log.append(0, batch(++seq))
    assert.equal(await copy.pull(0), seq)
    assert.equal(reader.lastOffset(0), seq)
    assert.deepEqual(reader.read(0, 1, 10), log.read(0, 1, 10))
  })

  test('if the database has lost rows that a node copied, the node refuses to continue with them', async (t) => {
    const url = await fresh()
    const { folder, kept } = disposer(t)
    const [here, there] = [folder(), folder()]
    const log = kept(await owner(url, there))
    for (const seq of range(1, 4)) await log.append(0, batch(seq))
    const copy = await follower(url, here)
    await copy.follow([0])
    assert.equal(await copy.pull(0), 4)
    const server = kept(new MysqlServer(parseMysqlAddress(url)!))
    await server.change('DELETE FROM log WHERE part = 0 ORDER BY seq DESC LIMIT 1', [])
    await assert.rejects(copy.pull(0), fault('LOG_LOST'), 'while it follows')
    await assert.rejects(copy.pull(0), fault('LOG_LOST'), 'and when it begins anew')
    await copy.close()
    await assert.rejects(owner(url, here), fault('LOG_LOST'), 'a standby does not serve it')
    rmSync(join(here, 'log'), { recursive: true })
    const again = kept(await follower(url, here))
    await again.follow([0])
    assert.equal(await again.pull(0), 3, 'who never saw the row cannot know')
  })
})
