import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import { describeDatabaseUrl, parseDatabaseUrl } from '#store/engine/database-url.ts'

test('a database URL that begins with sqlite: names a file, relative to the working directory', () => {
  assert.deepEqual(parseDatabaseUrl('sqlite:data/sibyl.db'), {
    dialect: 'sqlite',
    path: resolve('data/sibyl.db'),
  })
  assert.deepEqual(parseDatabaseUrl('sqlite:/var/sibyl.db'), {
    dialect: 'sqlite',
    path: '/var/sibyl.db',
  })
})

test('the URL of a database server has user, password, port and database', () => {
  assert.deepEqual(parseDatabaseUrl('mysql://ann:p%40ss%2Fword@db.example:3307/sibyl?tls=true'), {
    dialect: 'mysql',
    host: 'db.example',
    port: 3307,
    user: 'ann',
    password: 'p@ss/word',
    name: 'sibyl',
    tls: true,
  })
  assert.deepEqual(parseDatabaseUrl('mysql://root@[::1]/sibyl'), {
    dialect: 'mysql',
    host: '::1',
    port: 3306,
    user: 'root',
    password: '',
    name: 'sibyl',
    tls: false,
  })
})

test('the URL of a database with TLS may name the file of trusted certificates', () => {
  const address = parseDatabaseUrl('mysql://ann@db.one,db.two/sibyl?tls=true&ca=/etc/ca.pem')
  assert.deepEqual(
    { ...address },
    {
      dialect: 'mysql',
      host: 'db.one',
      port: 3306,
      others: [{ host: 'db.two', port: 3306 }],
      user: 'ann',
      password: '',
      name: 'sibyl',
      tls: true,
      caFile: '/etc/ca.pem',
    },
  )
})

test('a database URL can list all servers of a cluster, separated by commas', () => {
  const text = 'mysql://ann:p%2Cw@db.one:3307,db.two,[::1]:3308/sibyl'
  const address = parseDatabaseUrl(text)
  assert.deepEqual(address, {
    dialect: 'mysql',
    host: 'db.one',
    port: 3307,
    others: [
      { host: 'db.two', port: 3306 },
      { host: '::1', port: 3308 },
    ],
    user: 'ann',
    password: 'p,w',
    name: 'sibyl',
    tls: false,
  })
  assert.equal(describeDatabaseUrl(text), 'mysql://ann@db.one:3307,db.two:3306,::1:3308/sibyl')
})

test('an invalid database URL is refused with an error message that does not contain the URL', () => {
  const wrong = [
    '',
    'sqlite:',
    'sqlite::memory:',
    'sqlite://data/sibyl.db',
    'postgres://ann:secret@db/sibyl',
    'mysql://ann:secret@db:port/sibyl',
    'mysql://ann:secret@db',
    'mysql://ann:secret@db,/sibyl',
    'mysql://ann:secret@db,other:port/sibyl',
    'mysql://ann:secret@db,ann:secret@other/sibyl',
    'mysql://ann:secret@db/',
    'mysql://ann:secret@db/a/b',
    'mysql://ann:secret@db/a`b',
    'mysql://ann:secret%zz@db/sibyl',
    'mysql://ann:secret@db/sibyl?multipleStatements=true',
    'mysql://ann:secret@db/sibyl?tls=perhaps',
    'mysql://ann:secret@db/sibyl?ca=/etc/ca.pem',
    'mysql://ann:secret@127.0.0.1/sibyl?tls=true',
    'mysql://ann:secret@db,[::1]/sibyl?tls=true',
  ]
  for (const url of wrong) {
    assert.throws(
      () => parseDatabaseUrl(url),
      (error) => {
        assert(error instanceof Fault)
        assert.equal(error.code, 'STORE_URL_INVALID')
        assert.equal(error.retryable, false)
        assert.doesNotMatch(`${error.message}${error.stack}`, /secret/)
        assert.equal(error.cause, undefined)
        return true
      },
      url,
    )
  }
})

test('a database URL is shown without its password', () => {
  assert.equal(describeDatabaseUrl('mysql://ann:secret@db:3307/sibyl'), 'mysql://ann@db:3307/sibyl')
  assert.equal(describeDatabaseUrl('sqlite:/var/sibyl.db'), 'sqlite:/var/sibyl.db')
})
