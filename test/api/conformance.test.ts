/**
 * The API as it is promised: its documents, the package of its client, and the table of endpoints, walked
 * against the document and against a running exchange.
 */

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { privateKeyToAccount } from 'viem/accounts'
import { ENDPOINTS, type Endpoint } from '#cli/conformance/endpoints.ts'
import { createClient } from '#client/client.ts'
import { USUAL } from '../documents/served-documents.ts'
import { tryDocuments } from '../documents/try-documents.ts'
import { tryClientPackage } from '../packages/try-client-package.ts'
import { eventually } from '../support/eventually.ts'
import { type Exchange, openExchange } from '../support/exchange.ts'
import { traderNumbered } from '../support/signed-orders.ts'
import { BAD_READS, UNKNOWN_READS } from './bad-reads.ts'

type Schema = {
  $ref?: string
  type?: string
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
}
type Content = Record<string, { schema: Schema; examples?: Record<string, { value: unknown }> }>
type Operation = {
  parameters: { name: string; in: string; required: boolean }[]
  security?: Record<string, unknown>[]
  requestBody?: { content: Content }
  responses: Record<string, { content?: Content }>
}
type Document = {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
}

const ann = traderNumbered(41)
const UNKNOWN = `0x${'9e'.repeat(32)}`

/** The permit has a path with the name of the stablecoin, too. */
const ALL = ENDPOINTS.flatMap((one) =>
  one.path.endsWith('/stablecoin-permit')
    ? [one, { ...one, path: '/api/v1/relayer/usdc-permit' }]
    : [one],
)

