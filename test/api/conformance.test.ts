/**
 * Tests the API against its published contract: its documents, the client package, the checks of `sibyl conformance`,
 * and further rules of reads.
 */

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type CheckResult, runChecks } from '#cli/conformance/run-checks.ts'
import { makeWorld } from '#cli/conformance/world.ts'
import { createClient } from '#client/client.ts'
import { USUAL } from '../documents/served-documents.ts'
import { tryDocuments } from '../documents/try-documents.ts'
import { tryClientPackage } from '../packages/try-client-package.ts'
import { eventually } from '../support/eventually.ts'
import { type Exchange, openExchange } from '../support/exchange.ts'
import { traderNumbered } from '../support/signed-orders.ts'
import { BAD_READS, UNKNOWN_READS } from './bad-reads.ts'

const ann = traderNumbered(41)
/**
 * Conformance checks that are skipped, because this exchange has no rate limits, public log, events, complementary
 * market or prices.
 */
const SKIPPED = [
  ...['http.rate-limits', 'book.past', 'archive.file', 'events.one', 'events.prices'],
  ...['events.unknown', 'matching.implied-order', 'prices.latest', 'prices.history'],
  ...['prices.quick-market', 'prices.stream'],
]

describe('the API of a running exchange conforms to its published contract', () => {
  let exchange: Exchange
  let marketId = ''
  before(async () => {
    exchange = await openExchange({ environment: { ...USUAL, SIBYL_READ_CACHE_MS: '0' } })
    const { markets } = await json<{ markets: { id: string }[] }>('/api/v1/markets')
    marketId = markets[0]?.id ?? ''
  })
  after(() => exchange.dispose())

  it('the API serves its OpenAPI and AsyncAPI documents', (t) => tryDocuments(t, exchange))

  it('the package sibyl-client can be installed and used in an empty folder', (t) =>
    tryClientPackage(t, exchange))

  async function json<T>(path: string): Promise<T> {
    return (await (await fetch(exchange.url + path)).json()) as T
  }

  /** Makes a trade and a resting order, so that lists have entries. */
  async function trade(): Promise<void> {
    const [seller, buyer] = [ann, traderNumbered(42)].map((trader) =>
      createClient({ url: exchange.url, signer: trader.key }),
    )
    const terms = { marketId, outcome: 'YES', price: '0.4', ttlSeconds: 3_600 } as const
    await seller?.orders.place({ ...terms, side: 'sell', size: '3' } as never)
    await buyer?.orders.place({ ...terms, side: 'buy', size: '1' } as never)
  }

  describe('the API answers valid, invalid and conditional reads as documented', () => {
    before(trade)

    it('the exchange fails no conformance check, and skips only the checks that its settings exclude', async () => {
      const { key, address } = ann
      const world = makeWorld({ url: exchange.url, key, address, chainId: 31_337 })
      const failed: CheckResult[] = []
      const skipped: string[] = []
      const { signal } = new AbortController()
      for await (const each of runChecks(world, { only: [], signal })) {
        if (each.result === 'failed') failed.push(each)
        if (each.result === 'skipped') skipped.push(each.id)
      }
      assert.deepEqual(failed, [])
      assert.deepEqual(skipped, SKIPPED)
    })

    it('the API refuses an invalid path or query parameter, and the error names the field', async () => {
      const wrong: string[] = []
      for (const [path, status, code, field] of BAD_READS) {
        const url = path.replace(/\bM/g, marketId).replace(/\bU/g, traderNumbered(77).address)
        const response = await fetch(exchange.url + url)
        const text = await response.text()
        const answer = JSON.parse(text) as { code?: string; field?: string; error?: string }
        const got = [response.status, answer.code, answer.field].join(' ')
        const expected = [status, code, field].join(' ')
        if (got !== expected || !answer.error) wrong.push(`${path}: ${got}, expected ${expected}`)
        assert.doesNotMatch(text, /\.ts:|node_modules/)
      }
      assert.deepEqual(wrong, [])
    })

    it('the API answers a read of an unknown id with an empty list, zero or 404', async () => {
      for (const [path, answer] of UNKNOWN_READS) {
        const url = path.replace(/\bU\b/g, traderNumbered(77).address)
        assert.deepEqual(await json(url), answer, path)
      }
    })

    it('the API answers 304 without a body if the client’s ETag is current', async () => {
      const stats = `${exchange.url}/api/v1/stats/${marketId}`
      const first = await fetch(stats)
      const etag = first.headers.get('etag') ?? ''
      assert.match(etag, /^W\/"[^"]+"$/)
      assert.equal(first.headers.get('cache-control'), 'public, max-age=1')
      for (const header of [etag, `"other", ${etag}`, '*', etag.slice(2)]) {
        const again = await fetch(stats, { headers: { 'if-none-match': header } })
        assert.deepEqual([again.status, await again.text()], [304, ''], header)
        assert.equal(again.headers.get('etag'), etag)
      }
      const other = await fetch(stats, { headers: { 'if-none-match': '"other"' } })
      assert.equal(other.status, 200)
      for (const subject of ['orderbook', 'trades', 'activity', 'markets']) {
        const url = `${exchange.url}/api/v1/${subject}/${marketId}`
        const tag = (await fetch(url)).headers.get('etag') ?? ''
        const same = await fetch(url, { headers: { 'if-none-match': tag } })
        assert.deepEqual([same.status, same.headers.get('etag')], [304, tag], subject)
        const changed = await fetch(url, { headers: { 'if-none-match': 'W/"0-0"' } })
        assert.equal(changed.status, 200, subject)
      }
    })

    it('each page of a list continues where the previous page ended, without a gap or a repetition', async () => {
      const maker = createClient({ url: exchange.url, signer: traderNumbered(51).key })
      const taker = createClient({ url: exchange.url, signer: traderNumbered(52).key })
      const terms = { marketId, outcome: 'NO', price: '0.3', size: '1', ttlSeconds: 3_600 } as const
      for (let count = 0; count < 5; count++) {
        await maker.orders.place({ ...terms, side: 'sell' } as never)
        await taker.orders.place({ ...terms, side: 'buy' } as never)
      }
      type Page = { nextBefore: string | null } & Record<string, { tradeId: string }[]>
      const user = traderNumbered(51).address
      // The user's activity is read from the database, which may not have the newest trades yet.
      await eventually(async () => {
        const page = await json<Page>(`/api/v1/users/${user}/activity?chain_id=31337`)
        assert.equal(page.activity?.length, 5)
      })
      for (const [path, list, count] of [
        [`/api/v1/trades/${marketId}?limit=2`, 'trades', 6],
        [`/api/v1/activity/${marketId}?limit=2`, 'activity', 6],
        [`/api/v1/users/${user}/activity?chain_id=31337&limit=2`, 'activity', 5],
        // Without a chain no trade settles or fails, so all trades stay pending.
        ['/api/v1/pending-trades?limit=2', 'trades', 6],
      ] as const) {
        const seen: string[] = []
        let before = ''
        for (let pages = 0; pages < 5; pages++) {
          const page = await json<Page>(path + before)
          seen.push(...(page[list] ?? []).map(({ tradeId }) => tradeId))
          if (page.nextBefore === null) break
          before = `&before=${page.nextBefore}`
        }
        const sequence = (tradeId: string) => Number(tradeId.split('-')[1])
        assert.equal(new Set(seen).size, count, path)
        assert.deepEqual(
          seen,
          [...seen].sort((a, b) => sequence(b) - sequence(a)),
        )
      }
    })
  })
})
