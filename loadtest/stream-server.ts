/**
 * The two servers that `stream-bench.ts` compares. Each runs in its own process and publishes on request. `hub` is the
 * exchange's front with its stream, and publishes the events of one busy market. `bare` is uWebSockets.js alone. It
 * publishes the bytes that `hub` would publish, to the same number of sockets.
 */

import { App, us_socket_local_port } from 'uWebSockets.js'
import type { MarketId } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, type Outcome, SELL, type Side, YES } from '#domain/order.ts'
import { reject } from '#domain/rejection.ts'
import { type Front, startFront } from '#http/server.ts'
import { type BoardListener, type MarketBoard, makeBoard } from '#live/market-board.ts'
import { makeFiguresBook } from '#live/market-figures.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeChannels } from '#stream/channels.ts'
import { makeStreamHub } from '#stream/hub.ts'
import { stream } from '#stream/routes/stream.ts'
import { MARKET_ID_TEXT, type ToServer } from './stream-wire.ts'

const MARKET_ID = MARKET_ID_TEXT as MarketId
const ADDRESS = `0x${'11'.repeat(20)}` as Market['maker']
const HASH = `0x${'22'.repeat(32)}` as never
const BUFFER_BYTES = 262_144
/**
 * The longest possible idle timeout. Deliberately stalled readers answer no ping, and a shorter timeout would close
 * their sockets.
 */
const IDLE_SEC = 960
/** Levels of each side of the book. */
const LEVELS = 20

let seq = 0
const steps = [0, 0]

/**
 * Returns the next event. The first event opens the market. Later events alternate between a series of orders that rest
 * near the middle price and the cancels of these orders.
 */
function nextEvent(outcome: Outcome = YES): MarketEvent {
  seq++
  if (seq === 1) {
    const market = {
      id: MARKET_ID,
      question: '',
      description: '',
      category: 'general',
      contractAddress: ADDRESS,
      maker: ADDRESS,
      expiration: 4_000_000_000,
      chainId: 1,
      createdAt: 0,
      quick: false,
    } as const
    return { type: 'MarketOpened', marketId: MARKET_ID, seq, atMs: Date.now(), market }
  }
  const step = steps[outcome]!++
  const turn = step % (2 * LEVELS)
  const side: Side = turn % 2 === 0 ? BUY : SELL
  const price = (side === BUY ? 500_000 - turn : 500_001 + turn) as Price
  const fields = {
    marketId: MARKET_ID,
    seq,
    atMs: Date.now(),
    orderHash: HASH,
    trader: ADDRESS,
    side,
    outcome,
    price,
    size: 5_000_000 as Shares,
    expiresAtSec: 4_000_000_000,
    placedAtMs: 0,
    matches: 0,
  }
  const rests = Math.floor(step / (2 * LEVELS)) % 2 === 0
  const remaining = 5_000_000 as Shares
  return rests
    ? { type: 'OrderRested', ...fields, added: remaining, remaining }
    : { type: 'OrderClosed', ...fields, reason: 'cancelled', remaining }
}

const limits = {
  replayMessages: 1_000,
  replayBytes: 262_144,
  replayBytesTotal: 67_108_864,
  lingerMs: 60_000,
  lingeringMax: 1_000,
}

type Server = {
  readonly port: number
  readonly publish: (outcome: Outcome) => void
  readonly lagging: () => number
}

