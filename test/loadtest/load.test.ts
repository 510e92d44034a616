/**
 * Tests the load tester on real exchanges: an honest one, one whose answers a proxy falsifies, and one that is killed.
 */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { compareReports, comparisonText } from '../../loadtest/compare.ts'
import { runLoad } from '../../loadtest/load.ts'
import { type LoadOptions, readOptions } from '../../loadtest/options.ts'
import type { LoadReport } from '../../loadtest/report.ts'
import { reportHtml } from '../../loadtest/report-html.ts'
import { startExchange } from '../support/exchange.ts'
import { type Lie, startLyingProxy } from './lying-proxy.ts'

const RUN_TS = new URL('../../loadtest/run.ts', import.meta.url).pathname

function optionsFor(url: string, ...more: string[]): LoadOptions {
  const args = ['--url', url, '--profile', 'smoke', '--seconds', '2', '--rate', '60']
  return readOptions([...args, '--traders', '6', '--sockets', '6', '--seed', '3', ...more], 0)
}

async function cli(args: readonly string[], shell = '') {
  const command = [process.execPath, ...process.execArgv, RUN_TS, ...args]
  const child =
    shell === ''
      ? spawn(command[0]!, command.slice(1))
      : spawn('sh', ['-c', `${shell}; exec "$0" "$@"`, ...command])
  let [output, complaints] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk
  })
  child.stderr.on('data', (chunk: Buffer) => {
    complaints += chunk
  })
  const [code] = await once(child, 'close')
  return { code, output, complaints }
}

const wrongIn = ({ truth }: LoadReport): string[] =>
  truth.filter(({ ok }) => !ok).map(({ name }) => name)

