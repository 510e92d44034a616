import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
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

test('if a server cannot be reached the next one is used, and kept', async (t) => {
  const away = createServer().listen(0, '127.0.0.1')
  await once(away, 'listening')
  const closed = away.address() as AddressInfo
  away.close()
  await once(away, 'close')
  const open = await listen(t, (socket) => socket.write('hello'))
  const servers = makeServers([placeOf(closed), placeOf(open)])
  await assert.rejects(once(servers.dial(), 'connect'))
  for (let times = 0; times < 2; times++) {
    const socket = servers.dial()
    assert.equal(String(await once(socket, 'data')), 'hello')
    socket.destroy()
    await once(socket, 'close')
    assert.equal(servers.place.port, open.port)
  }
})

test('all connections to a server that accepts a query without answering are closed', async (t) => {
  const mute = await listen(t, (socket) => socket.write('hello'))
  const servers = makeServers([placeOf(mute), { host: '127.0.0.1', port: 1 }], 20)
  const [asking, idle] = [servers.dial(), servers.dial()]
  await Promise.all([once(asking, 'data'), once(idle, 'data')])
  asking.write('a question')
  const ends = [asking, idle].map((socket) => once(socket, 'error'))
  for (const [error] of await Promise.all(ends)) assert.match(String(error), /did not answer/)
  assert.equal(servers.place.port, 1)
})

await onServerDatabase('several servers of which the first is away', ({ fresh }) => {
  test('after a lost server, reads and transactions use the next one', async () => {
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
})
