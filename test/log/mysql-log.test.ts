/**
 * Tests the log in a database server. These are the tests of every log, and tests in which an owner on another machine
 * takes the log over.
 */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, test } from 'node:test'
import type { EventLog } from '#log/event-log.ts'
import { partitionPaths } from '#log/log-folder.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { adoptLog, hasNoLog } from '#log/server/adopt-log.ts'
import { type MysqlLogOptions, type MysqlLogWatch, openMysqlLog } from '#log/server/mysql-log.ts'
import { doubtsOf } from '#log/server/mysql-rows.ts'
import { MysqlServer, meaningOf, parseMysqlAddress } from '#log/server/mysql-server.ts'
import { onServerDatabase, type TestDatabases } from '../support/databases.ts'
import { eventually } from '../support/eventually.ts'
import { randomFrom } from '../support/random.ts'
import { conformance, fault, range } from './conformance.ts'
import { contentOf, flowOf, marketNamed, type Noted, notes } from './flow.ts'

const random = randomFrom(9)
const market = marketNamed(random)
const note = notes(market)
const NOW = 1_790_000_000_000

test('the address of a log names one or more database servers and a database', () => {
  assert.deepEqual(parseMysqlAddress('mysql://u:p%40ss@a:1,b,[::1]:3/log'), {
    servers: [
      { host: 'a', port: 1 },
      { host: 'b', port: 3_306 },
      { host: '::1', port: 3 },
    ],
    ...{ user: 'u', password: 'p@ss', database: 'log', tls: false },
  })
  assert.deepEqual(parseMysqlAddress('mysql://u@a,b/log?tls=true&ca=/etc/ca.pem'), {
    servers: [
      { host: 'a', port: 3_306 },
      { host: 'b', port: 3_306 },
    ],
    ...{ user: 'u', password: '', database: 'log', tls: true, caFile: '/etc/ca.pem' },
  })
  const wrong = ['mysql://a', 'mysql://a/', 'http://a/b', 'mysql://a:70000/b', 'mysql://a,/b', '']
  // Certificates name hosts, not IP addresses, so an IP address with TLS is refused.
  const unsafe = ['?tls=yes', '?ca=/etc/ca.pem', '?tls=true&ca=', '?ssl=true', '?tls=true&x=1']
  wrong.push(...unsafe.map((search) => `mysql://a/b${search}`), 'mysql://a,127.0.0.1/b?tls=true')
  for (const url of wrong) assert.equal(parseMysqlAddress(url), undefined, url)
})

test('after an unrecognised database error, the log treats the effect of the statement as unknown', () => {
  assert.equal(meaningOf({ errno: 1062 }), 'taken')
  assert.equal(meaningOf({ errno: 1213 }), 'again')
  assert.equal(meaningOf({ errno: 1180 }), 'unknown')
  assert.equal(meaningOf(new Error('lost')), 'unknown')
})

test('a log owner warns of database settings that could lose rows, and refuses a too small packet limit', () => {
  const doubts = (variables: Record<string, string>) =>
    doubtsOf('here', new Map(Object.entries(variables)))
  const safe = {
    max_allowed_packet: '16777216',
    innodb_flush_log_at_trx_commit: '1',
    log_bin: 'OFF',
  }
  assert.deepEqual(doubts(safe), [])
  assert.match(doubts({ ...safe, innodb_flush_log_at_trx_commit: '2' }).join(), /power cut/)
  assert.match(doubts({ ...safe, log_bin: 'ON', sync_binlog: '0' }).join(), /replica/)
  const cluster = { ...safe, wsrep_on: 'ON' }
  const options = (recovery: string) => `pc.ignore_sb = false; pc.recovery = ${recovery}; repl = 1`
  assert.match(
    doubts({ ...cluster, wsrep_provider_options: options('true') }).join(),
    /pc.recovery/,
  )
  assert.deepEqual(doubts({ ...cluster, wsrep_provider_options: options('false') }), [])
  assert.throws(() => doubts({ max_allowed_packet: '1048576' }), fault('LOG_SERVER_UNFIT'))
})

await onServerDatabase(
  'a log on a database server is durable and has one writer per partition',
  (databases) => {
    conformance(async () => {
      const place = await newPlace(databases)
      return { open: (options) => place.open(options), dispose: place.dispose }
    })
    tests(databases)
  },
)

type Place = {
  readonly url: string
  readonly dataDir: string
  open(options?: Partial<MysqlLogOptions>): Promise<EventLog<Noted>>
  dispose(): Promise<void>
}

