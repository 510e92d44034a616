/** Two traders meet: one offers ten shares, the other takes four, and the rest is cancelled. */

import { demoTrader } from './connect.js'

const ann = demoTrader(10)
const bob = demoTrader(11)

const [market] = await ann.markets({ status: 'open' })
if (market === undefined) throw new Error('no market is open')
console.log(market.question)

// The price is between the best bid and the best ask of other traders, so that Ann and Bob trade with each other.
const { bids, asks } = await ann.orderbook(market.id, 'NO')
const [bid, ask] = [bids[0]?.price ?? 0, asks[0]?.price ?? 1_000_000]
const price = bid < 420_000 && 420_000 < ask ? 420_000 : Math.round((bid + ask) / 2)

// A number is in millionths, as in the API. A text is in shares or dollars, such as '10' or '0.42'.
const terms = {
  marketId: market.id,
  outcome: /** @type {const} */ ('NO'),
  price,
  ttlSeconds: 3_600,
}
const offer = await ann.orders.place({ ...terms, side: 'sell', size: '10' })
const { matches } = await bob.orders.place({ ...terms, side: 'buy', size: '4' })
console.log(`bob met ${matches} order`)

// Finds the trade among the newest ones, because others may have traded meanwhile.
const trade = (await ann.trades(market.id)).find(({ size }) => size === 4_000_000)
console.log(`${Number(trade?.size) / 1e6} shares at ${Number(trade?.price) / 1e6}`)

await ann.orders.cancel({ orderHash: offer.orderHash, marketId: market.id, side: 'sell' })
console.log(`ann has ${(await ann.orders.list()).length} open orders`)
