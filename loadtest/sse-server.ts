/**
 * The two servers that `sse-bench.ts` compares, each in a process of its own. `front`: the front with its price stream,
 * fed with prices of one asset. `bare`: uWebSockets.js alone, which writes the same bytes to the same number of
 * responses. Each server writes only when it is told to.
 */

import { App, type HttpResponse, us_socket_local_port } from 'uWebSockets.js'
import { priceRoutes } from '#api/prices/prices.ts'
import { startFront } from '#http/server.ts'
import { makeSseHub } from '#http/sse.ts'
import { makePriceBoard } from '#live/price-board.ts'
import type { PublishedPrice } from '#protocol/prices.ts'
import { systemClock } from '#runtime/clock.ts'

const ASSET = 'BTC'
let number = 0

function nextPrice(): PublishedPrice {
  number++
  const atMs = 1_800_000_000_000 + number * 250
  const price = 6_400_000_000_000 + (number % 1_000) * 1_000_000
  return { asset: ASSET, price, atMs, source: 'pyth', number: 1_800_000_000_000 + number }
}

type Server = { readonly port: number; readonly publish: () => void }

async function startOurs(): Promise<Server> {
  const hub = makeSseHub(
    { readersMax: 1_000_000, keepAliveMs: 600_000, lagMsMax: 600_000 },
    systemClock,
  )
  const board = makePriceBoard(
    { assets: [ASSET], replayEvents: 1_200 },
    {
      priced: () => undefined,
      streamed: (asset, text) => hub.publish(asset, text),
      quickMarket: () => undefined,
    },
  )
  board.priced(nextPrice())
  const silent = { debug() {}, info() {}, warn() {}, error() {} }
  const { port } = await startFront({
    routes: priceRoutes({
      board,
      hub,
      urlOf: () => '',
      ageMsMax: 10_000,
      nowMs: systemClock.nowMs,
    }),
    settings: {
      host: '127.0.0.1',
      port: 0,
      corsOrigins: ['*'],
      deadlineMs: 5_000,
      requestsInFlightMax: 100_000,
      connectionsMax: 1_000_000,
    },
    services: { readiness: () => ({}) },
    info: { title: 'Sibyl', version: '0' },
    log: silent,
  })
  return { port, publish: () => board.priced(nextPrice()) }
}

/** Returns `count` texts as the front would write them, one for each new price. */
function textsOf(count: number): string[] {
  const texts: string[] = []
  const board = makePriceBoard(
    { assets: [ASSET], replayEvents: 1 },
    { priced() {}, streamed: (_asset, text) => texts.push(text), quickMarket() {} },
  )
  while (texts.length < count) board.priced(nextPrice())
  return texts
}

function startBare(): Promise<Server> {
  const texts = textsOf(1_000)
  const readers = new Set<HttpResponse>()
  let at = 0
  const app = App()
  app.get('/*', (res) => {
    res.onAborted(() => void readers.delete(res))
    res.cork(() => {
      res.writeHeader('content-type', 'text/event-stream')
      res.write(texts[0]!)
    })
    readers.add(res)
  })
  return new Promise((resolve) => {
    app.listen('127.0.0.1', 0, (socket) => {
      if (socket === false) throw new Error('no port')
      resolve({
        port: us_socket_local_port(socket as never),
        publish() {
          const bytes = Buffer.from(texts[at++ % texts.length]!)
          for (const res of readers) res.cork(() => void res.write(bytes))
        },
      })
    })
  })
}

const server = await (process.argv[2] === 'front' ? startOurs() : startBare())
process.on('message', (message: 'figures' | { readonly publish: number }) => {
  if (message === 'figures') {
    const { user, system } = process.cpuUsage()
    process.send?.({ cpuMs: (user + system) / 1_000 })
  } else for (let count = 0; count < message.publish; count++) server.publish()
})
process.on('disconnect', () => process.exit(0))
process.send?.({ port: server.port })