async function newPlace(databases: TestDatabases): Promise<Place> {
  const url = await databases.fresh()
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-mysql-log-'))
  return {
    ...{ url, dataDir },
    open: (options) =>
      openMysqlLog<Noted>({
        ...{ url, dataDir, partitions: 2, own: [0], checkpointThread: false, ...options },
      }),
    dispose: async () => rmSync(dataDir, { recursive: true, force: true }),
  }
}

function tests(databases: TestDatabases): void {
  const disposed: (() => Promise<unknown> | unknown)[] = []
  afterEach(async () => {
    for (const dispose of disposed.splice(0).reverse()) await dispose()
  })

  async function placed(): Promise<Place> {
    const place = await newPlace(databases)
    disposed.push(place.dispose)
    return place
  }

  function folder(): string {
    const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-mysql-log-'))
    disposed.push(() => rmSync(dataDir, { recursive: true, force: true }))
    return dataDir
  }

  function kept<Log extends { close(): Promise<void> }>(log: Log): Log {
    disposed.push(() => log.close())
    return log
  }

  const batch = (seq: number) => ({ events: [note(seq)], nowMs: NOW + seq })

  test('a log on a database server can be read completely on another machine or after losing its local copy', async () => {
    const place = await placed()
    const flow = flowOf(5, 30)
    const log = await place.open()
    for (const each of flow.batches) await log.append(0, each)
    const content = contentOf(log, 0, flow)
    await log.close()
    const elsewhere = await place.open({ dataDir: folder() })
    assert.equal(contentOf(elsewhere, 0, flow), content)
    await elsewhere.close()
    const { database } = partitionPaths(place.dataDir, 0)
    rmSync(database)
    const renewed = kept(await place.open())
    assert.equal(contentOf(renewed, 0, flow), content)
  })

  test('an owner that lost a partition appends nothing more, and the new owner continues the log', async () => {
    const place = await placed()
    const first = kept(await place.open())
    await first.append(0, batch(1))
    const second = kept(await place.open({ dataDir: folder() }))
    await second.append(0, batch(2))
    await assert.rejects(first.append(0, batch(2)), fault('LOG_APPEND_FAILED'))
    await assert.rejects(first.append(0, batch(2)), fault('LOG_APPEND_FAILED'))
    assert.throws(() => first.reopen(0), /taken over/)
    await second.append(0, batch(3))
    const events = second.read(0, 1, 10).map(({ event }) => event)
    assert.deepEqual(events, range(1, 3).map(note))
  })

  test('a log owner can ask which of its partitions other owners have taken over', async () => {
    const place = await placed()
    const fenced: number[] = []
    const watch: MysqlLogWatch = {
      ...{ appended() {}, retried() {}, based() {}, doubted() {} },
      fenced: (partition) => void fenced.push(partition),
    }
    const first = kept(await place.open({ own: [0, 1], watch }))
    await first.append(0, batch(1))
    // Own rows that were written but not acknowledged yet do not count as a takeover.
    const [, own] = await Promise.all([first.append(0, batch(2)), first.takenOver?.()])
    assert.deepEqual(own, [])
    const second = kept(await place.open({ dataDir: folder() }))
    assert.deepEqual(await first.takenOver?.(), [0])
    assert.deepEqual(fenced, [0])
    await assert.rejects(first.append(0, batch(3)), fault('LOG_APPEND_FAILED'))
    assert.deepEqual(await first.takenOver?.(), [], 'it is told once')
    assert.deepEqual(await second.takenOver?.(), [])
    await first.append(1, batch(1))
  })

  test('if the database server is unreachable, a log owner cannot confirm its partitions and reports a fault', async () => {
    const place = await placed()
    const proxy = await cuttingProxy(place.url)
    disposed.push(proxy.close)
    const log = kept(await place.open({ url: proxy.url }))
    assert.deepEqual(await log.takenOver?.(), [])
    proxy.refuse(true)
    await assert.rejects(log.takenOver!(), fault('LOG_READ_FAILED'))
    proxy.refuse(false)
    assert.deepEqual(await log.takenOver?.(), [])
  })

  test('if owners compete for a partition, the log contains every acknowledged append once', async () => {
    const place = await placed()
    const acknowledged: string[] = []
    const own = [1, 2, 3].map(async (owner) => {
      for (let turn = 1; turn <= 4; turn++) {
        const log = await place.open({ dataDir: folder() })
        for (let number = 1; number <= 3; number++) {
          const text = `${owner}.${turn}.${number}`
          const event = { ...note(1), note: text }
          const landed = await log.append(0, { events: [event], nowMs: NOW }).then(
            () => true,
            () => false,
          )
          if (!landed) break
          acknowledged.push(text)
        }
        await log.close()
      }
    })
    await Promise.all(own)
    const log = kept(await place.open({ dataDir: folder() }))
    const there = log.read(0, 1, 1_000).map(({ event }) => event.note)
    assert.equal(new Set(there).size, there.length, 'none is there twice')
    for (const text of acknowledged) assert(there.includes(text), text)
  })

  test('log rows that a base (stored copy) contains are deleted, and a new node starts from this base', async () => {
    const place = await placed()
    const flow = flowOf(31, 60)
    let based = 0
    const log = await place.open({
      baseEveryBytes: 4_000,
      watch: {
        ...{ appended() {}, retried() {}, fenced() {}, doubted() {} },
        // Count only completed bases. If the log is closed while a base is being made, the base is abandoned.
        based: (_, failed) => {
          if (failed === undefined) based++
        },
      },
    })
    for (const [index, each] of flow.batches.entries()) {
      await log.append(0, each)
      if (index === 30) await log.beginSnapshot(0, flow.markets[0]!, 5, 1).commit()
      const before = based
      if (index % 20 === 19) await eventually(() => assert(based > before))
    }
    const content = contentOf(log, 0, flow)
    await log.close()
    const server = kept(new MysqlServer(parseMysqlAddress(place.url)!))
    const [rows] = await server.rows<{ least: number; count: number }>(
      'SELECT MIN(seq) AS least, COUNT(*) AS count FROM log WHERE part = 0',
    )
    assert(rows!.least > 1, `the oldest row is ${rows!.least}`)
    const [files] = await server.rows<{ bases: number }>('SELECT COUNT(*) AS bases FROM log_bases')
    assert.equal(files!.bases, 1, 'those before are gone')
    const elsewhere = kept(await place.open({ dataDir: folder() }))
    assert.equal(contentOf(elsewhere, 0, flow), content)
  })

  test('a log whose database has lost acknowledged events is refused', async () => {
    const place = await placed()
    const log = await place.open()
    for (const seq of range(1, 4)) await log.append(0, batch(seq))
    await log.close()
    const server = kept(new MysqlServer(parseMysqlAddress(place.url)!))
    const [last] = await server.rows<{ seq: number }>(
      'SELECT MAX(seq) AS seq FROM log WHERE part = 0',
    )
    await server.change('DELETE FROM log WHERE part = 0 AND seq = ?', [last!.seq])
    await assert.rejects(place.open(), fault('LOG_LOST'))
    await server.change(
      'INSERT INTO log SELECT part, seq + 1, epoch, first_offset + events, 1, 7, body FROM log ' +
        'WHERE part = 0 AND seq = ?',
      [last!.seq - 1],
    )
    await assert.rejects(place.open(), fault('LOG_LOST'), 'another row in its place')
    await assert.rejects(place.open({ dataDir: folder() }), fault('LOG_CORRUPT'))
  })

  test('a log with a row that was changed in the database is refused', async () => {
    const place = await placed()
    const log = await place.open()
    for (const seq of range(1, 4)) await log.append(0, batch(seq))
    await log.close()
    const server = kept(new MysqlServer(parseMysqlAddress(place.url)!))
    await server.change(
      "UPDATE log SET body = REPLACE(body, 'note 2', 'note 9') WHERE part = 0 AND seq = 3",
    )
    await assert.rejects(place.open({ dataDir: folder() }), fault('LOG_CORRUPT'))
  })

  test('if the answer to an append is lost, the log checks for the row and writes it exactly once', async () => {
    const place = await placed()
    const cut = await cuttingProxy(place.url)
    disposed.push(cut.close)
    const log = kept(await place.open({ url: cut.url }))
    await log.append(0, batch(1))
    for (const seq of range(2, 6)) {
      if (seq % 2 === 0) cut.loseNextAnswer()
      else cut.loseNextRequest()
      await log.append(0, batch(seq))
    }
    assert.equal(cut.lost(), 5)
    const events = log.read(0, 1, 10).map(({ event }) => event)
    assert.deepEqual(events, range(1, 6).map(note))
  })

  test('appends fail while the database server is unreachable, and succeed again when it is back', async () => {
    const place = await placed()
    const cut = await cuttingProxy(place.url)
    disposed.push(cut.close)
    const log = kept(await place.open({ url: cut.url, appendMsMax: 200 }))
    await log.append(0, batch(1))
    cut.refuse(true)
    await assert.rejects(log.append(0, batch(2)), fault('LOG_APPEND_FAILED'))
    assert.throws(() => log.reopen(0), fault('LOG_NEEDS_REOPEN'))
    cut.refuse(false)
    await eventually(() => log.reopen(0))
    const { lastOffset } = log.state(0)
    await log.append(0, batch(lastOffset + 1))
    assert.equal(log.read(0, 1, 10).length, lastOffset + 1)
  })

  test('if a failed append’s row reaches the database after the log was reopened, the log omits the row', async () => {
    const place = await placed()
    const cut = await cuttingProxy(place.url)
    disposed.push(cut.close)
    const log = kept(await place.open({ url: cut.url, appendMsMax: 200 }))
    await log.append(0, batch(1))
    cut.holdNextRequest()
    await assert.rejects(log.append(0, batch(2)), fault('LOG_APPEND_FAILED'))
    cut.refuse(false)
    await eventually(() => log.reopen(0))
    assert.equal(log.lastOffset(0), 1)
    await cut.deliver()
    const another = { ...note(2), note: 'another' }
    await log.append(0, { events: [another], nowMs: NOW + 2 })
    await log.append(0, batch(3))
    const elsewhere = kept(await place.open({ dataDir: folder() }))
    const events = elsewhere.read(0, 1, 10).map(({ event }) => event)
    assert.deepEqual(events, [note(1), another, note(3)])
  })

  test('if a failed append’s row reaches the database before the log is reopened, the log contains the row', async () => {
    const place = await placed()
    const cut = await cuttingProxy(place.url)
    disposed.push(cut.close)
    const log = kept(await place.open({ url: cut.url, appendMsMax: 200 }))
    await log.append(0, batch(1))
    cut.holdNextRequest()
    await assert.rejects(log.append(0, batch(2)), fault('LOG_APPEND_FAILED'))
    await cut.deliver()
    cut.refuse(false)
    await eventually(() => log.reopen(0))
    assert.equal(log.lastOffset(0), 2)
    await log.append(0, batch(3))
    const events = log.read(0, 1, 10).map(({ event }) => event)
    assert.deepEqual(events, range(1, 3).map(note))
  })

  test('if the answer to a takeover was lost, the owner recognises its own takeover when it tries again', async () => {
    const place = await placed()
    const cut = await cuttingProxy(place.url)
    disposed.push(cut.close)
    const log = kept(await place.open({ url: cut.url, appendMsMax: 0 }))
    await log.append(0, batch(1))
    cut.refuse(true)
    await assert.rejects(log.append(0, batch(2)), fault('LOG_APPEND_FAILED'))
    cut.refuse(false)
    cut.loseAnswersFromNext()
    await eventually(() => {
      assert.throws(() => log.reopen(0), fault('LOG_NEEDS_REOPEN'))
      assert.equal(cut.lost(), 1)
    })
    const server = kept(new MysqlServer(parseMysqlAddress(place.url)!))
    const fences = 'SELECT seq FROM log WHERE part = 0 AND epoch = 2'
    await eventually(async () => assert.equal((await server.rows(fences)).length, 1))
    cut.refuse(false)
    await eventually(() => log.reopen(0))
    await log.append(0, batch(2))
    assert.equal((await server.rows(fences)).length, 2, 'one fence, and the row behind it')
  })

  test('after another owner takes over during an unanswered append, the former owner can no longer write', async () => {
    const place = await placed()
    const cut = await cuttingProxy(place.url)
    disposed.push(cut.close)
    const first = kept(await place.open({ url: cut.url, appendMsMax: 200 }))
    await first.append(0, batch(1))
    cut.holdNextRequest()
    await assert.rejects(first.append(0, batch(2)), fault('LOG_APPEND_FAILED'))
    const second = kept(await place.open({ dataDir: folder() }))
    await cut.deliver()
    cut.refuse(false)
    await eventually(() => assert.throws(() => first.reopen(0), /taken over/))
    await assert.rejects(first.append(0, batch(2)), fault('LOG_APPEND_FAILED'))
    for (const seq of [2, 3]) await second.append(0, batch(seq))
    const events = second.read(0, 1, 10).map(({ event }) => event)
    assert.deepEqual(events, range(1, 3).map(note))
  })

  test('a log in local files can be moved to a database server, where every node reads it completely', async () => {
    const place = await placed()
    const flow = flowOf(41, 30)
    const dataDir = folder()
    const files = { dataDir, partitions: 2, own: [0], checkpointThread: false }
    const before = openSqliteLog<Noted>(files)
    for (const each of flow.batches.slice(0, 20)) await before.append(0, each)
    await before.beginSnapshot(0, flow.markets[0]!, 5, 1).commit()
    const content = contentOf(before, 0, flow)
    await before.close()
    assert(await hasNoLog(place.url))
    await adoptLog(dataDir, place.url)
    assert.equal(await hasNoLog(place.url), false)
    await assert.rejects(adoptLog(dataDir, place.url), fault('LOG_NOT_EMPTY'))
    const here = await place.open({ dataDir })
    assert.equal(contentOf(here, 0, flow), content)
    for (const each of flow.batches.slice(20)) await here.append(0, each)
    const after = contentOf(here, 0, flow)
    await here.close()
    const elsewhere = kept(await place.open({ dataDir: folder() }))
    assert.equal(contentOf(elsewhere, 0, flow), after)
    const server = kept(new MysqlServer(parseMysqlAddress(place.url)!))
    await server.change('DELETE FROM log_homes')
    await assert.rejects(place.open({ dataDir: folder() }), fault('LOG_HALF_MADE'))
  })

  test('a log on a database server does not open with another log’s folder or another partition count', async () => {
    const [place, stranger] = [await placed(), await placed()]
    await (await place.open()).close()
    await (await stranger.open()).close()
    await assert.rejects(place.open({ url: stranger.url }), fault('LOG_FOREIGN'))
    await assert.rejects(place.open({ partitions: 3 }), fault('LOG_PARTITIONS_DIFFER'))
    await assert.rejects(place.open({ url: 'mysql://nowhere' }), fault('LOG_URL_INVALID'))
  })
}

