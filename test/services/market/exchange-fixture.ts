/**
 * Runs the real market and store threads under the real supervisor. Relay threads take the place of the fronts and
 * exchange messages with the test. The data folder survives a stop and a start.
 */

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadSettings } from '#config/settings.ts'
import { databaseUrlOf, type ThreadData, topologyOf } from '#config/thread-data.ts'
import {
  frontThreadName,
  marketThreadName,
  threadOfMarket as threadNumberOf,
} from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { readRows } from '#log/packed-event.ts'
import type { OpenOrder } from '#protocol/market.ts'
import type { MarketFollowerProtocol } from '#protocol/market-followers.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { Unanswered } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import type { ThreadSpec } from '#runtime/host.ts'
import { makeSupervisor } from '#runtime/supervisor.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import { type OrderStream, TRADERS } from './order-stream.ts'

export type RelayData = { name: string; airwave: string; deadlineMs: number }
export type RelayCall = {
  to: string
  calls: { id: number; peer: string; type: keyof MarketThreadProtocol; message: unknown }[]
}

/** Events and answers that a relay received, in order. */
export type Heard =
  | { readonly event: MarketEvent }
  | { readonly reloaded: MarketFollowerProtocol['MarketsReloaded']['takes'] }
  | { readonly answer: unknown }

type Ask = {
  [K in keyof MarketThreadProtocol]: [K, MarketThreadProtocol[K]['takes']]
}[keyof MarketThreadProtocol]

export type ExchangeOptions = {
  readonly env?: Readonly<Record<string, string>>
  readonly relays?: number
  readonly store?: boolean
}

type Start = (options?: ExchangeOptions) => Promise<Exchange>

