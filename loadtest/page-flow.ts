/** Makes a busy market for a page: many levels that stay, and changes near the best prices at a steady rate. */

import type { SibylStream } from '#client/stream-types.ts'
import { type MarketId, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, type Order, SELL, type Side, YES } from '#domain/order.ts'
import type { OrderDomain } from '#domain/order-hash.ts'
import { makeOrderSigner, makeTrader, type SignedOrder } from './signed-orders.ts'

const STEP = 900
/** Best bid; the best ask is one step above it. */
const BEST_BID = 500_000
/** Number of prices on each side at which changes happen. */
const NEAR = 20
const TICK_MS = 10
const SIZE = 1_000_000
/** Maximum number of orders of the flow that rest at the same time; older ones are cancelled. */
const RESTING_MAX = 200
const IN_FLIGHT_MAX = 50
const SIDES: readonly Side[] = [BUY, SELL]
const DAY_SEC = 86_400

export type PageFlow = {
  /** Rests one order at each of this many prices, half of them on each side. */
  fill(levels: number): Promise<void>
  /** Changes the book at this rate, until the returned function is called. */
  start(perSecond: number): () => void
}

export function createPageFlow(
  stream: Pick<SibylStream, 'place' | 'cancel'>,
  marketId: MarketId,
  domain: OrderDomain,
): PageFlow {
  const trader = makeTrader()
  const sign = makeOrderSigner(domain)
  let nonce = BigInt(Date.now()) * 1_000_000n

  function signed(side: Side, price: number, size: number): SignedOrder {
    const order: Order = {
      marketId,
      trader: trader.address,
      side,
      outcome: YES,
      price: price as Price,
      size: size as Shares,
      nonce: String(nonce++) as Uint64,
      expiration: String(Math.floor(Date.now() / 1_000) + DAY_SEC) as Uint64,
      makerFeeRecipient: ZERO_ADDRESS,
    }
    return { order, signature: sign(order, trader.key).signature }
  }

  const priceAt = (side: Side, level: number): number =>
    side === BUY ? BEST_BID - level * STEP : BEST_BID + (level + 1) * STEP

  return {
    async fill(levels) {
      for (let level = 0; level < levels / 2; level += 10) {
        const few = Array.from({ length: 10 }, (_, at) => level + at)
        await Promise.all(
          few.flatMap((at) =>
            SIDES.map((side) => stream.place(signed(side, priceAt(side, at), SIZE * (1 + at)))),
          ),
        )
      }
    },
    start(perSecond) {
      const resting: { orderHash: string; side: 'buy' | 'sell' }[] = []
      let made = 0
      let inFlight = 0
      let failure: unknown
      const begunMs = performance.now()
      const change = async (number: number) => {
        const oldest = resting.length >= RESTING_MAX ? resting.shift() : undefined
        if (oldest !== undefined) {
          await stream.cancel({ ...oldest, marketId })
          return
        }
        const side = number % 2 === 0 ? BUY : SELL
        const price = priceAt(side, (number * 7) % NEAR)
        const { orderHash } = await stream.place(signed(side, price, SIZE * (1 + (number % 9))))
        resting.push({ orderHash, side: side === BUY ? 'buy' : 'sell' })
      }
      const timer = setInterval(() => {
        if (failure !== undefined) throw failure
        const due = Math.floor(((performance.now() - begunMs) / 1_000) * perSecond)
        for (; made < due; made++) {
          if (inFlight >= IN_FLIGHT_MAX) continue
          inFlight++
          change(made).then(
            () => inFlight--,
            (error: unknown) => {
              failure = error
            },
          )
        }
      }, TICK_MS)
      return () => clearInterval(timer)
    },
  }
}
