/** The price providers that the settings name, each with its feed. */

import { WebSocket } from 'ws'
import type { Settings } from '#config/settings-schema.ts'
import type { PriceSource } from '#domain/asset-price.ts'
import { makeBinance } from '../feeds/binance.ts'
import { makeCoinbase } from '../feeds/coinbase.ts'
import type { Feed, FeedPorts, FeedSocket } from '../feeds/feed.ts'
import { makePyth } from '../feeds/pyth.ts'

const PYTH_CONFIDENCE_MAX = 0.01
/** What a provider may send in one message. */
const MESSAGE_BYTES_MAX = 1_048_576

/**
 * What is elsewhere than at the address of the settings is not that provider's: it is refused by its status. Not by
 * `redirect: 'error'`: asked for so, a stream keeps its socket when it is given up, and the thread never ends.
 */
export const fetchFromFeed: FeedPorts['fetch'] = (url, init) =>
  fetch(url, { ...init, redirect: 'manual' })

/**
 * Not Node's own, which cannot be ended without an answer: a provider that is silent gives none, and each
 * connection that was given up would stay.
 */
export function openFeedSocket(url: string): FeedSocket {
  const socket = new WebSocket(url, { maxPayload: MESSAGE_BYTES_MAX })
  return {
    addEventListener: socket.addEventListener.bind(socket) as FeedSocket['addEventListener'],
    send: (text) => socket.send(text),
    close: () => socket.terminate(),
  }
}

/** Only those that know an address and at least one asset. */
export function makeFeeds(
  rules: Settings['feeds'],
  { clock, fetch, openSocket }: Pick<FeedPorts, 'clock' | 'fetch' | 'openSocket'>,
  hearing: (source: PriceSource) => Pick<FeedPorts, 'heard' | 'troubled'>,
): Feed[] {
  const portsOf = (source: PriceSource): FeedPorts => ({
    ...{ clock, fetch, openSocket },
    ...hearing(source),
  })
  const known = <T>(names: Readonly<Record<string, T>>): Record<string, T> =>
    Object.fromEntries(Object.entries(names).filter(([asset]) => rules.assets.includes(asset)))
  const { pyth, binance, coinbase } = rules
  const ids = known(pyth.ids)
  const symbols = known(binance.symbols)
  const products = known(coinbase.products)
  const has = (names: object): boolean => Object.keys(names).length > 0
  const made: Feed[] = []
  if (pyth.url !== '' && has(ids)) {
    const options = { ...pyth, ids, confidenceMax: PYTH_CONFIDENCE_MAX }
    made.push(makePyth(options, portsOf('pyth')))
  }
  if (binance.url !== '' && binance.socketUrl !== '' && has(symbols)) {
    made.push(makeBinance({ ...binance, symbols }, portsOf('binance')))
  }
  if (coinbase.url !== '' && coinbase.socketUrl !== '' && has(products)) {
    made.push(makeCoinbase({ ...coinbase, products }, portsOf('coinbase')))
  }
  return made
}
