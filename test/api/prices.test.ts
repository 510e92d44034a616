import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Check } from 'typebox/value'
import { priceRoutes } from '#api/prices/prices.ts'
import { quickMarketRoutes } from '#api/prices/quick-markets.ts'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { EventStreamReader } from '#domain/event-stream.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { PriceSource } from '#domain/price-providers.ts'
import type { Mark, QuickMarket, QuickResolution } from '#domain/quick-market.ts'
import { makeSseHub, type SseHub, type SseSettings } from '#http/sse.ts'
import { makeBoard } from '#live/market-board.ts'
import { makePriceBoard, type PriceBoard, type PriceListener } from '#live/price-board.ts'
import { makeSeqWaiters } from '#live/seq-waiters.ts'
import type { PublishedPrice } from '#protocol/prices.ts'
import { StreamPrice } from '#protocol/shapes/prices.ts'
import { type Clock, systemClock } from '#runtime/clock.ts'
import { startTestFront } from '../http/front-fixture.ts'
import { eventually } from '../support/eventually.ts'

const urlOf = (source: PriceSource): string => `wss://${source}/stream`
const SSE: SseSettings = { readersMax: 1_000, keepAliveMs: 60_000, lagMsMax: 60_000 }
const NOW_SEC = Math.floor(Date.now() / 1_000)

type Shown = {
  readonly url: string
  readonly board: PriceBoard
  readonly hub: SseHub
  readonly stored: QuickMarket[]
  readonly told: { asset: string; event: string }[]
  /** Extra charges for long answers. Each number is a multiple of the cost of the request's route. */
  readonly charged: number[]
  /** Makes the next price of an asset. */
  price(asset: string, usd: number, fields?: Partial<PublishedPrice>): PublishedPrice
}

async function start(
  t: TestContext,
  settings: Partial<SseSettings> = {},
  clock: Clock = systemClock,
  replayEvents = 10,
): Promise<Shown> {
  const hub = makeSseHub({ ...SSE, ...settings }, clock)
  const told: Shown['told'] = []
  const listener: PriceListener = {
    priced: () => undefined,
    streamed: (asset, text) => hub.publish(asset, text),
    quickMarket: (asset, { event }) => told.push({ asset, event }),
  }
  const board = makePriceBoard({ assets: ['BTC', 'ETH'], replayEvents }, listener)
  const markets = makeBoard({ isWhole: () => true, isCurrent: () => true })
  const stored: QuickMarket[] = []
  const charged: number[] = []
  const allowed = { allowed: true, headers: {} }
  const { url, beforeClose } = await startTestFront(
    t,
    { trustedProxies: ['127.0.0.1'] },
    {
      services: {
        readiness: () => ({}),
        limit: () => allowed,
        limitMore(_arrival, _principal, times) {
          charged.push(times)
          return allowed
        },
      },
      routes: [
        ...priceRoutes({ board, hub, urlOf, ageMsMax: 10_000, nowMs: systemClock.nowMs }),
        ...quickMarketRoutes({
          prices: board,
          board: markets,
          waiters: makeSeqWaiters(() => markets, systemClock),
          list: async (asset) => stored.filter((one) => one.asset === asset),
          find: async (id) => stored.find((one) => one.id === id),
          nowMs: systemClock.nowMs,
        }),
      ],
    },
  )
  beforeClose.push(async () => hub.shutdown())
  let number = 0
  return {
    ...{ url, board, hub, stored, told, charged },
    price(asset, usd, fields = {}) {
      const price: PublishedPrice = {
        ...{ asset, price: Math.round(usd * 1e8), atMs: Date.now(), source: 'pyth' },
        number: ++number,
        ...fields,
      }
      board.priced(price)
      return price
    },
  }
}

