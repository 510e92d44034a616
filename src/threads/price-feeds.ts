/** The price providers that the settings name, each with its feed. */

import type { Settings } from '#config/settings-schema.ts'
import type { PriceSource } from '#domain/asset-price.ts'
import { makeBinance } from '#feeds/binance.ts'
import { makeCoinbase } from '#feeds/coinbase.ts'
import type { Feed, FeedPorts } from '#feeds/feed.ts'
import { makePyth } from '#feeds/pyth.ts'
import { systemClock } from '#runtime/clock.ts'

const PYTH_CONFIDENCE_MAX = 0.01

/** Only those that know an address and at least one asset. */
export function makeFeeds(
  rules: Settings['feeds'],
  hearing: (source: PriceSource) => Pick<FeedPorts, 'heard' | 'troubled'>,
): Feed[] {
  const portsOf = (source: PriceSource): FeedPorts => ({
    clock: systemClock,
    fetch: (url, init) => fetch(url, init),
    openSocket: (url) => new WebSocket(url),
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
