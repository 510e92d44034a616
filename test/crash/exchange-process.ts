/**
 * The exchange process that a crash test kills: the real market and store threads under the real supervisor. The parent
 * controls it over the IPC channel of the process. Each message from the parent contains one or more requests. The
 * process sends each answer as soon as it is known.
 */

import type { Market } from '#domain/market.ts'
import type { MarketView, OpenOrder } from '#protocol/market.ts'
import { tuneV8 } from '#runtime/v8-flags.ts'
import { openOrders, startExchange } from '../services/market/exchange-fixture.ts'
import type { StreamAsk } from '../services/market/order-stream.ts'

export type ToExchange =
  | { readonly asks: readonly (StreamAsk & { readonly id: number })[] }
  | { readonly open: true }
  | { readonly state: true }
  | { readonly markets: readonly Market[] }
  | { readonly stop: true }

tuneV8()
const [dataDir = '', env = '{}'] = process.argv.slice(2)
const exchange = await startExchange(dataDir, { env: JSON.parse(env) as Record<string, string> })

function send(message: object): void {
  // Ignores errors: if the parent process is gone, the message is not needed.
  process.send?.(message, () => {})
}

/** Returns all views and open orders of the markets. */
async function state(): Promise<{ views: MarketView[]; open: OpenOrder[] }> {
  const views: MarketView[] = []
  for (const thread of exchange.markets) {
    const answer = await exchange.askThread(thread, 'Markets', {})
    views.push(...(answer as { views: MarketView[] }).views)
  }
  // The threads return markets in the order in which they loaded them. This order may differ after a restart, so views
  // and open orders are sorted by market. The open orders of one market keep their order.
  const open = await openOrders(exchange)
  open.sort((a, b) => (a.marketId < b.marketId ? -1 : Number(a.marketId > b.marketId)))
  views.sort((a, b) => (a.market.id < b.market.id ? -1 : 1))
  return { views, open }
}

process.on('message', (message: ToExchange) => {
  if ('asks' in message) {
    for (const { id, ...ask } of message.asks) {
      void exchange.askAll([ask]).then(([answer]) => send({ id, answer }))
    }
  } else if ('markets' in message) {
    const asks = message.markets.map((market) => ({
      marketId: market.id,
      ask: ['OpenMarket', { market }] as ['OpenMarket', { market: Market }],
    }))
    void exchange.askAll(asks).then(() => send({ opened: true }))
  } else if ('state' in message) {
    void state().then((state) => send({ state }))
  } else if ('open' in message) {
    void openOrders(exchange).then((open) => send({ open }))
  } else {
    void exchange.stop().then((clean) => {
      send({ stopped: clean })
      process.disconnect?.()
    })
  }
})
process.once('disconnect', () => void exchange.stop())
send({ ready: exchange.databaseUrl })
