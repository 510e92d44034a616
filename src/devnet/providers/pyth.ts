/** Simulated Pyth: server-sent events, and latest and past prices over HTTP, with an API key. */

import { PRICE_DECIMALS } from '#domain/asset-price.ts'
import { PRICE_PROVIDERS, type PriceProvider } from '#domain/price-providers.ts'
import { notFound, type ProviderView, type SimulatedProvider } from './provider.ts'

const CENT = 10 ** (PRICE_DECIMALS - 2)
const IDS: PriceProvider['names'] = PRICE_PROVIDERS.pyth.names

/**
 * Returns the id of the asset's feed at the real provider. For an asset without a known id, returns a made-up id of the
 * same form.
 */
const idOf = (asset: string): string =>
  IDS[asset] ?? Buffer.from(asset.padEnd(32, '.')).toString('hex')

function updateOf(
  view: ProviderView,
  atMs: number,
  prices: readonly { readonly asset: string; readonly cents: number; readonly price: string }[],
): string {
  const parsed = prices.map(({ asset, cents, price }) => {
    const report = {
      price,
      conf: String(Math.round(cents * CENT * 0.000_3)),
      expo: -PRICE_DECIMALS,
      publish_time: Math.floor(atMs / 1_000),
    }
    return {
      id: idOf(asset),
      price: report,
      ema_price: report,
      metadata: {
        slot: Math.floor(atMs / 400),
        proof_available_time: Math.floor(atMs / 1_000) + 1,
        prev_publish_time: Math.floor((atMs - view.tickMs) / 1_000),
      },
    }
  })
  const data = [Buffer.from(`PNAU${atMs}`).toString('hex')]
  return JSON.stringify({ binary: { encoding: 'hex', data }, parsed })
}

export const simulatedPyth: SimulatedProvider = {
  shiftMs: 0,
  shiftCents: 0,
  wildFactor: 1.37,
  timeStepMs: 1_000,
  nameOf: idOf,
  speak(view) {
    const shown = (assets: readonly string[], atMs: number): string =>
      updateOf(
        view,
        atMs,
        assets.map((asset) => {
          const cents = view.shownCents(asset, atMs)
          return { asset, cents, price: view.garbagePrice() ?? String(cents * CENT) }
        }),
      )
    const past = (assets: readonly string[], atMs: number): string =>
      updateOf(
        view,
        atMs,
        assets.map((asset) => {
          const cents = view.centsAt(asset, atMs)
          return { asset, cents, price: String(cents * CENT) }
        }),
      )
    const ids = new Map(view.assets.map((asset) => [idOf(asset), asset]))
    const framed = (text: string): string => `data:${text}\n\n`
    return {
      answer({ path, query, authorization }) {
        if (!authorization.startsWith('Bearer ')) {
          return { status: 401, body: '"an API key is needed"' }
        }
        const asked = query.getAll('ids[]').map((id) => ids.get(id.replace(/^0x/, '')) ?? '')
        if (!view.areKnown(asked)) return notFound
        if (path === '/v2/updates/price/stream') {
          return { status: 200, follow: (to) => view.follow(to, asked) }
        }
        if (path === '/v2/updates/price/latest') {
          return { status: 200, body: shown(asked, view.newestTick()) }
        }
        const sec = Number(/^\/v2\/updates\/price\/([0-9]{1,11})$/.exec(path)?.[1])
        const atMs = view.tickFrom(sec * 1_000)
        return view.isPast(atMs) ? { status: 200, body: past(asked, atMs) } : notFound
      },
      accept: () => undefined,
      pushed: (assets, atMs) => [framed(shown(assets, atMs))],
      framed,
      heartbeats: () => [],
    }
  },
}
