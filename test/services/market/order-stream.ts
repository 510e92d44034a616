/**
 * Makes commands for real threads from a seed. The commands open markets, place orders of which about half cross, and
 * cancel some of the orders. Every order has its own hash.
 */

import type { MarketId, OrderHash, Uint64 } from '#domain/ids.ts'
import { ZERO_ADDRESS } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import type { Price, Shares } from '#domain/money.ts'
import type { Outcome, Side, VerifiedOrder } from '#domain/order.ts'
import { traderNamed } from '../../support/orders.ts'
import { randomFrom } from '../../support/random.ts'
import { aMarket } from './market-fixture.ts'

export const LONG_AHEAD_SEC = 4_000_000_000
export const TRADERS = ['ann', 'bob', 'cat', 'dan', 'eve', 'fay'].map(traderNamed)

export type StreamAsk =
  | { marketId: MarketId; ask: ['PlaceOrder', { order: VerifiedOrder }] }
  | {
      marketId: MarketId
      ask: ['CancelOrder', { marketId: MarketId; orderHash: OrderHash; side: Side }]
    }

export type OrderStream = {
  readonly markets: Market[]
  next(): StreamAsk
  take(count: number): StreamAsk[]
}

export function orderStream(seed: number, marketCount: number): OrderStream {
  const random = randomFrom(seed)
  const markets = Array.from({ length: marketCount }, (_, index) =>
    aMarket({
      // The last bytes of a market's id choose its partition. They count up, so the markets are spread over all
      // partitions.
      id: `${randomFrom(index).hex(28)}${index.toString(16).padStart(8, '0')}` as MarketId,
      expiration: LONG_AHEAD_SEC,
    }),
  )
  const young: VerifiedOrder[] = []

  function next(): StreamAsk {
    const { id: marketId } = random.pick(markets)
    if (young.length > 20 && random.chance(0.25)) {
      const at = random.int(0, young.length - 1)
      const { orderHash, side, marketId: where } = young[at]!
      young.splice(at, 1)
      return {
        marketId: where,
        ask: ['CancelOrder', { marketId: where, orderHash, side }],
      }
    }
    const order: VerifiedOrder = {
      marketId,
      trader: random.pick(TRADERS),
      side: random.int(0, 1) as Side,
      outcome: random.int(0, 1) as Outcome,
      price: (500_000 + random.int(-8, 8) * 1_000) as Price,
      size: (random.int(1, 40) * 250_000) as Shares,
      nonce: String(random.int(1, 1e9)) as Uint64,
      expiration: String(LONG_AHEAD_SEC) as Uint64,
      makerFeeRecipient: ZERO_ADDRESS,
      orderHash: random.hex(32) as OrderHash,
      signature: random.hex(65),
    }
    young.push(order)
    if (young.length > 100) young.shift()
    return { marketId, ask: ['PlaceOrder', { order }] }
  }

  return { markets, next, take: (count) => Array.from({ length: count }, next) }
}
