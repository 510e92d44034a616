/** Runs the conformance check on our exchange, and on servers that break the contract in one way each. */

import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { createClient } from '#client/client.ts'
import { devnetKey } from '#devnet/accounts.ts'
import type { Exchange } from '../support/exchange.ts'
import { type Faults, type ProxiedAnswer, startBrokenProxy } from './broken-proxy.ts'
import { callSibyl } from './call-sibyl.ts'

type Report = {
  readonly ok: number
  readonly failed: number
  readonly skipped: number
  readonly results: readonly { id: string; result: string; why?: string; expected?: string }[]
}

const TRADER = 13

type Breach = {
  /** Requests whose answers are changed. */
  readonly on: RegExp
  readonly change: (answer: ProxiedAnswer) => ProxiedAnswer
  /** `line` is the id of the check that must fail, and `why` matches its message. */
  readonly line: string
  readonly why: RegExp
}

const inBody = (change: (body: string) => string) => (answer: ProxiedAnswer) => ({
  ...answer,
  body: change(answer.body),
})

/** Each breaks the contract in one way. */
const BREACHES: readonly Breach[] = [
  {
    // The OpenAPI document lacks a field that answers have.
    on: /^GET \/openapi.json$/,
    change: inBody((body) => body.replaceAll('"topHolders":', '"holders":')),
    line: 'docs.openapi',
    why: /saw \["GET \/api\/v1\/holders\/\{marketId\} topHolders"/,
  },
  {
    // A field that is dropped.
    on: /^GET \/api\/v1\/markets$/,
    change: inBody((body) => body.replaceAll('"question":', '"q":')),
    line: 'markets.list',
    why: /expected the answer\.markets\[0\]\.question to be text, saw nothing/,
  },
  {
    // A market that a page leaves out.
    on: /^GET \/api\/v1\/markets\?limit=2&cursor/,
    change: inBody((body) => body.replace(/"id":"0x..../, '"id":"0xaaaa')),
    line: 'markets.pages',
    why: /expected markets left out \[\], saw \["0x/,
  },
  {
    // A status that is wrong.
    on: /^GET \/api\/v1\/markets\/0x1{64}/,
    change: (answer) => ({ ...answer, status: 200 }),
    line: 'markets.unknown',
    why: /expected status 404, saw 200/,
  },
  {
    // The error does not name its field.
    on: /^GET \/api\/v1\/orders$/,
    change: inBody((body) => body.replace(',"field":"trader"', '')),
    line: 'reads.validation',
    why: /expected field "?trader"?, saw nothing/,
  },
  {
    // An implied level that is not marked.
    on: /^GET \/api\/v1\/orderbook\/\w+\?outcome=NO&implied=true/,
    change: inBody((body) => body.replaceAll('"implied":', '"part":')),
    line: 'matching.implied-order',
    why: /expected the implied ask\.implied to be an integer from 0 on, saw nothing/,
  },
  {
    // The repeated order gets another hash.
    on: /^POST \/api\/v1\/orders$/,
    change: inBody((body) =>
      body.includes('"duplicate":true') ? body.replace(/("orderHash":"0x).{4}/, '$10000') : body,
    ),
    line: 'orders.resubmit',
    why: /expected orderHash 0x\w+, saw 0x0000/,
  },
  {
    // Words that are others.
    on: /^DELETE/,
    change: inBody((body) => body.replace('token expired', 'too late')),
    line: 'auth.expired',
    why: /saw \[401,"too late"\]/,
  },
]

/** Drops the second change of a book, and gives every snapshot a wrong checksum. */
function breakStream(): NonNullable<Faults['frame']> {
  let changes = 0
  return (frame) => {
    if (frame.type === 'book.delta' && ++changes === 2) return undefined
    return frame.type === 'book.snapshot' ? { ...frame, checksum: 1 } : frame
  }
}

export async function tryConformance(t: TestContext, exchange: Exchange): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-conformance-'))
  t.after(() => rm(folder, { recursive: true }))
  const keyFile = join(folder, 'key')
  await writeFile(keyFile, devnetKey(TRADER))

  async function check(url: string, ...args: string[]): Promise<Report & { code: number }> {
    const { code, out, err } = await callSibyl(['conformance', '--url', url, '--json', ...args])
    assert.equal(err, '')
    return { code, ...(JSON.parse(out) as Report) }
  }
  const failedOf = ({ results }: Report) => results.filter(({ result }) => result === 'failed')

  await t.test(
    'an exchange passes every applicable conformance check that uses a trader’s key',
    async () => {
      const report = await check(exchange.url, '--key-file', keyFile)
      assert.deepEqual([report.code, failedOf(report)], [0, []])
      assert.ok(report.ok > 50)
      // These checks are skipped, because this exchange has no rate limits and no public log.
      const skipped = report.results.filter(({ result }) => result === 'skipped')
      assert.deepEqual(skipped.map(({ id }) => id).toSorted(), [
        'archive.file',
        'book.past',
        'http.rate-limits',
      ])
      const trader = createClient({ url: exchange.url, signer: devnetKey(TRADER) })
      assert.deepEqual(await trader.orders.list(), [], 'it leaves nothing behind')
    },
  )

  await t.test(
    'without a trader’s key, the conformance check writes nothing, and lists the skipped checks',
    async () => {
      const written: string[] = []
      const proxy = await startBrokenProxy(exchange.url, {
        answer(request, answer) {
          const isRead = /^GET|^POST \S+validate$/.test(request)
          if (!isRead && answer.status < 400) written.push(request)
          return answer
        },
      })
      try {
        const { code, out } = await callSibyl(['conformance', '--url', proxy.url])
        assert.deepEqual([code, written], [0, []])
        assert.match(out, /^ok {7}config\.shape /)
        assert.match(out, /^skipped {2}orders\.place .*\n {9}because this check needs a trader/m)
        assert.match(out, /\n\d+ ok, 0 failed, 16 skipped\n$/)
      } finally {
        await proxy.close()
      }
    },
  )

  /** Asserts that exactly these checks fail, with these messages. */
  async function demandFailures(faults: Faults, lines: Record<string, RegExp>): Promise<void> {
    const proxy = await startBrokenProxy(exchange.url, faults)
    try {
      const report = await check(proxy.url, '--key-file', keyFile)
      const failed = failedOf(report)
      assert.equal(report.code, 1)
      const ids = failed.map(({ id }) => id)
      assert.deepEqual(ids, Object.keys(lines), JSON.stringify(failed))
      for (const { id, why } of failed) assert.match(why ?? '', lines[id]!)
    } finally {
      await proxy.close()
    }
  }

  await t.test('the conformance check reports exactly the API rules that a server breaks', () =>
    demandFailures(
      {
        answer: (request, answer) =>
          BREACHES.find(({ on }) => on.test(request))?.change(answer) ?? answer,
      },
      Object.fromEntries(BREACHES.map(({ line, why }) => [line, why])),
    ),
  )

  await t.test(
    'the conformance check reports a gap and a wrong checksum in the stream, and no other failure',
    () =>
      demandFailures(
        { frame: breakStream() },
        {
          'stream.book-snapshot': /expected checksum at seq \d+ to be \d+, saw 1/,
          'stream.book-deltas': /expected prevSeq \d+, saw \d+/,
        },
      ),
  )

  await t.test(
    'the option --only selects conformance checks by name, and an unknown name is an error',
    async () => {
      const report = await check(exchange.url, '--only', 'config.,markets.list')
      assert.deepEqual(
        report.results.map(({ id }) => id.split('.')[0]),
        ['config', 'config', 'config', 'config', 'markets'],
      )
      const none = await callSibyl(['conformance', '--url', exchange.url, '--only', 'nonsense'])
      assert.deepEqual([none.code, none.out], [1, ''])
    },
  )
}
