/** Tests providers that send invalid data: none of it becomes a price, and no provider stops the others. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { WebSocketServer } from 'ws'
import type { Observation } from '#domain/asset-price.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeBinance } from '#services/prices/feeds/binance.ts'
import { makeCoinbase } from '#services/prices/feeds/coinbase.ts'
import type { Feed, FeedPorts } from '#services/prices/feeds/feed.ts'
import { makePyth } from '#services/prices/feeds/pyth.ts'
import { eventually } from '../../../support/eventually.ts'
import { livePorts } from '../../../support/price-feeds.ts'

const TIMING = { silenceMs: 60_000, pollMs: 50, backoffMs: 10, backoffMsMax: 40, requestMs: 60_000 }
const PYTH_ID = 'ab'.repeat(32)
/** A value that `String` cannot convert. */
const NO_TEXT = { toString: 0, valueOf: 0 }

const ticker = (fields: object = {}): string =>
  JSON.stringify({
    ...{ type: 'ticker', product_id: 'BTC-USD', price: '100.5' },
    time: new Date(systemClock.nowMs()).toISOString(),
    ...fields,
  })
const aggTrade = (fields: object = {}): string => {
  const trade = { e: 'aggTrade', s: 'BTCUSDT', p: '100.5', T: systemClock.nowMs() }
  return JSON.stringify({ data: { ...trade, ...fields } })
}
const pythUpdate = (fields: object = {}, conf = '1', expo = -8): string => {
  const publish_time = Math.floor(systemClock.nowMs() / 1_000)
  const price = { price: '10050000000', conf, expo, publish_time }
  return JSON.stringify({ parsed: [{ id: PYTH_ID, price, ...fields }] })
}

