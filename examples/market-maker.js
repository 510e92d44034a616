/**
 * A market maker with cancel on disconnect: when this program ends, is killed or loses its connection, the exchange
 * cancels its open orders. `ROUNDS=3` ends it after three rounds.
 */

import { demoTraderWithKey } from './connect.js'

const rounds = Number(process.env.ROUNDS ?? Number.POSITIVE_INFINITY)
const maker = await demoTraderWithKey(12)
const [market] = await maker.markets({ status: 'open' })
if (market === undefined) throw new Error('no market is open')
const { id } = market

const stream = maker.stream()
stream.on('closed', ({ reason }) => console.log('the connection was closed', reason))
// When this connection ends, the exchange cancels all orders that were placed on it after this call. The SDK repeats
// the call after each reconnection.
await stream.cancelOnDisconnect(true)

/** @type {{ orderHash: string; side: 'buy' | 'sell' }[]} */
let quoted = []
for (let round = 1; round <= rounds; round++) {
  for (const { orderHash, side } of quoted) {
    // A quote that was filled meanwhile is closed, so its cancel fails, and that error is ignored.
    await stream.cancel({ orderHash, marketId: id, side }).catch(() => undefined)
  }
  quoted = []
  const fair = await fairPrice()
  /** @type {['buy' | 'sell', number][]} */
  const quotes = [
    ['buy', Math.max(1_000, fair - 20_000)],
    ['sell', Math.min(999_000, fair + 20_000)],
  ]
  for (const [side, price] of quotes) {
    const order = await maker.orders.sign({
      ...{ marketId: id, outcome: 'YES', side, price, size: '25' },
      ttlSeconds: 120, // the order expires even if its cancel never arrives
      postOnly: true, // a maker never takes
    })
    try {
      const { orderHash } = await stream.place(order)
      quoted.push({ orderHash, side })
    } catch (error) {
      // `POST_ONLY_WOULD_MATCH` means that the market has moved, so this side is quoted in the next round. Any other
      // error is a bug of this program.
      const { code } = /** @type {{ code?: string }} */ (error)
      if (code !== 'POST_ONLY_WOULD_MATCH') throw error
    }
  }
  console.log(`round ${round}: ${quoted.length} quotes around ${fair / 1e6}`)
  if (round < rounds) await new Promise((resolve) => setTimeout(resolve, 1_000))
}
stream.close()

/**
 * Returns the middle between the best bid and the best ask of others, in millionths. If either is missing, returns
 * 500,000.
 */
async function fairPrice() {
  const { bids, asks } = await maker.orderbook(id, 'YES')
  const [bid, ask] = [bids[0]?.price, asks[0]?.price]
  return bid === undefined || ask === undefined ? 500_000 : Math.round((bid + ask) / 2)
}
