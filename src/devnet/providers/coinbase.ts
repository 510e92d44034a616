/** Simulated Coinbase: `ticker` and `heartbeat` over a WebSocket; the ticker and candles over HTTP. */

import { badRequest, notFound, type SimulatedProvider, usd } from './provider.ts'

const CANDLES_MAX = 300

export const simulatedCoinbase: SimulatedProvider = {
  shiftMs: 263,
  shiftCents: -9,
  wildFactor: 1.19,
  timeStepMs: 1,
  nameOf: (asset) => `${asset}-USD`,
  speak(view) {
    function ticker(asset: string, atMs: number) {
      const cents = view.shownCents(asset, atMs)
      return {
        price: view.garbagePrice() ?? usd(cents, 2),
        time: new Date(atMs).toISOString().replace('Z', '000Z'),
        trade_id: Math.floor(atMs / view.tickMs),
        best_bid: usd(cents - 1, 2),
        best_ask: usd(cents + 1, 2),
      }
    }
    function candles(asset: string, startSec: number, endSec: number): number[][] {
      const found: number[][] = []
      for (let sec = startSec; sec <= endSec && found.length < CANDLES_MAX; sec += 60) {
        const first = view.tickFrom(sec * 1_000)
        if (!view.isPast(first)) continue
        const open = view.centsAt(asset, first) / 100
        found.unshift([sec, open, open, open, open, 1])
      }
      return found
    }
    return {
      answer({ path, query }) {
        const parts = /^\/products\/([A-Z0-9]+)-USD\/(ticker|candles)$/.exec(path)
        const asset = parts?.[1] ?? ''
        if (!view.areKnown([asset])) return notFound
        if (parts?.[2] === 'ticker') {
          const { best_bid: bid, best_ask: ask, ...rest } = ticker(asset, view.newestTick())
          const body = JSON.stringify({ ...rest, bid, ask, size: '1', volume: '9' })
          return { status: 200, body }
        }
        if (query.get('granularity') !== '60') return badRequest
        const found = candles(asset, Number(query.get('start')), Number(query.get('end')))
        return { status: 200, body: JSON.stringify(found) }
      },
      accept(_, to) {
        let leave: () => void = () => undefined
        return {
          message(text) {
            const { type, product_ids: products } = readFrame(text)
            const asked = (products ?? []).map((product) => product.replace(/-USD$/, ''))
            if (type !== 'subscribe' || !view.areKnown(asked)) {
              to.send(JSON.stringify({ type: 'error', message: 'Failed to subscribe' }))
              return
            }
            leave()
            leave = view.follow(to, asked)
            const channels = [{ name: 'ticker', product_ids: products }]
            to.send(JSON.stringify({ type: 'subscriptions', channels }))
          },
          closed: () => leave(),
        }
      },
      pushed: (assets, atMs) =>
        assets.map((asset) => {
          const shown = ticker(asset, atMs)
          const about = { type: 'ticker', sequence: shown.trade_id, product_id: `${asset}-USD` }
          return JSON.stringify({ ...about, side: 'buy', last_size: '0.015', ...shown })
        }),
      framed: (text) => text,
      heartbeats(assets) {
        const time = new Date(view.nowMs()).toISOString()
        const sequence = Math.floor(view.nowMs() / view.tickMs)
        return assets.map((asset) => {
          const about = { type: 'heartbeat', sequence, last_trade_id: sequence }
          return JSON.stringify({ ...about, product_id: `${asset}-USD`, time })
        })
      },
    }
  },
}

function readFrame(text: string): { type?: string; product_ids?: string[] } {
  try {
    const frame: unknown = JSON.parse(text)
    return typeof frame === 'object' && frame !== null ? frame : {}
  } catch {
    return {}
  }
}
