import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import BetterSqlite3 from 'better-sqlite3'
import { loadSettings } from '#config/settings.ts'
import { databaseUrlOf } from '#config/thread-data.ts'
import { prepareDatabase } from '../../src/boot/prepare-database.ts'
import { tradeOverThreads } from '../api/orders-threads.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { TEST_FLAGS } from '../support/test-flags.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Runs the exchange until it exits, and returns its output. */
function runToEnd(
  environment: Record<string, string>,
  args: readonly string[] = [],
): Promise<{ code: number; said: string }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-start-'))
  return new Promise((resolve) => {
    const flags = [...process.execArgv, ...TEST_FLAGS]
    const child = spawn(process.execPath, [...flags, 'src/main.cjs', ...args], {
      cwd: ROOT,
      env: {
        PATH: process.env.PATH ?? '',
        SIBYL_DATA_DIR: dataDir,
        SIBYL_DEVNET: 'false',
        ...environment,
      },
    })
    let said = ''
    const hear = (chunk: Buffer): void => {
      said += chunk.toString()
    }
    child.stdout.on('data', hear)
    child.stderr.on('data', hear)
    child.once('close', (code) => {
      rmSync(dataDir, { recursive: true, force: true })
      resolve({ code: code ?? -1, said })
    })
  })
}

/**
 * Prepares the database as an exchange does at its start, and returns the error's message. If a start fails in this
 * step, the exchange prints the same message on one line.
 */
function databaseRefusal(environment: Record<string, string>): Promise<string> {
  const settings = loadSettings({ SIBYL_DEVNET: 'false', ...environment })
  const run = { signal: new AbortController().signal, log: { warn: () => {} } }
  return prepareDatabase(databaseUrlOf(settings), settings, run).then(
    () => assert.fail('it was prepared'),
    (error: Error) => error.message,
  )
}

type Ready = { readonly status: string; readonly checks: object }

/** Returns the names of a start's steps, read from the human-readable output. */
function stepsIn(output: string): readonly string[] {
  return output.match(/(?<=^ +[0-9.]+ s {2}).*(?= …$)/gm) ?? []
}

