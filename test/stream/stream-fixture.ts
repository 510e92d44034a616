/**
 * A real front with a stream whose markets run in the test: the real market actor emits events, which the board and the
 * hub receive as if from a market thread. Also a client that keeps every received frame.
 */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { reject } from '#domain/rejection.ts'
import type { Authenticator } from '#http/auth.ts'
import { makeFairTurns } from '#http/fair-turns.ts'
import type { Front } from '#http/server.ts'
import { type MarketBoard, makeBoard } from '#live/market-board.ts'
import { makeFiguresBook } from '#live/market-figures.ts'
import type { MarketView } from '#protocol/market.ts'
import type { QuickMarket, StreamPrice } from '#protocol/shapes/prices.ts'
import { systemClock } from '#runtime/clock.ts'
import { viewOf } from '#services/market/market.ts'
import type { MarketRules } from '#services/market/state.ts'
import { makeStreamHub, type StreamHub, type StreamPorts } from '#stream/hub.ts'
import { stream } from '#stream/routes/stream.ts'
import { type LogLine, startTestFront } from '../http/front-fixture.ts'
import { given, openOrdersIn, START_SEC } from '../services/market/market-fixture.ts'
import { eventually } from '../support/eventually.ts'

export type Given = ReturnType<typeof given>

export const STREAM_SETTINGS: StreamPorts['settings'] = {
  heartbeatMs: 60_000,
  connectionsMax: 1_000,
  connectionsPerIp: 1_000,
  subscriptionsMax: 50,
  subscriptionsPerIp: 50_000,
  subscriptionsTotal: 500_000,
  messagesPerSecond: 10_000,
  messagesBurst: 10_000,
  payloadBytesMax: 16_384,
  idleTimeoutSec: 60,
  bufferBytesMax: 65_536,
  lagMsMax: 60_000,
  requestsInFlightMax: 10,
  reconnectSpreadMs: 100,
  deadlineMs: 120_000,
  replayMessages: 1_000,
  replayBytes: 1_000_000,
  replayBytesTotal: 10_000_000,
  lingerMs: 60_000,
  lingeringMax: 100,
}

export type TestStream = {
  readonly front: Front
  readonly hub: StreamHub
  readonly board: MarketBoard
  readonly url: string
  readonly lines: LogLine[]
  readonly markets: readonly Given[]
  /** Sends the front the new events of its markets. */
  flow(): void
  /** Discards the markets' new events as if they were lost, and loads the current state into the front. */
  lose(): void
  /** Loads the markets again. `dozed` is true if the front has not received their orders and trades until now. */
  load(dozed: boolean): void
  connect(): Promise<StreamClient>
}

export type StreamOptions = {
  readonly markets?: number
  /** Indexes of markets that are complementary. */
  readonly complementary?: readonly number[]
  readonly settings?: Partial<StreamPorts['settings']>
  /** The orders of sessions in these markets. */
  readonly sessions?: MarketRules['sessions']
  readonly parts?: Partial<Omit<StreamPorts, 'authenticator'>> & {
    readonly authenticator?: Pick<Authenticator, 'identify'> & Partial<Authenticator>
  }
  /** Returns whether the owner of a market is confirmed. Without a market, returns whether all owners are. */
  readonly isCurrent?: MarketBoard['isCurrent']
  /** Figures of the markets in the database. */
  readonly stored?: Parameters<typeof makeFiguresBook>[0]['stored']
}

export function marketIdOf(index: number): MarketId {
  return `0x${(index + 1).toString(16).padStart(2, '0').repeat(32)}` as MarketId
}

