/**
 * Tests connections to a database server whose defaults differ from those that a log needs. The server does not commit
 * automatically, and uses TLS with its own certificate. If the provider is installed, the server is a Galera cluster of
 * one.
 */

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Transaction } from '@mikro-orm/core'
import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import {
  type DatabaseServers,
  missingServers,
  openDatabaseServers,
} from '#devnet/cluster/database-servers.ts'
import { openMysqlLog } from '#log/server/mysql-log.ts'
import { MysqlServer, parseMysqlAddress } from '#log/server/mysql-server.ts'
import { closeDatabase, read, transact } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { randomFrom } from '../support/random.ts'
import { servicesRequired } from '../support/required-services.ts'
import { fault } from './conformance.ts'
import { marketNamed, type Noted, notes } from './flow.ts'

const PROVIDER = '/usr/lib/galera/libgalera_smm.so'
const NOW = 1_790_000_000_000
const note = notes(marketNamed(randomFrom(9)))
const missing = servicesRequired ? undefined : missingServers(1)
const isCluster = existsSync(PROVIDER)

describe('the log does not depend on the default settings of the database server', {
  skip: missing ?? false,
}, () => {
  let folder: string
  let servers: DatabaseServers
  /** The server's address with the host name of its certificate. */
  let named: string

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sibyl-mysql-tls-'))
    chmodSync(folder, 0o755)
    makeCertificate('server', 'localhost')
    makeCertificate('other', 'localhost')
    servers = await openDatabaseServers(1, [
      ...['--autocommit=0', `--ssl-cert=${file('server.pem')}`, `--ssl-key=${file('server.key')}`],
      ...(isCluster
        ? ['--wsrep-on=ON', `--wsrep-provider=${PROVIDER}`, '--wsrep-cluster-address=gcomm://']
        : []),
      ...(isCluster ? ['--binlog-format=ROW', '--innodb-autoinc-lock-mode=2'] : []),
      ...(isCluster
        ? ['--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:0;pc.recovery=false']
        : []),
    ])
    named = servers.url().replace('127.0.0.1', 'localhost')
  })

  after(async () => {
    await servers?.dispose()
    rmSync(folder, { recursive: true, force: true })
  })

  const file = (name: string): string => join(folder, name)

  function makeCertificate(name: string, host: string): void {
    execFileSync(
      'openssl',
      [
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
        ...['-keyout', file(`${name}.key`), '-out', file(`${name}.pem`), '-days', '2'],
        ...['-subj', `/CN=${host}`, '-addext', `subjectAltName=DNS:${host}`],
      ],
      { stdio: 'ignore' },
    )
    chmodSync(file(`${name}.key`), 0o644)
  }

  async function onLogServer<Answer>(
    url: string,
    ask: (server: MysqlServer) => Promise<Answer>,
  ): Promise<Answer> {
    const server = new MysqlServer(parseMysqlAddress(url)!)
    try {
      return await ask(server)
    } finally {
      await server.close()
    }
  }

  test('an acknowledged append is durable even if the database server has autocommit turned off', async () => {
    const log = await openMysqlLog<Noted>({
      ...{ url: servers.url(), dataDir: file('data'), partitions: 1, own: [0] },
      checkpointThread: false,
    })
    await log.append(0, { events: [note(1)], nowMs: NOW })
    const [row] = await onLogServer(servers.url(), (server) =>
      server.rows<{ events: number }>('SELECT SUM(events) AS events FROM log'),
    )
    await log.close()
    assert.equal(Number(row?.events), 1)
  })

  test('a single SQL statement is committed even if the database server has autocommit turned off', async () => {
    const database = await openDatabase(servers.url(0, 'sibyl'))
    const run = (sql: string) =>
      transact(database, (transaction, connection) =>
        connection.execute(sql, [], 'run', transaction),
      )
    await run('create table if not exists kept (id int primary key) engine = innodb')
    await read(database, (em) =>
      em.getConnection().execute('insert into kept values (1)', [], 'run'),
    )
    await closeDatabase(database)
    const found = await onLogServer(servers.urlOf(0, 'sibyl'), (server) =>
      server.rows('SELECT id FROM kept'),
    )
    assert.deepEqual(found, [{ id: 1 }])
  })

  test('on a Galera cluster, every statement waits for earlier acknowledged writes of other servers', {
    skip: isCluster ? false : 'galera-4 is not installed',
  }, async () => {
    const [row] = await onLogServer(servers.url(), (server) =>
      server.rows<{ wait: number }>('SELECT @@SESSION.wsrep_sync_wait AS wait'),
    )
    assert.equal(row?.wait, 7)
    // With a load balancer, an address with one host can also lead to all servers.
    const one = servers.urlOf(0, 'sibyl')
    for (const url of [one, one.replace(/@(.*)\//, '@$1,$1/')]) {
      const database = await openDatabase(url)
      const found = await read(database, (em) =>
        em.getConnection().execute('select @@session.wsrep_sync_wait as wait'),
      )
      await closeDatabase(database)
      assert.deepEqual(found, [{ wait: 7 }])
    }
  })

  /** Locks a row of the table `locked` in a separate transaction while the work runs. */
  async function whileLocked(work: () => Promise<void>): Promise<void> {
    const holder = await openDatabase(servers.url(0, 'sibyl'))
    const run = (sql: string) => (transaction: Transaction, connection: AbstractSqlConnection) =>
      connection.execute(sql, [], 'run', transaction)
    await transact(holder, run('create table if not exists locked (id int primary key)'))
    await transact(holder, run('insert ignore into locked values (1)'))
    await transact(holder, async (transaction, connection) => {
      await run('select id from locked for update')(transaction, connection)
      await work()
    })
    await closeDatabase(holder)
  }

  // After a Galera server was away from its cluster, its old sessions may answer every statement with a lock wait
  // error.
  test('after a lock wait error, the log connects to the next server in its address', async () => {
    const url = servers.urlOf(0, 'sibyl')
    const twice = url.replace(/@(.*)\//, '@$1,$1/')
    await whileLocked(async () => {
      await onLogServer(twice, async (server) => {
        const session = () => server.rows('SELECT CONNECTION_ID() AS id')
        const before = await session()
        assert.deepEqual(await session(), before)
        await assert.rejects(server.rows('SELECT id FROM locked FOR UPDATE NOWAIT'), {
          errno: 1205,
        })
        assert.notDeepEqual(await session(), before)
      })
    })
  })

  test('after a lock wait error, the database connection uses the next server in its address', async () => {
    const twice = servers.urlOf(0, 'sibyl').replace(/@(.*)\//, '@$1,$1/')
    const database = await openDatabase(twice, { connectionsMax: 1 })
    const session = () =>
      read(database, (em) => em.getConnection().execute('select connection_id() as id'))
    await whileLocked(async () => {
      const before = await session()
      assert.deepEqual(await session(), before)
      await assert.rejects(
        transact(database, (transaction, connection) =>
          connection.execute('select id from locked for update nowait', [], 'all', transaction),
        ),
        fault('STORE_UNAVAILABLE'),
      )
      assert.notDeepEqual(await session(), before)
    })
    await closeDatabase(database)
  })

  const cipherOf = (url: string) =>
    onLogServer(url, async (server) => {
      const [row] = await server.rows<{ Value: string }>("SHOW STATUS LIKE 'Ssl_cipher'")
      return row?.Value ?? ''
    })

  test('the log and the database use TLS if the certificate is trusted and names the host', async () => {
    assert.equal(await cipherOf(named), '')
    assert.notEqual(await cipherOf(`${named}?tls=true&ca=${file('server.pem')}`), '')
    const database = await openDatabase(`${named}?tls=true&ca=${file('server.pem')}`)
    const [row] = await read(database, (em) =>
      em.getConnection().execute<{ Value: string }[]>("show status like 'Ssl_cipher'"),
    )
    await closeDatabase(database)
    assert.notEqual(row?.Value, '')
  })

  test('the log and the database close the connection if the certificate is untrusted or names another host', async () => {
    const isRefused = { message: /certificate|altname/i }
    await assert.rejects(cipherOf(`${named}?tls=true`), isRefused)
    await assert.rejects(cipherOf(`${named}?tls=true&ca=${file('other.pem')}`), isRefused)
    await assert.rejects(
      cipherOf(`${named}?tls=true&ca=${file('none.pem')}`),
      fault('LOG_URL_INVALID'),
    )
    const database = await openDatabase(`${named}?tls=true&ca=${file('other.pem')}`)
    await assert.rejects(
      read(database, (em) => em.getConnection().execute('select 1')),
      isRefused,
    )
    await closeDatabase(database)
    makeCertificate('server', 'elsewhere.example')
    await onLogServer(servers.url(), (server) => server.change('FLUSH SSL'))
    await assert.rejects(cipherOf(`${named}?tls=true&ca=${file('server.pem')}`), isRefused)
  })
})