async function startHub(): Promise<Server> {
  let front: Front | undefined
  const settings = {
    ...limits,
    heartbeatMs: 15_000,
    connectionsMax: 1_000_000,
    connectionsPerIp: 1_000_000,
    subscriptionsMax: 100,
    subscriptionsPerIp: 10_000_000,
    subscriptionsTotal: 10_000_000,
    messagesPerSecond: 50,
    messagesBurst: 200,
    payloadBytesMax: 16_384,
    idleTimeoutSec: IDLE_SEC,
    bufferBytesMax: BUFFER_BYTES,
    lagMsMax: 600_000,
    requestsInFlightMax: 10,
    reconnectSpreadMs: 1_000,
    deadlineMs: 5_000,
  }
  const silent = { debug() {}, info() {}, warn() {}, error() {} }
  const figures = makeFiguresBook({
    board: () => board,
    stored: async () => [],
    clock: systemClock,
  })
  const hub = makeStreamHub({
    board: () => board,
    figures,
    gateway: {
      openOrdersPage: async () => ({ orders: [], count: 0 }),
      cancel: async () => reject('ORDER_NOT_FOUND'),
    },
    orders: {
      verify: async () => reject('MARKET_CLOSED'),
      enter: async () => reject('MARKET_CLOSED'),
    },
    own: {
      cancelAll: async () => reject('MARKET_CLOSED'),
      deadman: async () => reject('MARKET_CLOSED'),
      traderOf: async ({ address }) => address,
    },
    authenticator: {
      identify: async () => reject('UNAUTHORIZED_INVALID_TOKEN'),
      confirm: async () => reject('UNAUTHORIZED_KEY_NOT_FOUND'),
    },
    eventMarkets: async () => undefined,
    bearer: false,
    publish: (topic, text) => void front?.publish(topic, text),
    settings,
    clock: systemClock,
    log: silent,
  })
  const board: MarketBoard = makeBoard({ isWhole: () => true, isCurrent: () => true }, hub)
  board.follow([nextEvent()])
  front = await startFront({
    routes: [stream(hub, settings)],
    settings: {
      host: '127.0.0.1',
      port: 0,
      corsOrigins: ['*'],
      deadlineMs: 5_000,
      requestsInFlightMax: 100_000,
      connectionsMax: 1_000_000,
    },
    services: { readiness: () => ({ store: { ok: true } }) },
    info: { title: 'Sibyl', version: '0' },
    log: silent,
  })
  return {
    port: front.port,
    publish: (outcome) => void board.follow([nextEvent(outcome)]),
    lagging: () => hub.figures().lagging,
  }
}

/** Returns the first `count` texts that the hub would publish. */
function textsOf(count: number): string[] {
  const texts: string[] = []
  const listener: BoardListener = {
    followed: (shown, event) => channels.followed(shown, event),
    loaded: () => undefined,
    forgotten: () => undefined,
  }
  const board = makeBoard({ isWhole: () => true, isCurrent: () => true }, listener)
  const figures = makeFiguresBook({
    board: () => board,
    stored: async () => [],
    clock: systemClock,
  })
  const channels = makeChannels<object>({
    board: () => board,
    figures,
    limits,
    clock: systemClock,
    hooks: { publish: (_topic, text) => texts.push(text), broken() {}, flushed() {} },
  })
  board.follow([nextEvent()])
  const feed = channels.feedOf({ channel: 'book', marketId: MARKET_ID, outcome: YES })
  if ('rejected' in feed) throw new Error('the book of the test market cannot be followed')
  channels.join(feed, {})
  while (texts.length < count) board.follow([nextEvent()])
  return texts
}

function startBare(): Promise<Server> {
  const texts = textsOf(4 * LEVELS * 10)
  let at = 0
  const app = App()
  app.ws('/api/v1/stream', {
    maxBackpressure: BUFFER_BYTES,
    idleTimeout: IDLE_SEC,
    open(ws) {
      ws.send('{"type":"hello"}')
    },
    message(ws) {
      ws.subscribe('book')
      ws.send('{"type":"subscribed"}')
      ws.send('{"type":"book.snapshot"}')
    },
  })
  return new Promise((resolve) => {
    app.listen('127.0.0.1', 0, (socket) => {
      if (socket === false) throw new Error('no port')
      resolve({
        port: us_socket_local_port(socket as never),
        publish: () => void app.publish('book', texts[at++ % texts.length]!),
        lagging: () => 0,
      })
    })
  })
}

const server = await (process.argv[2] === 'hub' ? startHub() : startBare())
process.on('message', (message: ToServer) => {
  if (message === 'figures') {
    const { user, system } = process.cpuUsage()
    process.send?.({
      cpuMs: (user + system) / 1_000,
      rssBytes: process.memoryUsage().rss,
      lagging: server.lagging(),
    })
  } else for (let count = 0; count < message.publish; count++) server.publish(message.outcome)
})
process.on('disconnect', () => process.exit(0))
process.send?.({ port: server.port })
