/** Simulated Binance: aggregated trades over a WebSocket, and the same trades over HTTP. */

import { badRequest, notFound, type SimulatedProvider, usd } from './provider.ts'

export const simulatedBinance: SimulatedProvider = {
  shiftMs: 137,
  shiftCents: 12,
  wildFactor: 0.71,
  timeStepMs: 1,
  nameOf: (asset) => `${asset}USDT`,
  speak(view) {
    function trade(atMs: number, price: string) {
      const id = Math.floor(atMs / view.tickMs)
      const ids = { a: id, p: price, q: '0.01500000', f: id * 2, l: id * 2 + 1 }
      return { ...ids, T: atMs, m: id % 2 === 0, M: true }
    }
    const shown = (asset: string, atMs: number) =>
      trade(atMs, view.garbagePrice() ?? usd(view.shownCents(asset, atMs), 8))

    function past(asset: string, fromMs: number, untilMs: number, limit: number) {
      const trades: object[] = []
      let atMs = view.tickFrom(fromMs)
      for (; atMs <= untilMs && trades.length < limit && view.isPast(atMs); atMs += view.tickMs) {
        trades.push(trade(atMs, usd(view.centsAt(asset, atMs), 8)))
      }
      return trades
    }
    return {
      answer({ path, query }) {
        const asset = /^([A-Z0-9]+)USDT$/.exec(query.get('symbol') ?? '')?.[1] ?? ''
        if (path !== '/api/v3/aggTrades') return notFound
        if (!view.areKnown([asset])) return badRequest
        const from = query.get('startTime')
        const until = Math.min(Number(query.get('endTime') ?? view.nowMs()), view.nowMs())
        const trades =
          from === null
            ? [shown(asset, view.newestTick())]
            : past(asset, Number(from), until, Number(query.get('limit') ?? 500))
        return { status: 200, body: JSON.stringify(trades) }
      },
      accept({ path, query }, to) {
        const streams = (query.get('streams') ?? '').split('/')
        const asked = streams.map((name) => /^([a-z0-9]+)usdt@aggTrade$/.exec(name)?.[1] ?? '')
        const assets = asked.map((symbol) => symbol.toUpperCase())
        if (path !== '/stream' || !view.areKnown(assets)) return undefined
        return { message: () => undefined, closed: view.follow(to, assets) }
      },
      pushed: (assets, atMs) =>
        assets.map((asset) => {
          const symbol = `${asset}USDT`
          const data = { e: 'aggTrade', E: view.nowMs(), s: symbol, ...shown(asset, atMs) }
          return JSON.stringify({ stream: `${symbol.toLowerCase()}@aggTrade`, data })
        }),
      framed: (text) => text,
      heartbeats: () => [],
    }
  },
}
