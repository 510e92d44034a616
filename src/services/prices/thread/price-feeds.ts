/** Makes the feeds of the price providers in the settings. */

import { WebSocket } from 'ws'
import type { Settings } from '#config/settings-schema.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import type { Feed, FeedPorts, FeedSocket } from '../feeds/feed.ts'
import { FEED_MAKERS } from '../feeds/makers.ts'

/** Maximum size of one message of a provider. */
const MESSAGE_BYTES_MAX = 1_048_576

/**
 * Refuses redirects, because they lead away from the URL in the settings. `redirect: 'error'` would also refuse
 * redirects, but an aborted stream would then keep its socket open, and the thread would never end.
 */
export const fetchFromFeed: FeedPorts['fetch'] = (url, init) =>
  fetch(url, { ...init, redirect: 'manual' })

/**
 * Opens a WebSocket of the library `ws`. When Node's own WebSocket is closed, it waits for the server's answer, so a
 * connection to a silent provider would stay open.
 */
export function openFeedSocket(url: string): FeedSocket {
  const socket = new WebSocket(url, { maxPayload: MESSAGE_BYTES_MAX })
  return {
    addEventListener: socket.addEventListener.bind(socket) as FeedSocket['addEventListener'],
    send: (text) => socket.send(text),
    close: () => socket.terminate(),
  }
}

/** Makes the feeds of providers that have a URL and a name for at least one asset in the settings. */
export function makeFeeds(
  rules: Settings['feeds'],
  { clock, fetch, openSocket }: Pick<FeedPorts, 'clock' | 'fetch' | 'openSocket'>,
  portsOf: (source: PriceSource) => Pick<FeedPorts, 'observed' | 'troubled'>,
): Feed[] {
  const isTraded = ([asset]: [string, string]): boolean => rules.assets.includes(asset)
  return PRICE_SOURCES.flatMap((source) => {
    const settings = rules[source]
    const names = Object.fromEntries(Object.entries(settings.names).filter(isTraded))
    if (settings.url === '' || settings.socketUrl === '' || Object.keys(names).length === 0)
      return []
    const ports = { clock, fetch, openSocket, ...portsOf(source) }
    return [FEED_MAKERS[source]({ ...settings, names }, ports)]
  })
}