/** Starts a proxy that can lose a request or an answer, delay a request, or refuse connections. */
async function cuttingProxy(url: string) {
  const { servers, user, database } = parseMysqlAddress(url)!
  let loses: 'request' | 'answer' | undefined
  let isLast = false
  let late: { readonly behind: Socket; readonly bytes: Buffer } | undefined
  let refuses = false
  let lost = 0
  const open = new Set<Socket>()
  const server: Server = createServer((client) => {
    if (refuses) {
      client.destroy()
      return
    }
    const { host, port } = servers[0]!
    const behind = connect(port, host)
    let losesAnswer = false
    const end = () => {
      client.destroy()
      // `deliver` later sends the held statement on the connection to the server, so this connection stays open.
      if (late?.behind !== behind) behind.destroy()
      open.delete(client)
    }
    open.add(client)
    client.on('data', (bytes) => {
      // A long execute command is an append or a fence. The proxy loses or holds only these commands.
      const isAppend = bytes[4] === 0x17 && bytes.length > 60
      if (isAppend && loses !== undefined) {
        lost++
        losesAnswer = loses === 'answer'
        const drops = loses === 'request'
        loses = undefined
        refuses = isLast
        if (drops && isLast) late = { behind, bytes }
        isLast = false
        if (drops) return end()
      }
      behind.write(bytes)
    })
    behind.on('data', (bytes) => (losesAnswer ? end() : client.write(bytes)))
    for (const socket of [client, behind]) {
      socket.on('error', end)
      socket.on('close', end)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return {
    url: `mysql://${user}@127.0.0.1:${port}/${database}`,
    loseNextAnswer: () => {
      loses = 'answer'
    },
    loseNextRequest: () => {
      loses = 'request'
    },
    /**
     * Holds the next append or fence, and refuses connections from then on. `deliver` sends the held statement later.
     */
    holdNextRequest: () => {
      loses = 'request'
      isLast = true
    },
    /** Executes the next append or fence without answering, and refuses connections from then on. */
    loseAnswersFromNext: () => {
      loses = 'answer'
      isLast = true
    },
    /** Delivers the held statement to the server; resolves when it has answered. */
    async deliver() {
      const { behind, bytes } = late!
      late = undefined
      const answered = once(behind, 'data')
      behind.write(bytes)
      await answered
      behind.destroy()
    },
    refuse(on: boolean) {
      refuses = on
      if (on) for (const socket of open) socket.destroy()
    },
    lost: () => lost,
    close: () => {
      late?.behind.destroy()
      for (const socket of open) socket.destroy()
      server.close()
    },
  }
}
