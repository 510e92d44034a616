/**
 * Warms up the matching code, so that V8 has compiled it before the first trader's order arrives. Before a market
 * thread serves commands, synthetic orders are placed in a scratch market. This market, its book and its events are
 * dropped afterwards.
 */

import type { Address, MarketId, OrderHash, Uint64 } from '#domain/ids.ts'
import type { Market } from '#domain/market.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, SELL, type VerifiedOrder, YES } from '#domain/order.ts'
import { JsonBytes } from '#log/json-bytes.ts'
import { PACKED } from '#log/packed-event.ts'
import type { PlacedOrder } from '#protocol/market.ts'
import { market, newMarket } from '../market.ts'
import type { MarketRules } from '../state.ts'

const TRADERS = 16
const LEVELS = 64
/** Number of orders after which the warm-up cancels one order. */
const CANCEL_EVERY = 4
/** Number of events per batch. The warm-up serializes each batch as the log does. */
const BATCH_EVENTS = 64
const NOW_MS = 1_000_000_000_000

const hexOf = (number: number, digits: number): string =>
  `0x${number.toString(16).padStart(digits, '0')}`

const SCRATCH: Market = {
  id: hexOf(0, 64) as MarketId,
  ...{ question: '', description: '', category: 'general', chainId: 0, quick: false },
  ...{ contractAddress: hexOf(0, 40) as Address, maker: hexOf(0, 40) as Address },
  ...{ expiration: Number.MAX_SAFE_INTEGER, createdAt: 0 },
}

/**
 * Returns a synthetic order by its number: buys and sells alternate near the middle price, and about half of them
 * match.
 */
function orderNumbered(number: number): VerifiedOrder {
  const side = number % 2 === 0 ? BUY : SELL
  const away = (number * 7) % LEVELS
  const price = 500_000 + (side === BUY ? 10 - away : away - 10)
  return {
    marketId: SCRATCH.id,
    trader: hexOf(1 + (number % TRADERS), 40) as Address,
    side,
    outcome: YES,
    price: price as Price,
    size: (1_000_000 * (1 + (number % 3))) as Shares,
    nonce: String(number) as Uint64,
    expiration: '9007199254740991' as Uint64,
    makerFeeRecipient: SCRATCH.maker,
    orderHash: hexOf(number + 1, 64) as OrderHash,
    signature: hexOf(number, 130),
  }
}

/** Places the given number of synthetic orders; returns the number of events in all complete batches. */
export function warmUp(orders: number, rules: Pick<MarketRules, 'selfTrade'>): number {
  if (orders === 0) return 0
  const recall = { closed: new Map(), trades: new Map() }
  const state = newMarket(SCRATCH, { ...rules, seed: 1, ordersMax: orders }, recall)
  const text = new JsonBytes()
  let batch: MarketEvent[] = []
  let made = 0
  const context = { nowMs: NOW_MS, emit: (event: MarketEvent) => void batch.push(event) }
  market.OpenMarket(state, { market: SCRATCH }, context)
  for (let number = 0; number < orders; number++) {
    const placed: PlacedOrder = { order: orderNumbered(number) }
    market.PlaceOrder(state, placed, context)
    if (number % CANCEL_EVERY === 0) {
      const { orderHash, side } = orderNumbered(Math.floor(number / 2))
      market.CancelOrder(state, { marketId: SCRATCH.id, orderHash, side }, context)
    }
    if (batch.length < BATCH_EVENTS) continue
    text.clear()
    for (let at = 0; at < batch.length; at++) PACKED.write(batch[at]!, batch[at - 1], text)
    made += batch.length
    batch = []
    recall.closed.clear()
  }
  return made
}