export async function startStream(
  t: TestContext,
  options: StreamOptions = {},
): Promise<TestStream> {
  const markets = Array.from({ length: options.markets ?? 1 }, (_, index) =>
    given({
      market: {
        id: marketIdOf(index),
        ...(options.complementary?.includes(index) ? { matching: 'complementary' } : {}),
      },
      ...(options.sessions === undefined ? {} : { sessions: options.sessions }),
    }),
  )
  const told = markets.map(() => 0)
  for (const market of markets) {
    market.ask('OpenMarket', { market: market.state.market })
  }
  const settings = { ...STREAM_SETTINGS, ...options.settings }
  let front: Front | undefined
  const figures = makeFiguresBook({
    board: () => board,
    stored: options.stored ?? (async () => []),
    clock: systemClock,
  })
  const hub: StreamHub = makeStreamHub({
    board: () => board,
    figures,
    gateway: {
      openOrdersPage: async ({ trader, limit }) =>
        openOrdersIn(
          markets.map(({ state }) => state),
          trader,
          limit,
        ),
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
    eventMarkets: async () => undefined,
    bearer: false,
    publish: (topic, text) => void front?.publish(topic, text),
    settings,
    clock: systemClock,
    // This clock stands still, so no work seems to take time. On a busy machine, frames would otherwise wait for a
    // later turn.
    turns: makeFairTurns({ nowMs: () => 0 }),
    log: { debug() {}, info() {}, warn() {}, error() {} },
    ...options.parts,
    authenticator: {
      identify: async () => reject('UNAUTHORIZED_INVALID_TOKEN'),
      confirm: async () => reject('UNAUTHORIZED_KEY_NOT_FOUND'),
      ...options.parts?.authenticator,
    },
  })
  const board: MarketBoard = makeBoard(
    { isWhole: () => true, isCurrent: options.isCurrent ?? (() => true) },
    hub,
  )
  const started = await startTestFront(t, {}, { routes: [stream(hub, settings)] })
  front = started.front
  const url = started.url.replace('http', 'ws')
  const clients: StreamClient[] = []
  started.beforeClose.push(async () => {
    for (const client of clients) client.close()
  })

  function news(index: number): MarketEvent[] {
    const { events } = markets[index]!
    const some = events.slice(told[index])
    told[index] = events.length
    return some
  }

  const test: TestStream = {
    front,
    hub,
    board,
    url,
    lines: started.lines,
    markets,
    flow() {
      for (const index of markets.keys()) assert.ok(board.follow(news(index)))
    },
    lose: () => test.load(false),
    load(dozed) {
      for (const [index, { state }] of markets.entries()) {
        news(index)
        board.load(structuredClone(viewOf(state)) as MarketView, dozed)
      }
    },
    async connect() {
      const client = await StreamClient.open(`${url}/api/v1/stream`)
      clients.push(client)
      return client
    },
  }
  test.flow()
  return test
}

export function priceOf(timestamp: number, asset = 'BTC'): StreamPrice {
  return { asset, price: 6_543_210_000_000, priceUSD: 65_432.1, timestamp, source: 'test' }
}

export function quickMarketOf(id: number, asset = 'BTC'): QuickMarket {
  return {
    id,
    marketId: marketIdOf(id),
    asset,
    intervalMinutes: 15,
    startPrice: 6_543_210_000_000,
    startTime: START_SEC,
    endTime: START_SEC + 900,
    resolved: false,
    priceSource: 'test',
    createdAt: START_SEC,
    endPrice: null,
    outcome: null,
  }
}

export type Frame = { readonly type: string } & Readonly<Record<string, unknown>>

export class StreamClient {
  readonly frames: Frame[] = []
  readonly ws: WebSocket
  closed: { code: number; reason: string } | undefined
  onFrame: ((frame: Frame) => void) | undefined
  #read = 0

  constructor(ws: WebSocket) {
    this.ws = ws
    ws.addEventListener('message', ({ data }) => {
      const frame = JSON.parse(data as string) as Frame
      this.frames.push(frame)
      this.onFrame?.(frame)
    })
    ws.addEventListener('close', ({ code, reason }) => {
      this.closed = { code, reason }
    })
  }

  static async open(url: string): Promise<StreamClient> {
    const client = new StreamClient(new WebSocket(url))
    await client.next('hello')
    return client
  }

  say(frame: unknown): void {
    this.ws.send(typeof frame === 'string' ? frame : JSON.stringify(frame))
  }

  /** Returns the next unread frame of this type. Without a type, returns the next unread frame that is no heartbeat. */
  async next(type?: string): Promise<Frame> {
    return eventually(() => {
      const found = this.frames.findIndex(
        (frame, at) =>
          at >= this.#read &&
          (type === undefined ? frame.type !== 'heartbeat' : frame.type === type),
      )
      assert.ok(found >= 0, `no ${type ?? 'frame'} among ${this.frames.length}`)
      this.#read = found + 1
      return this.frames[found]!
    })
  }

  /**
   * Sends a frame, and returns the next unread frame of this type. Without a type, returns the next unread frame that
   * is no heartbeat.
   */
  async ask(frame: object, type?: string): Promise<Frame> {
    this.say(frame)
    return this.next(type)
  }

  async ended(): Promise<{ code: number; reason: string }> {
    return eventually(() => {
      assert.ok(this.closed !== undefined, 'it is still open')
      return this.closed
    })
  }

  close(): void {
    this.ws.close()
  }
}
