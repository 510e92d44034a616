/**
 * The process that is killed: the real market and store threads under the real supervisor. It is
 * driven over the process's own channel: what comes in is asked, and each answer goes out at once.
 */

import type { Market } from '#domain/market.ts'
import { openOrders, startExchange } from '../actors/exchange-fixture.ts'
import type { StreamAsk } from '../actors/order-stream.ts'

export type ToExchange =
  | { readonly asks: readonly (StreamAsk & { readonly id: number })[] }
  | { readonly open: true }
  | { readonly markets: readonly Market[] }
  | { readonly stop: true }

const [dataDir = '', env = '{}'] = process.argv.slice(2)
const exchange = await startExchange(dataDir, { env: JSON.parse(env) as Record<string, string> })

function send(message: object): void {
  // The parent may be gone; then this process has nobody left to work for.
  process.send?.(message, () => {})
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
