import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { closeDatabase, read, transact } from '#store/engine/database.ts'
import { makeServers } from '#store/engine/servers.ts'
import { openDatabase } from '#store/open-database.ts'
import { onServerDatabase } from '../../support/databases.ts'

async function listen(t: TestContext, hear: (socket: Socket) => void): Promise<AddressInfo> {
  const server: Server = createServer(hear).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => sockets.add(socket))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return server.address() as AddressInfo
}

const placeOf = ({ address: host, port }: AddressInfo) => ({ host, port })

test('if a database server cannot be reached, the next one is used, and stays in use', async (t) => {
  const away = createServer().listen(0, '127.0.0.1')
  await once(away, 'listening')
  const closed = away.address() as AddressInfo
  away.close()
  await once(away, 'close')
  const open = await listen(t, (socket) => socket.write('hello'))
  const servers = makeServers([placeOf(closed), placeOf(open)])
  await assert.rejects(once(servers.dial({}), 'connect'))
  for (let times = 0; times < 2; times++) {
    const socket = servers.dial({})
    assert.equal(String(await once(socket, 'data')), 'hello')
    socket.destroy()
    await once(socket, 'close')
    assert.equal(servers.place.port, open.port)
  }
})

/**
 * While an answer is due, the exchange regularly checks whether the server has sent new data. After this many checks
 * without new data, the next check abandons the server. The test triggers the checks itself.
 */
const LOOKS_MAX = 10

function lookedAt(t: TestContext, first: AddressInfo) {
  let look = (): void => {}
  const servers = makeServers([placeOf(first), { host: '127.0.0.1', port: 1 }], 1_000, (act) => {
    look = act
    return setInterval(() => {}, 60_000)
  })
  const dial = async (isAsking: () => boolean) => {
    const owner = {}
    const socket = servers.dial(owner)
    t.after(() => socket.destroy())
    await once(socket, 'data')
    servers.loggedIn(owner, isAsking)
    return socket
  }
  const looks = (times: number) => {
    for (let time = 0; time < times; time++) look()
  }
  return { servers, dial, looks }
}

test('all connections to a database server that stops in the middle of an answer are closed', async (t) => {
  const mute = await listen(t, (socket) => socket.write('the begin of an answer'))
  const { servers, dial, looks } = lookedAt(t, mute)
  const [asking, idle] = [await dial(() => true), await dial(() => false)]
  looks(1 + LOOKS_MAX)
  assert.equal(servers.place.port, mute.port)
  const ends = [asking, idle].map((socket) => once(socket, 'error'))
  looks(1)
  for (const [error] of await Promise.all(ends)) assert.match(String(error), /did not answer/)
  assert.equal(servers.place.port, 1)
})

test('a database connection stays open while it is idle or still receives parts of a long answer', async (t) => {
  const slow = await listen(t, (socket) => {
    socket.write('hello')
    socket.on('data', (more) => socket.write(more))
  })
  const { servers, dial, looks } = lookedAt(t, slow)
  const [asking, idle] = [await dial(() => true), await dial(() => false)]
  for (let part = 0; part < 3; part++) {
    looks(LOOKS_MAX)
    asking.write('more')
    await once(asking, 'data')
  }
  assert.deepEqual([asking.destroyed, idle.destroyed], [false, false])
  assert.equal(servers.place.port, slow.port)
})

/**
 * Starts a proxy to the database server. If an answer is longer than `bytesMax`, the proxy forwards only the first
 * `bytesMax` bytes.
 */
async function stoppingProxy(t: TestContext, target: URL, bytesMax: number): Promise<AddressInfo> {
  return await listen(t, (socket) => {
    const onward = connect(Number(target.port || 3306), target.hostname)
    t.after(() => onward.destroy())
    for (const end of [socket, onward]) end.on('error', () => {})
    let answered = 0
    socket.on('data', (question) => {
      answered = 0
      onward.write(question)
    })
    onward.on('data', (answer) => {
      const rest = Math.max(0, bytesMax - answered)
      answered += answer.length
      socket.write(answer.subarray(0, rest))
    })
  })
}

await onServerDatabase(
  'reads continue if a database server stops in the middle of an answer',
  ({ fresh }) => {
    test('if a database server stops in the middle of an answer, the read is repeated at the next server', async (t) => {
      const target = new URL(await fresh())
      const proxy = await stoppingProxy(t, target, 100_000)
      const url = target.href.replace('@', `@127.0.0.1:${proxy.port},`)
      const database = await openDatabase(url, { silentMsMax: 2_000 })
      try {
        const ask = (sql: string) => read(database, (em) => em.getConnection().execute(sql))
        assert.deepEqual(await ask('select 7 as seven'), [{ seven: 7 }])
        const rows = await ask(
          'with recursive n(i) as (select 1 union all select i + 1 from n where i < 900) ' +
            "select i, repeat('x', 1000) as text from n",
        )
        assert.equal(rows.length, 900)
        assert.equal(database.servers?.place.port, Number(target.port || 3306))
      } finally {
        await closeDatabase(database)
      }
    })
  },
)

await onServerDatabase(
  'reads and transactions use the next database server if the first is unavailable',
  ({ fresh }) => {
    test('after a database server is lost, reads and transactions use the next one', async () => {
      const url = (await fresh()).replace('@', '@127.0.0.1:1,')
      const database = await openDatabase(url)
      try {
        const found = await read(database, (em) => em.getConnection().execute('select 7 as seven'))
        assert.deepEqual(found, [{ seven: 7 }])
        await transact(database, (transaction, connection) =>
          connection.execute('create table things (id int primary key)', [], 'run', transaction),
        )
      } finally {
        await closeDatabase(database)
      }
    })
  },
)

/** Starts a proxy to a database server that hides the variables of Galera, so that the server looks like MySQL. */
async function withoutGalera(t: TestContext, target: URL): Promise<AddressInfo> {
  return await listen(t, (socket) => {
    const onward = connect(Number(target.port || 3306), target.hostname)
    t.after(() => onward.destroy())
    for (const end of [socket, onward]) end.on('error', () => {})
    socket.on('data', (question) => {
      const text = question.toString('latin1').replaceAll('session wsrep_', 'session xxxxx_')
      onward.write(Buffer.from(text, 'latin1'))
    })
    onward.on('data', (answer) => socket.write(answer))
  })
}

await onServerDatabase(
  'reads wait for commits on other servers only if the database supports Galera',
  ({ fresh }) => {
    const waits = "show session variables like 'wsrep_sync_wait'"

    test('reads wait for commits on other servers of a cluster, even if the URL names only one server', async () => {
      const database = await openDatabase(await fresh())
      try {
        const found = await read(database, (em) => em.getConnection().execute(waits))
        // MySQL has no such variable.
        for (const { Value } of found as { Value: string }[]) assert.equal(Value, '7')
      } finally {
        await closeDatabase(database)
      }
    })

    test('reads from a database server without Galera do not wait for commits on other servers', async (t) => {
      const target = new URL(await fresh())
      const proxy = await withoutGalera(t, target)
      const database = await openDatabase(
        target.href.replace(target.host, `127.0.0.1:${proxy.port}`),
      )
      try {
        const ask = (sql: string) => read(database, (em) => em.getConnection().execute(sql))
        assert.deepEqual(await ask('select 7 as seven'), [{ seven: 7 }])
        for (const { Value } of (await ask(waits)) as { Value: string }[]) assert.equal(Value, '0')
      } finally {
        await closeDatabase(database)
      }
    })
  },
)