const path = (url: string, rest: string): string => `${url}/api/v1/quick-markets/${rest}`
const getJson = async (url: string) => {
  const response = await fetch(url)
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

function mark(fields: Partial<Mark> = {}): Mark {
  return {
    ...{ asset: 'BTC', source: 'pyth', boundarySec: NOW_SEC - 60, price: 6_400_000_000_000 },
    ...{ atMs: NOW_SEC * 1_000, receivedAtMs: NOW_SEC * 1_000 + 5, via: 'stream', exact: true },
    raw: '{"report":1}',
    ...fields,
  }
}

function market(fields: Partial<QuickMarket> = {}): QuickMarket {
  return {
    id: 1,
    marketId: `0x${'ab'.repeat(32)}` as MarketId,
    chainId: 31_337,
    contractAddress: `0x${'c0'.repeat(20)}` as Address,
    asset: 'BTC',
    startSec: NOW_SEC - 60,
    intervalSec: 900,
    strike: mark(),
    createdAtMs: (NOW_SEC - 59) * 1_000,
    contested: null,
    resolution: null,
    resolvedAtMs: null,
    createTxHash: '',
    reportTxHash: '',
    onChain: 'pending',
    ...fields,
  }
}

test('the latest price is returned with its age and its source', async (t) => {
  const { url, price, board } = await start(t)
  const none = await getJson(path(url, 'BTC/price'))
  assert.deepEqual([none.status, none.body.code], [503, 'PRICE_UNAVAILABLE'])
  const atMs = Date.now() - 500
  price('BTC', 64_152.43, { source: 'binance', atMs })
  board.speakerChanged('BTC', 'binance', '')
  const { status, body } = await getJson(path(url, 'btc/price'))
  assert.equal(status, 200)
  const { timestamp, ...rest } = body
  assert.equal(timestamp, Math.floor(atMs / 1_000))
  assert.deepEqual(rest, {
    asset: 'BTC',
    price: 6_415_243_000_000,
    priceUSD: 64_152.43,
    source: urlOf('binance'),
    sourceName: 'binance',
    stale: false,
  })
  board.lost()
  assert.equal((await getJson(path(url, 'BTC/price'))).body.stale, true)
  assert.equal(
    board.why(),
    'BTC: the price service is restarting: retry shortly; ETH: the price service is restarting: retry shortly',
  )
})

test('every price route answers 404 for an unknown asset, and accepts symbols in upper and lower case', async (t) => {
  const { url, price } = await start(t)
  price('BTC', 1)
  for (const rest of ['', '/history', '/price', '/price-history', '/price-stream', '/1/evidence']) {
    for (const asset of ['DOGE', '%01', 'BTC%20', 'a'.repeat(16)]) {
      const { status, body } = await getJson(path(url, `${asset}${rest}`))
      assert.deepEqual([status, body.code], [404, 'ASSET_NOT_FOUND'], `${asset}${rest}`)
    }
  }
  const { status, body } = await getJson(path(url, '%00'))
  assert.deepEqual([status, body.code, body.field], [400, 'INVALID_FIELD', 'asset'])
  for (const asset of ['btc', 'Btc', 'BTC']) {
    assert.equal((await getJson(path(url, asset))).body.asset, 'BTC')
  }
  assert.equal((await getJson(path(url, 'a'.repeat(17)))).status, 400)
  assert.equal((await getJson(path(url, 'BTC/0/evidence'))).status, 400)
  assert.equal((await getJson(path(url, 'BTC/x/evidence'))).status, 400)
  assert.equal((await getJson(path(url, 'BTC/9/evidence'))).body.code, 'NOT_FOUND')
})

test('the price history returns one price per second for the last twenty minutes', async (t) => {
  const { url, board, price } = await start(t)
  const nowMs = Math.floor(Date.now() / 1_000) * 1_000
  const history = Array.from({ length: 1_400 }, (_, back) => ({
    ...{ asset: 'BTC', price: 1_399 - back, source: 'coinbase' as const, number: 1_400 - back },
    atMs: nowMs - back * 1_000,
  })).reverse()
  const latest = history.at(-1)
  board.load([{ asset: 'BTC', speaker: 'coinbase', why: '', latest, history }], [], nowMs)
  price('BTC', 7, { atMs: nowMs + 400, number: 2_000 })
  const { body } = await getJson(path(url, 'BTC/price-history'))
  const prices = body.prices as { price: number; timestamp: number; source: string }[]
  assert.ok(prices.length > 1_150 && prices.length <= 1_200, String(prices.length))
  assert.equal(body.count, prices.length)
  for (let at = 1; at < prices.length; at++) {
    assert.equal(prices[at]!.timestamp - prices[at - 1]!.timestamp, 1)
  }
  assert.deepEqual(prices.at(-1), {
    price: 700_000_000,
    priceUSD: 7,
    timestamp: nowMs / 1_000,
    source: 'pyth',
  })
})

test('the API returns an asset’s current and earlier quick markets, and the price evidence for each outcome', async (t) => {
  const { url, board, stored, told } = await start(t)
  const none = await getJson(path(url, 'BTC'))
  assert.deepEqual(none.body, { active: false, asset: 'BTC', nextMarket: null, quickMarket: null })
  const open = market()
  board.quickMarketOpened(open, Date.now())
  board.quickMarketOpened(open, Date.now())
  const active = (await getJson(path(url, 'BTC'))).body
  assert.equal(active.active, true)
  assert.equal(active.bestAskPrice, 0)
  assert.deepEqual(active.quickMarket, {
    id: 1,
    marketId: open.marketId,
    asset: 'BTC',
    intervalMinutes: 15,
    intervalSeconds: 900,
    startPrice: 6_400_000_000_000,
    startTime: NOW_SEC - 60,
    endTime: NOW_SEC + 840,
    resolved: false,
    priceSource: 'pyth',
    createdAt: NOW_SEC - 59,
    endPrice: null,
    outcome: null,
    verdict: 'open',
  })
  const end = mark({ boundarySec: NOW_SEC + 840, price: 6_399_999_999_999, source: 'pyth' })
  const resolution = { source: 'pyth', start: open.strike, end, outcome: 1 } as const
  const resolved = market({ resolution, resolvedAtMs: 5, onChain: 'reported' })
  stored.push(resolved)
  board.quickMarketResolved(resolved, Date.now())
  assert.equal((await getJson(path(url, 'BTC'))).body.active, false)
  const listed = (await getJson(path(url, 'btc/history'))).body
  assert.equal(listed.count, 1)
  const [one] = listed.quickMarkets as Record<string, unknown>[]
  assert.deepEqual([one?.resolved, one?.endPrice, one?.outcome], [true, 6_399_999_999_999, 1])
  assert.equal(one?.verdict, 'prices')
  const evidence = (await getJson(path(url, 'BTC/1/evidence'))).body
  assert.equal(evidence.comparison, '6399999999999 < 6400000000000: NO')
  assert.equal(evidence.decidedBy, 'pyth')
  assert.deepEqual(evidence.end, {
    source: 'pyth',
    boundary: NOW_SEC + 840,
    price: 6_399_999_999_999,
    timestamp: NOW_SEC * 1_000,
    receivedAt: NOW_SEC * 1_000 + 5,
    via: 'stream',
    exact: true,
    report: '{"report":1}',
  })
  assert.equal((await getJson(path(url, 'ETH/1/evidence'))).status, 404)
  assert.deepEqual(told, [
    { asset: 'BTC', event: 'opened' },
    { asset: 'BTC', event: 'resolved' },
  ])
})

test('the API shows a contested quick market as unresolved, with all sources’ prices, until the oracle decides', async (t) => {
  const { url, stored } = await start(t)
  const at = (source: PriceSource, price: number, isEnd: boolean) =>
    mark({ source, price, boundarySec: NOW_SEC + (isEnd ? 840 : -60) })
  const sources = [
    { source: 'pyth', start: mark(), end: at('pyth', 6_399_000_000_000, true), counts: true },
    {
      source: 'binance',
      start: at('binance', 6_400_000_000_000, false),
      end: at('binance', 6_432_000_000_000, true),
      counts: true,
    },
    { source: 'coinbase', start: at('coinbase', 1, false), end: null, counts: false },
  ] as const
  const contested: QuickResolution = {
    ...{ source: 'pyth', start: sources[0].start, end: sources[0].end, outcome: 1 },
    sources,
  }
  stored.push(market({ contested, onChain: 'contested' }))
  const shown = async () => {
    const { body } = await getJson(path(url, 'BTC/history'))
    const [one] = body.quickMarkets as Record<string, unknown>[]
    return [one?.resolved, one?.verdict, one?.endPrice, one?.outcome]
  }
  assert.deepEqual(await shown(), [false, 'contested', null, null])
  const evidence = (await getJson(path(url, 'BTC/1/evidence'))).body
  assert.deepEqual([evidence.decidedBy, evidence.onChain], [null, 'created'])
  assert.match(
    String(evidence.comparison),
    /by pyth alone the outcome is NO; the sources contradict each other/,
  )
  const providers = evidence.providers as Record<string, unknown>[]
  assert.deepEqual(
    providers.map(({ source, direction, moveBps, counted }) => [
      ...[source, direction, moveBps, counted],
    ]),
    [
      ['pyth', 'down', -1.5625, true],
      ['binance', 'up', 50, true],
      ['coinbase', null, null, false],
    ],
  )
  stored.splice(0)
  const resolution = { ...contested, outcome: 0, byOracle: true } as const
  stored.push(market({ contested, resolution, resolvedAtMs: 5, onChain: 'reported' }))
  assert.deepEqual(await shown(), [true, 'oracle', 6_399_000_000_000, 0])
  assert.equal((await getJson(path(url, 'BTC/1/evidence'))).body.decidedBy, 'oracle')
})

test('a price stream sends the last price of its asset at once, and then every new price of the asset', async (t) => {
  const { url, price, hub } = await start(t)
  price('BTC', 100)
  const reader = openReader(url, 'btc')
  t.after(reader.close)
  await eventually(() => assert.equal(reader.events().length, 1))
  price('ETH', 5)
  price('BTC', 101)
  price('BTC', 102)
  await eventually(() => assert.equal(reader.events().length, 3))
  for (const { data } of reader.events()) assert.ok(Check(StreamPrice, data), JSON.stringify(data))
  assert.deepEqual(
    reader.events().map(({ data }) => data.priceUSD),
    [100, 101, 102],
  )
  assert.match(reader.text(), /^HTTP\/1\.1 200 OK\r\ncontent-type: text\/event-stream\r\n/)
  assert.equal(hub.figures().readers, 1)
  reader.close()
  await eventually(() => assert.equal(hub.figures().readers, 0))
})

test('a client that reconnects to a price stream with a recent event id receives the missed prices', async (t) => {
  const { url, price } = await start(t)
  for (let usd = 1; usd <= 30; usd++) price('BTC', usd, { number: 100 + usd })
  for (const [lastEventId, expected] of [
    ['128', [29, 30]],
    ['130', [30]],
    // If `Last-Event-ID` is too old, higher than the newest id, or invalid, the reader gets only the latest price.
    ['101', [30]],
    ['500', [30]],
    ['-1', [30]],
    ['x', [30]],
    ['', [30]],
  ] as const) {
    const reader = openReader(url, 'BTC', `Last-Event-ID: ${lastEventId}\r\n`)
    await eventually(() => assert.ok(reader.events().length >= expected.length))
    assert.deepEqual(
      reader.events().map(({ data }) => data.priceUSD),
      expected,
      lastEventId,
    )
    reader.close()
  }
})

test('a price stream sends keep-alive comments before the first price and between prices', async (t) => {
  const { url, price } = await start(t, { keepAliveMs: 100 })
  const reader = openReader(url, 'BTC')
  t.after(reader.close)
  await eventually(() => assert.ok(reader.comments() >= 3))
  assert.equal(reader.events().length, 0)
  price('BTC', 1)
  await eventually(() => assert.equal(reader.events().length, 1))
  const before = reader.comments()
  await eventually(() => assert.ok(reader.comments() > before))
})

test('a client that stops reading a price stream misses prices, is later disconnected, and delays no other client', async (t) => {
  let aheadMs = 0
  const clock = { ...systemClock, nowMs: () => systemClock.nowMs() + aheadMs }
  const { url, hub } = await start(t, { keepAliveMs: 200 }, clock)
  const stalled = openReader(url, 'BTC')
  const brisk = openReader(url, 'BTC')
  t.after(brisk.close)
  t.after(stalled.close)
  await eventually(() => assert.equal(hub.figures().readers, 2))
  stalled.pause()
  const big = `data: ${JSON.stringify({ filler: 'x'.repeat(60_000) })}\n\n`
  let published = 0
  await eventually(() => {
    hub.publish('BTC', big)
    published++
    assert.ok(hub.figures().skipped > 0)
  })
  assert.equal(hub.figures().cut, 0)
  aheadMs = SSE.lagMsMax
  await eventually(() => assert.equal(hub.figures().cut, 1))
  await eventually(() => assert.equal(hub.figures().readers, 1))
  await eventually(() => assert.equal(brisk.events().length, published))
})

test('if a client of a price stream pauses reading, it misses old prices and continues with the newest', async (t) => {
  const { url, hub } = await start(t)
  const reader = openReader(url, 'BTC')
  t.after(reader.close)
  await eventually(() => assert.equal(hub.figures().readers, 1))
  reader.pause()
  let last = 0
  await eventually(() => {
    hub.publish('BTC', `data: ${JSON.stringify({ last: ++last, filler: 'x'.repeat(60_000) })}\n\n`)
    assert.ok(hub.figures().skipped > 20)
  })
  reader.resume()
  await eventually(() => assert.equal(reader.events().at(-1)?.data.last, last))
  assert.ok(reader.events().length < last)
  hub.publish('BTC', 'data: {"last":0}\n\n')
  await eventually(() => assert.equal(reader.events().at(-1)?.data.last, 0))
})

test('the exchange limits the number of open price streams, and closes all price streams when it stops', async (t) => {
  const { url, hub, price } = await start(t, { readersMax: 2 })
  price('BTC', 1)
  const readers = [openReader(url, 'BTC'), openReader(url, 'BTC')]
  await eventually(() => assert.equal(hub.figures().readers, 2))
  assert.equal((await fetch(path(url, 'BTC/price-stream'))).status, 503)
  hub.shutdown()
  for (const reader of readers) {
    await reader.ended
    // The stream ends with a last chunk, so the answer is complete.
    assert.ok(reader.text().endsWith('0\r\n\r\n'))
  }
  assert.equal((await fetch(path(url, 'BTC/price-stream'))).status, 503)
})

test('the number of price streams per IP address is limited, also for addresses behind a proxy', async (t) => {
  const { url, hub } = await start(t, { readersMax: 3, readersPerIpMax: 2 })
  const open = async (ip: string) => {
    const cut = new AbortController()
    t.after(() => cut.abort())
    const headers = { 'x-forwarded-for': ip }
    const { status } = await fetch(path(url, 'BTC/price-stream'), { headers, signal: cut.signal })
    return { status, cut }
  }
  const greedy = [await open('203.0.113.1'), await open('203.0.113.1')]
  assert.deepEqual(
    greedy.map(({ status }) => status),
    [200, 200],
  )
  assert.equal((await open('203.0.113.1')).status, 429)
  assert.equal((await open('203.0.113.2')).status, 200)
  assert.equal((await open('203.0.113.3')).status, 503)
  greedy[0]?.cut.abort()
  await eventually(() => assert.equal(hub.figures().readers, 2))
  assert.equal((await open('203.0.113.1')).status, 200)
})

test('resuming a price stream costs the client rate-limit units in proportion to the length of the missed prices', async (t) => {
  const { url, price, charged } = await start(t, {}, systemClock, 1_000)
  for (let count = 1; count <= 1_000; count++) price('BTC', count)
  for (const [lastEventId, times] of [
    ['1000', 0],
    ['1', 6],
  ] as const) {
    const cut = new AbortController()
    const headers = { 'last-event-id': lastEventId }
    const { status } = await fetch(path(url, 'BTC/price-stream'), { headers, signal: cut.signal })
    cut.abort()
    assert.equal(status, 200)
    assert.equal(
      charged.splice(0).reduce((sum, more) => sum + more, 0),
      times,
    )
  }
})

test('the SDK reads prices, and its price stream continues after a lost connection', async (t) => {
  const { url, price, hub, board, stored } = await start(t)
  board.speakerChanged('BTC', 'pyth', '')
  price('BTC', 1)
  const cuts = new Set<AbortController>()
  const client = createClient({
    url,
    backoffMs: 5,
    // A network that can be cut.
    fetch: (input, init) => {
      const cut = new AbortController()
      cuts.add(cut)
      const signal = AbortSignal.any([cut.signal, init?.signal ?? cut.signal])
      return fetch(input, { ...init, signal })
    },
  })
  assert.equal((await client.prices.latest('btc')).priceUSD, 1)
  assert.equal((await client.prices.history('BTC')).length, 1)
  assert.equal(await client.quickMarkets.active('BTC'), undefined)
  stored.push(market())
  board.quickMarketOpened(market(), Date.now())
  assert.equal((await client.quickMarkets.active('BTC'))?.quickMarket.id, 1)
  assert.equal((await client.quickMarkets.history('BTC')).length, 1)
  assert.equal((await client.quickMarkets.evidence('BTC', 1)).onChain, 'pending')
  const call = new AbortController()
  const seen: StreamPrice[] = []
  const reading = (async () => {
    for await (const event of client.prices.stream('BTC', { signal: call.signal })) seen.push(event)
  })()
  await eventually(() => assert.equal(seen.length, 1))
  // In each round, every connection is cut, and the next price arrives before the client reconnects.
  for (const usd of [2, 3, 4]) {
    for (const cut of cuts) cut.abort()
    price('BTC', usd)
    await eventually(() => assert.equal(seen.length, usd))
    await eventually(() => assert.equal(hub.figures().readers, 1))
  }
  assert.deepEqual(
    seen.map(({ priceUSD }) => priceUSD),
    [1, 2, 3, 4],
  )
  call.abort()
  await reading
  await assert.rejects(
    client.prices.stream('DOGE').next(),
    (error) => error instanceof SibylError && error.code === 'ASSET_NOT_FOUND',
  )
})

type Reader = {
  events(): { id: string; data: Record<string, unknown> }[]
  comments(): number
  text(): string
  pause(): void
  resume(): void
  close(): void
  readonly ended: Promise<void>
}

/** A reader that sees every byte. */
function openReader(url: string, asset: string, headers = ''): Reader {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port) })
  const chunks: Buffer[] = []
  const ended = new Promise<void>((resolve) => {
    socket.on('end', () => resolve())
    socket.on('error', () => resolve())
    socket.on('close', () => resolve())
  })
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.write(
    `GET /api/v1/quick-markets/${asset}/price-stream HTTP/1.1\r\nHost: x\r\n${headers}\r\n`,
  )
  const text = (): string => Buffer.concat(chunks).toString()
  const body = (): string => {
    const whole = text()
    let rest = whole.slice(whole.indexOf('\r\n\r\n') + 4)
    let out = ''
    for (;;) {
      const line = /^\r?\n?([0-9a-f]+)\r\n/.exec(rest)
      if (line === null) return out
      const length = Number.parseInt(line[1]!, 16)
      out += rest.slice(line[0].length, line[0].length + length)
      rest = rest.slice(line[0].length + length)
    }
  }
  return {
    text,
    events: () =>
      new EventStreamReader()
        .take(Buffer.from(body()))
        .map(({ id, data }) => ({ id, data: JSON.parse(data) as Record<string, unknown> })),
    comments: () => body().match(/^:/gm)?.length ?? 0,
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    close: () => void socket.destroy(),
    ended,
  }
}