/** Starts a provider that pushes these texts to every client, and sends the scripted answers. */
async function provider(
  t: TestContext,
  how: {
    readonly pushes?: readonly string[]
    readonly answers?: RequestListener
    readonly timing?: Partial<typeof TIMING>
  },
): Promise<{
  port: number
  ports: FeedPorts
  observed: Observation[]
  troubles: string[]
  open(): number
  start(feed: Feed): void
}> {
  const server = createServer(
    how.answers ?? ((_request, response) => void response.writeHead(404).end()),
  )
  const sockets = new Set<Duplex>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    for (const end of ['end', 'close']) socket.on(end, () => sockets.delete(socket))
  })
  const upgrader = new WebSocketServer({ server })
  upgrader.on('connection', (socket, request) => {
    for (const text of how.pushes ?? []) socket.send(text)
    if (how.pushes !== undefined) return
    // From here on the server reads nothing, not even a close frame.
    request.socket.removeAllListeners('data').resume()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const observed: Observation[] = []
  const troubles: string[] = []
  return {
    port: (server.address() as AddressInfo).port,
    ports: {
      ...livePorts(systemClock),
      observed: (observation) => observed.push(observation),
      troubled: (trouble) => troubles.push(trouble),
      timing: { ...TIMING, ...how.timing },
    },
    observed,
    troubles,
    open: () => sockets.size,
    start(feed) {
      feed.start()
      t.after(() => feed.stop())
    },
  }
}

const binanceAt = (port: number, ports: FeedPorts): Feed =>
  makeBinance(
    {
      url: `http://127.0.0.1:${port}`,
      socketUrl: `ws://127.0.0.1:${port}`,
      names: { BTC: 'BTCUSDT' },
    },
    ports,
  )
const coinbaseAt = (port: number, ports: FeedPorts): Feed =>
  makeCoinbase(
    {
      url: `http://127.0.0.1:${port}`,
      socketUrl: `ws://127.0.0.1:${port}`,
      names: { BTC: 'BTC-USD' },
    },
    ports,
  )
const pythAt = (port: number, ports: FeedPorts): Feed =>
  makePyth({ url: `http://127.0.0.1:${port}`, apiKey: '', names: { BTC: PYTH_ID } }, ports)

test('a price feed drops a report whose asset name is not text, and uses the next report', async (t) => {
  for (const [pushes, feedAt] of [
    [[aggTrade({ s: NO_TEXT }), aggTrade()], binanceAt],
    [[ticker({ product_id: NO_TEXT }), ticker()], coinbaseAt],
  ] as const) {
    const { port, ports, observed, troubles, start } = await provider(t, { pushes })
    start(feedAt(port, ports))
    await eventually(() => assert.equal(observed[0]?.price, 100.5e8))
    assert.ok(troubles.includes('garbage'))
  }
  let asked = 0
  const { port, ports, observed, troubles, start } = await provider(t, {
    answers(request, response) {
      if (request.url?.includes('/stream')) response.writeHead(503).end()
      else response.end(++asked === 1 ? pythUpdate({ id: NO_TEXT }) : pythUpdate())
    },
  })
  start(pythAt(port, ports))
  await eventually(() => assert.equal(observed[0]?.price, 100.5e8))
  assert.ok(troubles.includes('garbage'))
})

test('a price feed drops a report with extremely deep nesting, and uses the next report', async (t) => {
  const depth = 50_000
  let asked = 0
  const { port, ports, observed, troubles, start } = await provider(t, {
    answers(_request, response) {
      const nested = `[${'['.repeat(depth)}${']'.repeat(depth)}]`
      const trade = JSON.stringify([{ p: '100.5', T: systemClock.nowMs() }])
      response.end(++asked === 1 ? nested : trade)
    },
  })
  start(binanceAt(port, ports))
  await eventually(() => assert.equal(observed[0]?.price, 100.5e8))
  assert.ok(troubles.includes('garbage'))
})

test('a price feed stops reading a provider’s endless response at the maximum length', async (t) => {
  let written = 0
  const left = Promise.withResolvers<void>()
  const { port, ports } = await provider(t, {
    answers(_request, response) {
      const piece = Buffer.alloc(65_536, ' ')
      const more = (): void => {
        // The answer ends after 64 MiB, in case the client reads all of it.
        if (written > 64 * 1_048_576) response.end('[]')
        else {
          written += piece.length
          response.write(piece, () => setImmediate(more))
        }
      }
      response.on('close', left.resolve)
      more()
    },
  })
  await assert.rejects(binanceAt(port, ports).priceAt('BTC', 1_800_000_000_000, 1_000), {
    code: 'FEED_GARBAGE',
  })
  await left.promise
  assert.ok(written < 32 * 1_048_576, `${written} bytes were taken`)
})

test('a price report above the maximum length is not used, even if its beginning could be parsed', async (t) => {
  const long = { padding: 'x'.repeat(500_000) }
  for (const [pushes, feedAt] of [
    [[aggTrade({ ...long, p: '7' }), aggTrade()], binanceAt],
    [[ticker({ ...long, price: '7' }), ticker()], coinbaseAt],
  ] as const) {
    const { port, ports, observed, troubles, start } = await provider(t, { pushes })
    start(feedAt(port, ports))
    await eventually(() => assert.equal(observed.at(-1)?.price, 100.5e8))
    assert.equal(observed.length, 1)
    assert.ok(troubles.includes('garbage'))
  }
  const { port, ports, observed, troubles, start } = await provider(t, {
    answers(request, response) {
      const isStream = request.url?.includes('/stream') === true
      if (isStream) response.writeHead(200, { 'content-type': 'text/event-stream' })
      if (!isStream) response.writeHead(404).end()
      else response.write(`data:${pythUpdate(long)}\n\ndata:${pythUpdate()}\n\n`)
    },
  })
  start(pythAt(port, ports))
  await eventually(() => assert.ok(observed.length > 0))
  assert.equal(observed.length, 1)
  assert.ok(troubles.includes('garbage'))
})

test('a price feed closes the connection to a silent provider, even if the provider keeps it open', async (t) => {
  const { port, ports, troubles, open, start } = await provider(t, { timing: { silenceMs: 150 } })
  const feed = coinbaseAt(port, ports)
  start(feed)
  await eventually(() => assert.ok(troubles.filter((trouble) => trouble === 'silent').length >= 4))
  feed.stop()
  // A keep-alive connection of an HTTP client may stay open.
  await eventually(() => assert.ok(open() <= 1, `${open()} are open`))
})

test('a price with a confidence interval below the smallest price unit is accepted', async (t) => {
  const { port, ports } = await provider(t, {
    answers: (_request, response) => void response.end(pythUpdate({}, '12', -10)),
  })
  const atMs = Math.floor(systemClock.nowMs() / 1_000) * 1_000
  const found = await pythAt(port, ports).priceAt('BTC', atMs, 60_000)
  assert.equal(found?.price, 1.005e8)
})

test('a price feed does not follow a provider’s redirect to an address that is not configured', async (t) => {
  const trade = () => JSON.stringify([{ p: '7', T: systemClock.nowMs() }])
  let asked = 0
  const elsewhere = await provider(t, {
    answers(_request, response) {
      asked++
      response.end(trade())
    },
  })
  const { port, ports } = await provider(t, {
    answers: (request, response) =>
      void response
        .writeHead(302, { location: `http://127.0.0.1:${elsewhere.port}${request.url}` })
        .end(),
  })
  const feed = binanceAt(port, ports)
  await assert.rejects(feed.priceAt('BTC', systemClock.nowMs() - 1_000, 60_000), {
    code: 'FEED_REFUSED',
  })
  assert.equal(asked, 0)
})