/** Runs a test with a data folder, and stops everything that the test started. */
export async function withExchanges(
  body: (start: Start, dataDir: string) => Promise<void>,
): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-actors-'))
  const started: Exchange[] = []
  try {
    await body(async (options) => {
      const exchange = await startExchange(dataDir, options)
      started.push(exchange)
      return exchange
    }, dataDir)
    for (const { gaveUp } of started) assert.deepEqual(gaveUp, [])
  } catch (error) {
    const noted = started.flatMap((exchange) => exchange.noted)
    if (error instanceof Error) error.message += `\n${noted.join('\n')}`
    throw error
  } finally {
    for (const exchange of started) await exchange.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

export async function startExchange(dataDir: string, options: ExchangeOptions = {}) {
  const settings = loadSettings({
    SIBYL_PROFILE: 'default',
    SIBYL_DATA_DIR: dataDir,
    SIBYL_LOG_LEVEL: 'silent',
    SIBYL_LOG_PARTITIONS: '4',
    SIBYL_RESTART_BACKOFF_MS: '1',
    SIBYL_RESTART_BACKOFF_MS_MAX: '20',
    SIBYL_RESTARTS_MAX: '1000',
    // The interval is so long that a thread does not count as hanging if it gets no CPU time for a moment.
    SIBYL_HEALTH_INTERVAL_MS: '60000',
    SIBYL_FRONT_THREADS: String(options.relays ?? 1),
    ...options.env,
  })
  const topology = topologyOf(settings)
  const databaseUrl = databaseUrlOf(settings)
  const withStore = options.store ?? true
  if (withStore) {
    const database = await openDatabase(databaseUrl)
    await migrate(database).finally(() => closeDatabase(database))
  }
  const markets = Array.from({ length: topology.marketThreads }, (_, index) =>
    marketThreadName(index),
  )
  const relays = Array.from({ length: options.relays ?? 1 }, (_, index) => frontThreadName(index))
  const airwave = randomUUID()
  const entry = (path: string) => new URL(path, import.meta.url)
  const specs: ThreadSpec[] = [
    ...markets.map((name, index) => ({
      name,
      kind: 'market',
      entry: entry('../../../workers/market.ts'),
      data: { name, index, settings, isTerminal: false } satisfies Partial<ThreadData>,
      links: withStore ? ['store', ...relays] : relays,
      terminable: true,
    })),
    ...(withStore
      ? [
          {
            name: 'store',
            kind: 'store',
            entry: entry('../../../workers/store.ts'),
            data: { name: 'store', index: 0, settings, isTerminal: false },
            links: markets,
            terminable: true,
          },
        ]
      : []),
    // Trades settle if the environment has a settlement key.
    ...(withStore && settings.keys.settlement !== ''
      ? [
          {
            name: 'settlement',
            kind: 'settlement',
            entry: entry('../../../workers/chain.ts'),
            data: { name: 'settlement', index: 0, settings, isTerminal: false },
            links: [...markets, 'store'],
            terminable: true,
          },
        ]
      : []),
    ...relays.map((name) => ({
      name,
      kind: 'relay',
      entry: entry('./threads/relay.ts'),
      data: { name, airwave, deadlineMs: 60_000 } satisfies RelayData,
      links: markets,
      terminable: true,
    })),
  ]
  const quiet = () => {}
  /** The supervisor's output, shown after an unexpected failure. */
  const noted: string[] = []
  const note = (_fields: object, line: string) => void noted.push(line)
  const gaveUp: string[] = []
  const supervisor = makeSupervisor({
    clock: systemClock,
    log: { info: quiet, warn: note, error: note },
    ...settings.supervisor,
    restartPauseMs: () => settings.supervisor.restartBackoffMs,
    onGivingUp: (thread, why) => gaveUp.push(`${thread}: ${why}`),
  })

  const air = new BroadcastChannel(airwave)
  const waiting = new Map<number, (answer: unknown) => void>()
  const received = new Map<string, Heard[]>(relays.map((name) => [name, []]))
  const linked = new Map<string, number>()
  const linkWaiters: (() => void)[] = []
  let nextId = 1
  let stopped: Promise<boolean> | undefined
  air.onmessage = (event) => {
    const { data } = event as unknown as {
      data: {
        from: string
        id?: number
        answer?: unknown
        type?: keyof MarketFollowerProtocol
        message?: unknown
        linked?: string
      }
    }
    const story = received.get(data.from)
    if (story === undefined) return
    if (data.linked !== undefined) {
      const link = `${data.from} ${data.linked}`
      linked.set(link, (linked.get(link) ?? 0) + 1)
      for (const done of linkWaiters.splice(0)) done()
    } else if (data.type === 'MarketEvents') {
      const { rows } = data.message as MarketFollowerProtocol['MarketEvents']['takes']
      for (const said of readRows(rows)) story.push({ event: said })
    } else if (data.type === 'MarketsReloaded') {
      story.push({ reloaded: data.message as MarketFollowerProtocol['MarketsReloaded']['takes'] })
    } else if (data.id !== undefined) {
      story.push({ answer: data.answer })
      waiting.get(data.id)?.(data.answer)
      waiting.delete(data.id)
    }
  }

  /** Waits until every relay has been linked to the thread this many times. */
  async function untilLinked(thread: string, times: number): Promise<void> {
    while (relays.some((relay) => (linked.get(`${relay} ${thread}`) ?? 0) < times)) {
      await new Promise<void>((resolve) => linkWaiters.push(resolve))
    }
  }

  const threadOfMarket = (marketId: MarketId) =>
    marketThreadName(threadNumberOf(marketId, topology))

  function askMany(relay: string, asks: readonly (readonly [string, ...Ask])[]) {
    const answers: Promise<unknown>[] = []
    const calls = asks.map(([peer, type, message]) => {
      const id = nextId++
      answers.push(new Promise((resolve) => waiting.set(id, resolve)))
      return { id, peer, type, message }
    })
    air.postMessage({ to: relay, calls })
    return Promise.all(answers)
  }

  await supervisor.start(specs)
  for (const thread of markets) await untilLinked(thread, 1)

  return {
    settings,
    databaseUrl,
    supervisor,
    markets,
    gaveUp,
    noted,
    received,
    threadOfMarket,
    linkedTimes: (thread: string) => linked.get(`${relays[0]} ${thread}`) ?? 0,
    untilLinked,
    /** Sends a request to a market's thread through the first relay; resolves even if no answer arrives. */
    async ask<K extends keyof MarketThreadProtocol>(
      marketId: MarketId,
      type: K,
      message: MarketThreadProtocol[K]['takes'],
    ): Promise<MarketThreadProtocol[K]['answers'] | Unanswered> {
      const [answer] = await askMany('front-0', [
        [threadOfMarket(marketId), type, message] as never,
      ])
      return answer as MarketThreadProtocol[K]['answers'] | Unanswered
    },
    /** Sends several requests in one turn of the event loop. */
    askAll: (asks: readonly { marketId: MarketId; ask: Ask }[], relay = 'front-0') =>
      askMany(
        relay,
        asks.map(({ marketId, ask }) => [threadOfMarket(marketId), ...ask] as never),
      ),
    askThread: (thread: string, ...ask: Ask) =>
      askMany('front-0', [[thread, ...ask] as never]).then(([answer]) => answer),
    /** Stops the exchange once. Returns whether every thread ended by itself. */
    stop() {
      stopped ??= supervisor.stop().finally(() => air.close())
      return stopped
    },
  }
}

export type Exchange = Awaited<ReturnType<typeof startExchange>>

export async function openMarkets(exchange: Exchange, stream: OrderStream): Promise<void> {
  await exchange.askAll(
    stream.markets.map((market) => ({ marketId: market.id, ask: ['OpenMarket', { market }] })),
  )
}

export async function openOrders(exchange: Exchange): Promise<OpenOrder[]> {
  const open: OpenOrder[] = []
  for (const thread of exchange.markets) {
    for (const trader of TRADERS) {
      const answer = await exchange.askThread(thread, 'OpenOrdersPage', { trader, limit: 1e6 })
      open.push(...(answer as { orders: OpenOrder[] }).orders)
    }
  }
  return open
}
