/** Tests the load tester on an exchange that requires tokens and settles trades, also over TLS. */

import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createServer } from 'node:tls'
import { runLoad } from '../../loadtest/load.ts'
import { readOptions } from '../../loadtest/options.ts'
import type { LoadReport } from '../../loadtest/report.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'

const RUN_TS = new URL('../../loadtest/run.ts', import.meta.url).pathname
const SMALL = ['--seconds', '3', '--rate', '40', '--traders', '6', '--sockets', '4', '--seed', '3']
/** Options for a run on all markets, including the complementary one, with enough orders for each market. */
const ALL_MARKETS = [...SMALL, '--markets', '100', '--rate', '150']

/** Starts a TLS proxy in front of an exchange; needs openssl. */
async function startTls(t: TestContext, folder: string, to: number): Promise<string> {
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...subject]
  execFileSync('openssl', [...made, '-keyout', key, '-out', cert], { stdio: 'ignore' })
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (client) => {
    const own = connect(to, '127.0.0.1')
    client.pipe(own).pipe(client)
    for (const socket of [client, own]) {
      socket.on('error', () => {
        client.destroy()
        own.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  return `https://localhost:${(server.address() as AddressInfo).port}`
}

/** Returns the kinds of the latest trades of all markets. */
async function kindsOfTrades(url: string): Promise<Set<string | undefined>> {
  const read = async <T>(path: string): Promise<T> =>
    (await (await fetch(`${url}/api/v1/${path}`)).json()) as T
  const { markets } = await read<{ markets: { id: string }[] }>('markets')
  const lists = await Promise.all(
    markets.map(({ id }) => read<{ trades: { kind?: string }[] }>(`trades/${id}`)),
  )
  return new Set(lists.flatMap(({ trades }) => trades.map(({ kind }) => kind)))
}

test('the load test of an exchange with a chain passes, and all trades settle', async (t) => {
  const environment = { SIBYL_AUTH_BEARER: 'true' }
  const exchange = await startExchange(t, { devnet: true, environment })
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-load-devnet-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const count = async (list: string): Promise<number> => {
    const answer = await fetch(`${exchange.url}/api/v1/${list}`)
    return ((await answer.json()) as { count: number }).count
  }

  // The exchange reads its markets from the chain after it has opened.
  await eventually(async () => assert((await count('markets')) >= 3))

  await t.test(
    'on a devnet, the load tester gives every trader funds, and all trades settle',
    async () => {
      const report = await runLoad(readOptions(['--url', exchange.url, ...ALL_MARKETS], 0))
      assert.equal(report.ended, '')
      assert.match(report.funds, /^given to every trader/)
      assert.deepEqual(
        report.truth
          .filter(({ ok, skipped }) => !ok || skipped === true)
          .map(({ name, detail }) => `${name}: ${detail}`),
        [],
      )
      assert(report.passed)
      assert(
        report.server.stages.some(({ stage }) => stage === 'authenticate'),
        'tokens are sent',
      )
      await eventually(async () => assert.equal(await count('pending-trades'), 0))
      assert.equal(await count('failed-trades'), 0)
      const kinds = await kindsOfTrades(exchange.url)
      assert(kinds.has('mint') || kinds.has('merge'), 'the complementary market has trades')
    },
  )

  await t.test('a load test over TLS passes, and receives stream messages', async (t2) => {
    const hasOpenssl = process.env.PATH?.split(':').some((at) => existsSync(join(at, 'openssl')))
    if (hasOpenssl !== true) return t2.skip('openssl is not installed')
    const url = await startTls(t2, folder, Number(new URL(exchange.url).port))
    const out = join(folder, 'secure')
    const args = [...process.execArgv, RUN_TS, '--url', url, '--out', out, ...SMALL]
    const child = spawn(process.execPath, args, {
      env: { ...process.env, NODE_EXTRA_CA_CERTS: join(folder, 'cert.pem') },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let complaints = ''
    child.stderr.on('data', (chunk: Buffer) => {
      complaints += chunk
    })
    const [code] = await once(child, 'close')
    assert.deepEqual([code, complaints], [0, ''])
    const report = JSON.parse(readFileSync(`${out}.json`, 'utf8')) as LoadReport
    assert(report.passed && report.stream.messages > 0)
  })
})