test('an exchange can be started and stopped repeatedly', async (t) => {
  const exchange = await startExchange(t, {
    environment: {
      SIBYL_FRONT_THREADS: '2',
      SIBYL_MARKET_THREADS: '3',
      SIBYL_LOG_LEVEL: 'debug',
    },
    outputCharsMax: 1_000_000,
  })
  const markets = async () =>
    (await (await fetch(`${exchange.url}/api/v1/markets`)).json()) as { markets: { id: string }[] }
  let before = await markets()

  await t.test('starting an exchange prints its addresses and commands to try', async () => {
    const { url } = exchange
    await eventually(() => {
      for (const words of ['Sibyl', url, 'threads', 'database', 'signatures', 'curl', '/docs']) {
        assert(exchange.output().includes(words), `the banner says ${words}`)
      }
    })
    const { status, checks } = (await (await fetch(`${url}/readyz`)).json()) as Ready
    assert.equal(status, 'ready')
    assert.ok(Object.keys(checks).length > 0, 'only this machine can reach it, so it gives details')
  })

  await t.test(
    'a request id appears in the logs of every thread that handles the request',
    async () => {
      const path = `/api/v1/orders/0x${'1'.repeat(64)}?marketId=${before.markets[0]?.id}`
      const headers = { 'x-request-id': 'follow-me-through' }
      const answer = await fetch(exchange.url + path, { method: 'DELETE', headers })
      assert.equal(answer.status, 404)
      await eventually(() => {
        const lines = exchange.output().split('\n')
        const found = lines.find((line) => line.includes('"requestId":"follow-me-through"'))
        assert.match(found ?? '', /"thread":"market-[012]"/)
      })
    },
  )

  let sameTrading = async (): Promise<void> => assert.fail('nothing was traded')
  await t.test(
    'clients see one exchange although several front and market threads serve it',
    async () => {
      sameTrading = await tradeOverThreads(exchange)
      before = await markets()
    },
  )

  await t.test(
    'only the operating-system user of an exchange can read its files and folders',
    () => {
      const others: string[] = []
      let files = 0
      for (const name of readdirSync(exchange.dataDir, { recursive: true, encoding: 'utf8' })) {
        // The exchange may have removed the file after the folder was listed.
        const found = statSync(join(exchange.dataDir, name), { throwIfNoEntry: false })
        if (found === undefined) continue
        files++
        if ((found.mode & 0o077) !== 0) others.push(`${name} ${(found.mode & 0o777).toString(8)}`)
      }
      assert.ok(files > 5, `${files} were looked at`)
      assert.deepEqual(others, [])
    },
  )

  await t.test('a second exchange on the same data folder is refused', async () => {
    const { code, said } = await runToEnd({
      SIBYL_PORT: '0',
      SIBYL_DATA_DIR: exchange.dataDir,
      SIBYL_LOG_LEVEL: 'silent',
    })
    assert.equal(code, 1)
    assert.match(said, /^sibyl: market-0 did not start: [^\n]+\n$/)
    assert.equal((await fetch(`${exchange.url}/readyz`)).status, 200)
  })

  await t.test(
    'stopping an exchange completes the requests in flight and exits with code 0',
    async () => {
      const requests = Array.from({ length: 20 }, () => fetch(`${exchange.url}/api/v1/markets`))
      const answers = await Promise.all(requests)
      assert(answers.every(({ status }) => status === 200))
      // The client has not read the bodies of the answers, so its connections are still open at the stop.
      await exchange.stop()
    },
  )

  await t.test('starting an exchange with JSON output prints no steps', () => {
    assert.deepEqual(stepsIn(exchange.output()), [])
  })

  await t.test(
    'restarting an exchange on its data folder prints each step and finds the existing markets',
    async () => {
      // The exchange restarts with another number of threads. Each market must stay in its partition.
      await exchange.start({
        SIBYL_FRONT_THREADS: '1',
        SIBYL_MARKET_THREADS: '2',
        SIBYL_LOG_FORMAT: 'pretty',
        // With a trusted proxy, public clients can reach `/readyz`, so it shows no details.
        SIBYL_TRUSTED_PROXIES: '192.0.2.1',
        SIBYL_ALLOW_OPEN_WRITES: 'true',
      })
      const ready = await (await fetch(`${exchange.url}/readyz`)).json()
      assert.deepEqual(ready, { status: 'ready', checks: {} })
      await sameTrading()
      assert.deepEqual(await markets(), before)
      await exchange.stop()
      const [first = '', ...rest] = stepsIn(exchange.output())
      assert.match(first, /^starting Sibyl \d+\.\d+\.\d+ \(devnet\)$/)
      assert.deepEqual(rest, [
        'preparing the database',
        'starting the threads',
        'waiting until every part is ready',
      ])
    },
  )

  await t.test(
    'an exchange refuses a data folder written by a newer version, advises what to do, and leaves the folder unchanged',
    async () => {
      const { dataDir } = exchange
      const start = () =>
        runToEnd({ SIBYL_PORT: '0', SIBYL_DATA_DIR: dataDir, SIBYL_LOG_LEVEL: 'silent' })

      const path = join(dataDir, 'log', 'log.json')
      const before = readFileSync(path, 'utf8')
      const newer = before.replace(
        /"format":\s*(\d+)/,
        (_, format: string) => `"format":${+format + 1}`,
      )
      writeFileSync(path, newer)
      const refusedLog = await start()
      assert.equal(refusedLog.code, 1)
      assert.match(
        refusedLog.said,
        /^sibyl: [^\n]*log\.json has format \d+, and this version [^\n]*: start the newer version that wrote it, or restore a backup[^\n]*\n$/,
      )
      assert.equal(readFileSync(path, 'utf8'), newer)
      writeFileSync(path, before)

      const database = new BetterSqlite3(join(dataDir, 'sibyl.db'))
      database.exec("insert into migrations (name) values ('999-later')")
      database.close()
      assert.equal(
        await databaseRefusal({ SIBYL_DATA_DIR: dataDir }),
        'the database was written by a newer version with the migration 999-later: start that version, or restore a backup from before it',
      )
    },
  )
})

test('starting an exchange with an invalid setting prints one line and fails', async () => {
  const { code, said } = await runToEnd({ SIBYL_PORT: 'eighty' })
  assert.equal(code, 1)
  assert.equal(said, 'sibyl: SIBYL_PORT: must be an integer from 0 to 65535, but it is "eighty"\n')
})

test('if the data folder cannot be created, the exchange prints one line and exits with code 1', async (t) => {
  if (!existsSync('/proc/self')) return t.skip('there is no /proc here')
  const { code, said } = await runToEnd({ SIBYL_PORT: '0', SIBYL_DATA_DIR: '/proc/sibyl' })
  assert.equal(code, 1)
  assert.match(said, /^sibyl: SIBYL_DATA_DIR: \/proc\/sibyl cannot be used: [^\n]+\n$/)
})

test('if the port is in use, starting an exchange prints one line and fails', async () => {
  const server = createServer()
  const port = await new Promise<number>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port))
  })
  const { code, said } = await runToEnd({ SIBYL_PORT: String(port) })
  server.close()
  assert.equal(code, 1)
  const hint = 'the port is in use; set SIBYL_PORT to another port'
  assert.equal(said, `sibyl: cannot listen on 127.0.0.1:${port}: ${hint}\n`)
})

test('if the database is unreachable, starting an exchange fails and prints one line without the password', async () => {
  const said = await databaseRefusal({
    SIBYL_DATABASE_URL: 'mysql://sibyl:hunter2@127.0.0.1:1/sibyl',
  })
  assert.match(said, /^[^\n]+$/)
  assert(!said.includes('hunter2'))
})

test('the command that prints the settings prints no secrets', async () => {
  const environment = { SIBYL_DATABASE_URL: 'mysql://a:hunter2@b/c' }
  const { code, said } = await runToEnd(environment, ['--settings'])
  assert.equal(code, 0)
  assert.match(said, /^SIBYL_PORT = 8080 {2}# default$/m)
  assert.match(said, /^SIBYL_DATABASE_URL = "\(set\)" {2}# environment$/m)
})
