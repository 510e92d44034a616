/** Tests that several fronts and several market threads act as one exchange. */

import assert from 'node:assert/strict'
import { createClient } from '#client/client.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { demoMarketIds } from '../support/seeded-markets.ts'
import { signedOrder, traderNumbered } from '../support/signed-orders.ts'

const ann = traderNumbered(61)
const bob = traderNumbered(62)
const markets = demoMarketIds()

/** Opens a new connection for each request, so that the kernel distributes the requests over all fronts. */
const dealt: typeof fetch = (input, init) =>
  fetch(input, { ...init, headers: { ...init?.headers, connection: 'close' } })

/**
 * Makes trades on an exchange that has only the demo markets. Returns a function that checks the result. The check must
 * also succeed when the exchange runs with other numbers of threads.
 */
export async function tradeOverThreads(exchange: Exchange): Promise<() => Promise<void>> {
  const client = createClient({ url: exchange.url, fetch: dealt })
  const listed: string[] = []
  for (let round = 0; round < 8; round++) {
    for (const market of markets) {
      const order = await signedOrder(market, { price: 100_000 + round }, { trader: ann })
      const { orderHash } = await client.orders.submit(order)
      listed.push(orderHash)
      // Every front reads open orders from all market threads, so each answer has all open orders.
      const open = await client.orders.list({ trader: ann.address })
      assert.deepEqual(open.map((one) => one.orderHash).sort(), listed.toSorted())
      assert.equal((await client.orders.submit(order)).duplicate, true)
    }
  }
  const hit = await Promise.all(
    markets.map(async (market) => {
      const sale = { side: 1, price: 100_000, size: 2_500_000 }
      return client.orders.submit(await signedOrder(market, sale, { trader: bob }))
    }),
  )
  assert.deepEqual(
    hit.map(({ matches }) => matches),
    [3, 3, 3],
  )

  const levels = [5, 4, 3, 2, 1, 0].map((round) => ({
    price: 100_000 + round,
    size: round === 5 ? 500_000n : 1_000_000n,
  }))
  /** Checks that every front shows the same orders in the end, whichever front accepted them. */
  const readBack = async () => {
    const reader = createClient({ url: exchange.url, fetch: dealt })
    for (const market of markets) {
      for (let connection = 0; connection < 6; connection++) {
        await eventually(async () => {
          assert.deepEqual((await reader.orderbook(market, 'YES')).bids, levels)
          const trades = await reader.trades(market)
          assert.deepEqual(
            trades.map(({ price, size }) => [price, size]),
            [
              [100_005, 500_000],
              [100_006, 1_000_000],
              [100_007, 1_000_000],
            ],
          )
        })
      }
    }
  }
  await readBack()
  return readBack
}
