/**
 * Gives a test a new database of either kind: a SQLite file in its own folder, or a MySQL or MariaDB database with a
 * random name on the server of `SIBYL_TEST_MYSQL_URL`. The database is removed when the test file ends.
 *
 * If no server answers, tests that need the server are skipped with the reason. With `CI` or
 * `SIBYL_TEST_REQUIRE_SERVICES` set, they fail instead. With `SIBYL_TEST_SERVER=false`, as in `npm run test:fast`, they
 * do not run.
 */

import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { MikroORM } from '@mikro-orm/mysql'
import { emptied, makeMigratedFile, migrateNew } from './migrated-database.ts'
import { servicesRequired } from './required-services.ts'

export const TEST_MYSQL_URL = process.env.SIBYL_TEST_MYSQL_URL ?? 'mysql://root@127.0.0.1:3306'

const serverWanted = process.env.SIBYL_TEST_SERVER !== 'false'
const serverRequired = serverWanted && servicesRequired

export type TestDatabases = {
  readonly dialect: 'sqlite' | 'mysql'
  /** Returns the address of a new, empty database. */
  readonly fresh: () => Promise<string>
  /** Returns the address of a database that has its tables and no rows. */
  readonly migrated: () => Promise<string>
  /**
   * Gives back a migrated database that the test no longer needs, so that another test may use it. The test must not
   * have changed its schema.
   */
  readonly giveBack: (url: string) => void
}

/** Runs the same tests against SQLite and against the server. */
export async function onBothDatabases(
  name: string,
  tests: (databases: TestDatabases) => void,
): Promise<void> {
  // The server is checked before any test starts, because running tests would delay its answer.
  const missing = await missingServer()
  describe(`${name}, on SQLite`, () => tests(sqliteDatabases()))
  describeOnServer(name, missing, tests)
}

/** Runs the tests against the server only. */
export async function onServerDatabase(
  name: string,
  tests: (databases: TestDatabases) => void,
): Promise<void> {
  describeOnServer(name, await missingServer(), tests)
}

function describeOnServer(
  name: string,
  missing: string | undefined,
  tests: (databases: TestDatabases) => void,
): void {
  describe(`${name}, on MariaDB`, () => {
    if (missing === undefined) return tests(serverDatabases())
    it('this group of tests needs a MySQL or MariaDB server', {
      skip: serverRequired ? false : missing,
    }, () => {
      throw new Error(missing)
    })
  })
}

/** Runs a statement on the server as its administrator. */
export async function onServer<Row = unknown>(statement: string): Promise<Row[]> {
  const orm = await MikroORM.init({
    ...serverOptions(),
    dbName: 'information_schema',
    entities: [],
    discovery: { warnWhenNoEntities: false },
    ensureDatabase: false,
    logger: () => {},
    // A long timeout, because a busy server or machine may take long to answer. If no server runs, the connection is
    // refused at once, so the timeout does not matter.
    driverOptions: { connectTimeout: 60_000 },
  })
  try {
    return (await orm.em.getConnection().execute(statement)) as Row[]
  } finally {
    await orm.close(true)
  }
}

function sqliteDatabases(): TestDatabases {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-store-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  const newPath = (): string => join(folder, `${randomBytes(6).toString('hex')}.db`)
  return {
    dialect: 'sqlite',
    fresh: async () => `sqlite:${newPath()}`,
    async migrated() {
      const path = newPath()
      await makeMigratedFile(path)
      return `sqlite:${path}`
    },
    // A copy costs nothing.
    giveBack: () => {},
  }
}

function serverDatabases(): TestDatabases {
  const names: string[] = []
  after(async () => {
    for (const name of names) await onServer(`drop database if exists ${name}`)
  })
  const idle: string[] = []
  async function fresh(): Promise<string> {
    const name = `sibyl_test_${randomBytes(6).toString('hex')}`
    names.push(name)
    await onServer(`create database ${name}`)
    const url = new URL(TEST_MYSQL_URL)
    url.pathname = name
    return url.href
  }
  return {
    dialect: 'mysql',
    fresh,
    async migrated() {
      const used = idle.pop()
      if (used !== undefined && (await emptied(used))) return used
      const url = await fresh()
      await migrateNew(url)
      return url
    },
    giveBack: (url) => void idle.push(url),
  }
}

async function missingServer(): Promise<string | undefined> {
  if (!serverWanted) return 'SIBYL_TEST_SERVER=false leaves it out'
  try {
    await onServer('select 1')
    return undefined
  } catch (error) {
    const { host, port } = serverOptions()
    const code = (error as { code?: string }).code ?? 'no answer'
    return `no MySQL or MariaDB server at ${host}:${port} (${code}); set SIBYL_TEST_MYSQL_URL`
  }
}

function serverOptions() {
  const url = new URL(TEST_MYSQL_URL)
  return {
    host: url.hostname,
    port: url.port === '' ? 3306 : Number(url.port),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
  }
}