test('the load tester passes a correct exchange, detects wrong answers, and compares the reports of several runs', async (t) => {
  const exchange = await startExchange(t, { environment: { SIBYL_DEMO_MARKETS_MORE: '5' } })
  const { url } = exchange
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-load-test-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  let honest: LoadReport

  await t.test(
    'an exchange that answers correctly passes the load test, and the report contains its measurements',
    async () => {
      honest = await runLoad(optionsFor(url, '--markets', '8'))
      assert.equal(honest.ended, '')
      assert.deepEqual(wrongIn(honest), [])
      assert(honest.passed)
      assert.equal(honest.marketsUsed, 8)
      const fine = honest.kinds.reduce((sum, kind) => sum + kind.fine, 0)
      const planned = honest.kinds.reduce((sum, kind) => sum + kind.planned, 0)
      assert.equal(fine, planned)
      assert(planned > 60 && honest.seconds.length > 0)
      assert(honest.stream.messages > 0 && honest.server.cpuSeconds > 0)
      const stages = honest.server.stages.map(({ stage }) => stage)
      assert.deepEqual(stages, ['parse', 'verify', 'queue', 'match', 'commit', 'answer'])
    },
  )

  await t.test('the report page of the load tester has every plot and loads no other files', () => {
    const hostile = '<script>alert(1)</script>'
    const html = reportHtml({ ...honest, ended: hostile })
    assert(!html.includes(hostile) && html.includes('&lt;script&gt;'))
    assert(!/<(script|link|img)|url\(|@import|src=|href=/.test(html))
    for (const title of ['Truth', 'Throughput', 'distribution', 'Errors', 'spends its time']) {
      assert(html.includes(title), title)
    }
    assert((html.match(/<svg /g) ?? []).length >= 5)
    assert.equal((html.match(/<svg /g) ?? []).length, (html.match(/<\/svg>/g) ?? []).length)
    assert.doesNotMatch(html, /NaN|Infinity|undefined/)
  })

  await t.test('two load test runs are compared by their medians', () => {
    const slower = {
      ...honest,
      server: { ...honest.server, cpuMsPerWrite: honest.server.cpuMsPerWrite * 2 },
    }
    const { rows, warnings } = compareReports([honest, honest, slower], [slower, slower, honest])
    const cpu = rows.find(({ name }) => name === 'server CPU, ms per write')
    assert.equal(cpu?.change, 1)
    assert(!warnings.some((warning) => warning.includes('differ')))
    const other = { ...honest, options: { ...honest.options, rate: 7 } }
    assert.match(
      comparisonText(compareReports([honest], [other])),
      /the runs differ in rate: 60, 7/,
    )
  })

  let orders = 0
  let deltas = 0
  const lies: Record<string, { lie: Lie; found: string }> = {
    'an order is accepted and forgotten': {
      lie: {
        async answer(method, path, body) {
          if (method !== 'POST' || path !== '/api/v1/orders' || ++orders !== 20) return undefined
          const headers = { 'content-type': 'application/json' }
          const asked = await fetch(`${url}/api/v1/orders/validate`, { method, headers, body })
          const { orderHash } = (await asked.json()) as { orderHash: string }
          return { orderHash, status: 'accepted', matches: 0, timestamp: 1_800_000_000 }
        },
      },
      found: 'accepted orders are found',
    },
    'a book shows too large a size': {
      lie: {
        change: (_method, path, body) =>
          path.startsWith('/api/v1/orderbook/') ? body.replace(/"size":/, '"size":1') : body,
      },
      found: 'books of the stream are the books of REST',
    },
    'a message of the stream is left out': {
      lie: { passes: (message) => !message.includes('"book.delta"') || ++deltas !== 30 },
      found: 'no gap goes unnoticed',
    },
    'an answer reports a match that did not happen': {
      lie: {
        change: (method, path, body) =>
          method === 'POST' && path === '/api/v1/orders'
            ? body.replace('"matches":0', '"matches":1')
            : body,
      },
      found: 'trades add up',
    },
  }
  for (const [name, { lie, found }] of Object.entries(lies)) {
    await t.test(`the load tester finds the fault if ${name}`, async (t2) => {
      const proxy = await startLyingProxy(url, lie)
      t2.after(() => proxy.close())
      const report = await runLoad(optionsFor(proxy.url, '--seconds', '1', '--rate', '120'), {
        quietMs: 300,
      })
      assert.equal(report.ended, '')
      assert(wrongIn(report).includes(found), wrongIn(report).join())
      assert(!report.passed)
    })
  }

  await t.test(
    'if the process has too few file handles, the load tester prints one line and fails',
    async () => {
      const out = join(folder, 'handles')
      const args = ['--url', url, '--sockets', '300', '--seconds', '1', '--out', out]
      const { code, complaints } = await cli(args, 'ulimit -n 120')
      assert.equal(code, 1)
      assert.match(complaints, /^load: no file handles left for 300 sockets .*ulimit -n\n$/)
      const report = JSON.parse(await readFile(`${out}.json`, 'utf8')) as LoadReport
      assert(!report.passed)
    },
  )

  await t.test(
    'if the exchange dies during the run, the load tester prints one line and the figures so far',
    async () => {
      let died: Promise<void> | undefined
      const report = await runLoad(optionsFor(url, '--seconds', '20'), {
        second: () => {
          died ??= exchange.kill()
        },
      })
      await died
      assert.match(report.ended, /^the exchange went away after [\d.]+ s: /)
      assert(!report.passed)
      assert(report.kinds.some(({ fine }) => fine > 0))
      assert(reportHtml(report).includes('went away'))
    },
  )

  await t.test('without an exchange, the load tester prints one line and fails', async () => {
    const out = join(folder, 'nobody')
    const { code, complaints } = await cli(['--url', url, '--out', out])
    assert.equal(code, 1)
    assert.match(complaints, /^load: http:\S+ cannot be reached: connect ECONNREFUSED .*\n$/)
    assert(!existsSync(`${out}.json`) && !existsSync(`${out}.html`))
  })
})

test('the load tester prints one line and exits with code 2 if an option is invalid', async () => {
  for (const [args, line] of [
    [['--profile', 'huge'], /^load: there is no profile "huge"; the profiles are smoke, .*\n$/],
    [['--rate', '-5'], /^load: --rate must be a number from .*, not "-5"\n$/],
    [['--url', 'exchange.example'], /^load: --url must be like http:.* or https:.*\n$/],
    [['--sockets', '1.5'], /^load: --sockets must be a whole number .*\n$/],
    [['--url', 'ftp://x'], /^load: --url must be like .*\n$/],
    [['--fast'], /^load: Unknown option '--fast'; --help .*\n$/],
  ] as const) {
    assert.throws(
      () => readOptions(args, 0),
      (error: Error) => {
        assert.match(`load: ${error.message}\n`, line)
        return true
      },
    )
  }
  const nowhere = await cli(['--out', `${RUN_TS}/report`])
  assert.deepEqual([nowhere.code, nowhere.output], [2, ''])
  assert.equal(nowhere.complaints, `load: --out: ${RUN_TS} is a file, not a folder\n`)
  const { code, complaints, output } = await cli(['--profile', 'huge'])
  assert.deepEqual([code, output], [2, ''])
  assert.match(complaints, /^load: there is no profile "huge"; .*\n$/)
})
