/**
 * The feeds of every provider for tests: over real sockets, or connected directly to a simulator with its own clock.
 */

import { Readable } from 'node:stream'
import type { PriceServer } from '#devnet/price-server.ts'
import { type PriceSimulator, simulatedSettings } from '#devnet/price-simulator.ts'
import type { SimulatedRequest } from '#devnet/providers/provider.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import type { Feed, FeedClock, FeedPorts, FeedSocket } from '#services/prices/feeds/feed.ts'
import { FEED_MAKERS } from '#services/prices/feeds/makers.ts'
import { fetchFromFeed, openFeedSocket } from '#services/prices/thread/price-feeds.ts'

type Addresses = PriceServer['feeds']

export function makeFeeds(
  addresses: Addresses,
  portsOf: (source: PriceSource) => FeedPorts,
): Feed[] {
  return PRICE_SOURCES.map((source) => FEED_MAKERS[source](addresses[source], portsOf(source)))
}

/** The way out of a real process. */
export function livePorts(clock: FeedClock): Pick<FeedPorts, 'clock' | 'fetch' | 'openSocket'> {
  return { clock, fetch: fetchFromFeed, openSocket: openFeedSocket }
}

export const simulatedAddresses = (assets: readonly string[]): Addresses =>
  simulatedSettings(assets, (source) => ({ http: `http://${source}`, socket: `ws://${source}` }))

/**
 * Returns ports that connect feeds directly to the simulator. They carry the same texts as sockets, but work with a
 * simulated clock.
 */
export function simulatedPorts(
  simulator: PriceSimulator,
  clock: FeedClock,
): Pick<FeedPorts, 'clock' | 'fetch' | 'openSocket'> {
  const requestOf = (url: string, authorization: string): [PriceSource, SimulatedRequest] => {
    const { hostname, pathname, searchParams } = new URL(url)
    const path = pathname === '/' ? '' : pathname
    return [hostname as PriceSource, { path, query: searchParams, authorization }]
  }
  return {
    clock,
    async fetch(url, { headers, signal }) {
      const answer = simulator.answer(...requestOf(url, headers.authorization ?? ''))
      if (answer === undefined) throw new Error('hung up')
      const { status } = answer
      const ok = status === 200
      if ('body' in answer) return { ok, status, body: Readable.from([Buffer.from(answer.body)]) }
      const texts = pushedTexts(answer.follow, signal)
      return { ok, status, body: texts }
    },
    openSocket(url) {
      const listeners: Record<string, ((event: { data: unknown }) => void)[]> = {}
      const tell = (type: string, data?: unknown): void => {
        for (const listener of listeners[type] ?? []) listener({ data })
      }
      let over = false
      const close = (): void => {
        if (over) return
        over = true
        taken?.closed()
        tell('close')
      }
      const taken = simulator.accept(...requestOf(url, ''), {
        send: (text) => tell('message', text),
        close,
      })
      clock.after(0, () => {
        if (taken === undefined) tell('error')
        else if (!over) tell('open')
      })
      return {
        addEventListener(type: string, listener: (event: { data: unknown }) => void) {
          listeners[type] ??= []
          listeners[type].push(listener)
        },
        send: (text) => taken?.message(text),
        close,
      } as FeedSocket
    },
  }
}

async function* pushedTexts(
  follow: (to: { send(text: string): void; close(): void }) => () => void,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const waiting: Uint8Array[] = []
  let over = false
  let wake = (): void => undefined
  const end = (): void => {
    over = true
    wake()
  }
  const leave = follow({
    send(text) {
      waiting.push(Buffer.from(text))
      wake()
    },
    close: end,
  })
  signal.addEventListener('abort', end)
  try {
    for (;;) {
      const next = waiting.shift()
      if (next !== undefined) yield next
      else if (over) return
      else {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    }
  } finally {
    leave()
  }
}