describe('the API of an exchange', () => {
  let exchange: Exchange
  let document: Document
  let marketId = ''
  let marketAddress = ''
  before(async () => {
    exchange = await openExchange({ environment: { ...USUAL, SIBYL_READ_CACHE_MS: '0' } })
    document = await json<Document>('/openapi.json')
    const { markets } = await json<{ markets: { id: string; contractAddress: string }[] }>(
      '/api/v1/markets',
    )
    marketId = markets[0]?.id ?? ''
    marketAddress = markets[0]?.contractAddress ?? ''
  })
  after(() => exchange.dispose())

  it('the API serves its OpenAPI and AsyncAPI documents', (t) => tryDocuments(t, exchange))

  it('the package sibyl-client works in an empty folder', (t) => tryClientPackage(t, exchange))

  async function json<T>(path: string): Promise<T> {
    return (await (await fetch(exchange.url + path)).json()) as T
  }

  /** So that lists have entries: a trade, and an order that rests. */
  async function trade(): Promise<void> {
    const [seller, buyer] = [ann, traderNumbered(42)].map((trader) =>
      createClient({ url: exchange.url, signer: trader.key }),
    )
    const terms = { marketId, outcome: 'YES', price: '0.4', ttlSeconds: 3_600 } as const
    await seller?.orders.place({ ...terms, side: 'sell', size: '3' } as never)
    await buyer?.orders.place({ ...terms, side: 'buy', size: '1' } as never)
  }

  function schemaOf(schema: Schema | undefined): Schema {
    const name = schema?.$ref?.split('/').at(-1)
    return name === undefined ? (schema ?? {}) : schemaOf(document.components.schemas[name])
  }
  /** Every property that some form of the schema has. */
  function propertiesOf(schema: Schema | undefined): Record<string, Schema> {
    const { properties = {}, anyOf = [], oneOf = [] } = schemaOf(schema)
    const all = { ...properties }
    for (const one of [...anyOf, ...oneOf]) Object.assign(all, propertiesOf(one))
    return all
  }
  function assertHas(known: readonly string[], wanted: readonly string[], where: string): void {
    const missing = wanted.filter((name) => !known.includes(name))
    assert.deepEqual(missing, [], `${where} lacks`)
  }

  describe('every endpoint that it promises', () => {
    before(trade)

    for (const endpoint of ALL) {
      const { method, path, auth, query, body, fields, list, sometimes } = endpoint
      const name = `${method} ${path}`

      it(`${name} is in the OpenAPI document`, () => {
        const operation = document.paths[path]?.[method.toLowerCase()]
        assert(operation !== undefined, `${name} is not in the document`)
        for (const [parameter, need] of Object.entries(query)) {
          const found: Operation['parameters'] = operation.parameters.filter(
            (one) => one.name === parameter,
          )
          const wanted = [['query', need === 'required']]
          const known: unknown = found.map((one) => [one.in, one.required])
          assert.deepEqual(known, wanted, `${name} ${parameter}`)
        }
        const isWrite = operation.security?.some((one) => 'bearer' in one) ?? false
        assert.equal(isWrite, auth === 'write', `${name} asks for a token`)
        if (body !== undefined) {
          const content = operation.requestBody?.content['application/json']
          assertHas(Object.keys(propertiesOf(content?.schema)), body, `the body of ${name}`)
          assert(Object.keys(content?.examples ?? {}).length > 0, `${name} shows no body`)
        }
        if (fields.length === 0) return
        const content = operation.responses['200']?.content?.['application/json']
        const properties = propertiesOf(content?.schema)
        const listed = list === undefined ? [] : [list[0]]
        assertHas(Object.keys(properties), [...fields, ...listed, ...sometimes], name)
        if (list !== undefined) {
          const entry = schemaOf(properties[list[0]]).items
          assertHas(Object.keys(propertiesOf(entry)), list[1], `an entry of ${name}`)
        }
        const examples = Object.values(content?.examples ?? {})
        assert(examples.length > 0, `${name} shows no answer`)
        for (const { value } of examples) {
          if (examples.length === 1) assertHas(Object.keys(value as object), [...fields], name)
        }
      })

      it(`${name} returns the documented answer`, async () => assertAnswers(endpoint))
    }

    it('every fault in a path or a query is refused, and the error names the field', async () => {
      const wrong: string[] = []
      for (const [path, status, code, field] of BAD_READS) {
        // Only the parts that stand for something are filled in.
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

    it('an unknown id is answered with an empty list, zero or not found', async () => {
      for (const [path, answer] of UNKNOWN_READS) {
        const url = path.replace(/\bU\b/g, traderNumbered(77).address)
        assert.deepEqual(await json(url), answer, path)
      }
    })

    it('an answer that has not changed is not sent again', async () => {
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

    it('each page of a list continues where the previous page ended', async () => {
      const maker = createClient({ url: exchange.url, signer: traderNumbered(51).key })
      const taker = createClient({ url: exchange.url, signer: traderNumbered(52).key })
      const terms = { marketId, outcome: 'NO', price: '0.3', size: '1', ttlSeconds: 3_600 } as const
      for (let count = 0; count < 5; count++) {
        await maker.orders.place({ ...terms, side: 'sell' } as never)
        await taker.orders.place({ ...terms, side: 'buy' } as never)
      }
      type Page = { nextBefore: string | null } & Record<string, { tradeId: string }[]>
      const user = traderNumbered(51).address
      // A user's activity comes from the database, which follows.
      await eventually(async () => {
        const page = await json<Page>(`/api/v1/users/${user}/activity?chain_id=31337`)
        assert.equal(page.activity?.length, 5)
      })
      for (const [path, list, count] of [
        [`/api/v1/trades/${marketId}?limit=2`, 'trades', 6],
        [`/api/v1/activity/${marketId}?limit=2`, 'activity', 6],
        [`/api/v1/users/${user}/activity?chain_id=31337&limit=2`, 'activity', 5],
        // Without a chain none of them is ever decided about.
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
      type Markets = { markets: { id: string }[]; nextCursor: string | null }
      const all = (await json<Markets>('/api/v1/markets')).markets.map(({ id }) => id)
      const paged: string[] = []
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page: Markets = await json<Markets>(
          `/api/v1/markets?limit=1${cursor === '' ? '' : `&cursor=${cursor}`}`,
        )
        paged.push(...page.markets.map(({ id }) => id))
        cursor = page.nextCursor
      }
      assert.deepEqual(paged, all)
    })
  })

  async function assertAnswers(endpoint: Endpoint): Promise<void> {
    const { method, path, fields, list } = endpoint
    if (path === '/api/v1/stream') return assertStreams()
    if (path.startsWith('/api/v1/relayer/')) return assertRelays(path)
    const { url, body } = await requestOf(endpoint)
    const response = await fetch(exchange.url + url, {
      method,
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    })
    const text = await response.text()
    // Without a chain and price providers, these two answer with that reason.
    if (path.endsWith('/sync')) {
      assert.equal(response.status, 503, text)
      assert.equal(JSON.parse(text).code, 'CHAIN_UNAVAILABLE')
      assert.match(response.headers.get('retry-after') ?? '', /^[0-9]+$/)
      return
    }
    if (path.startsWith('/api/v1/quick-markets/')) {
      assert.equal(response.status, 404, text)
      assert.deepEqual(JSON.parse(text).code, 'ASSET_NOT_FOUND')
      return
    }
    assert.equal(response.status, 200, text)
    const answer = JSON.parse(text) as Record<string, unknown>
    assertHas(Object.keys(answer), fields, path)
    if (list === undefined) return
    const entries = answer[list[0]]
    assert(Array.isArray(entries), `${path} has a list of ${list[0]}`)
    if ('count' in answer && !path.includes('trades')) assert.equal(answer.count, entries.length)
    for (const entry of entries) assertHas(Object.keys(entry as object), list[1], path)
  }

  async function requestOf(endpoint: Endpoint): Promise<{ url: string; body?: object }> {
    const { method, path } = endpoint
    const values: Record<string, string> = {
      marketId,
      marketAddress,
      address: ann.address,
      asset: 'BTC',
      txHash: UNKNOWN,
    }
    const required = {
      trader: ann.address,
      user: ann.address,
      chain_id: '31337',
    } as Record<string, string>
    if (method === 'DELETE') {
      const client = createClient({ url: exchange.url, signer: ann.key })
      const [open] = await client.orders.list()
      assert(open !== undefined)
      return { url: `/api/v1/orders/${open.orderHash}?marketId=${marketId}&side=sell` }
    }
    const url = path.replace(/\{(\w+)\}/g, (_whole, name: string) => values[name] ?? '')
    if (path === '/api/v1/api-keys') {
      const message = `Register API key for Sibyl: ${ann.address}`
      const signature = await privateKeyToAccount(ann.key).signMessage({ message })
      return { url, body: { address: ann.address, signature } }
    }
    if (path === '/api/v1/orders' && method === 'POST') {
      const client = createClient({ url: exchange.url, signer: ann.key })
      const intent = { marketId, side: 'buy', outcome: 'NO', price: '0.2', size: '1' }
      return {
        url,
        body: (await client.orders.sign({ ...intent, ttlSeconds: 900 } as never)) as object,
      }
    }
    if (path.endsWith('/sync')) return { url, body: { userAddress: ann.address } }
    const query = Object.entries(endpoint.query)
      .filter(([, need]) => need === 'required')
      .map(([name]) => `${name}=${required[name]}`)
    return { url: query.length === 0 ? url : `${url}?${query.join('&')}` }
  }

  async function assertStreams(): Promise<void> {
    const socket = new WebSocket(`${exchange.url.replace('http', 'ws')}/api/v1/stream`)
    const hello = await new Promise<string>((resolve, reject) => {
      socket.onmessage = ({ data }) => resolve(String(data))
      socket.onerror = () => reject(new Error('the stream did not open'))
    })
    assert.equal(JSON.parse(hello).type, 'hello')
    socket.close()
  }

  async function assertRelays(path: string): Promise<void> {
    const example = document.paths[path]?.post?.requestBody?.content['application/json']?.examples
    const [first] = Object.values(example ?? {})
    const response = await fetch(exchange.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(first?.value),
    })
    assert.equal(response.status, 400)
    const answer = (await response.json()) as { success: boolean; error: string }
    assert.deepEqual(
      [answer.success, answer.error],
      [false, 'No relayer configured for chain'],
      path,
    )
  }
})
