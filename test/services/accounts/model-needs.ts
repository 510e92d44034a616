/**
 * Computes the needs of orders and trades (the funds to reserve for them) in the simplest way: each query scans all
 * open and pending items. Tests use it as the database, and as the expected state of the accounts.
 */

import {
  type FundsToken,
  type NeedsOrder,
  type NeedsTrade,
  outcomeToken,
  STABLECOIN,
} from '#domain/funds.ts'
import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { tradesOf } from '#domain/match-trades.ts'
import { costCeil, type Shares } from '#domain/money.ts'
import { BUY, type VerifiedOrder } from '#domain/order.ts'
import type { LoadedAccounts } from '#services/accounts/state.ts'

export type KnownTrade = NeedsTrade & { status: 'pending' | 'confirmed' | 'failed' }

export function modelNeeds(orderOf: (hash: OrderHash) => VerifiedOrder) {
  const open = new Map<OrderHash, NeedsOrder>()
  const trades = new Map<TradeId, KnownTrade>()
  const markets = new Map<MarketId, { chainId: number; closed: boolean }>()
  const offsets = new Map<number, number>()

  function rest(orderHash: OrderHash, remaining: number, placedAtMs: number): void {
    const { marketId, trader, side, outcome, price, permit } = orderOf(orderHash)
    open.set(orderHash, {
      orderHash,
      marketId,
      trader,
      side,
      outcome,
      price,
      remaining: remaining as Shares,
      permit: permit?.nonce,
      placedAtMs,
    })
  }

  return {
    open,
    trades,
    offsets,
    apply(event: MarketEvent) {
      switch (event.type) {
        case 'MarketOpened':
          markets.set(event.marketId, { chainId: event.market.chainId, closed: false })
          break
        case 'OrderRested':
          rest(event.orderHash, event.remaining, event.placedAtMs)
          break
        case 'OrdersMatched':
          for (const trade of tradesOf(event)) {
            const permit = orderOf(trade.buyOrderHash).permit?.nonce
            trades.set(trade.tradeId, { ...trade, permit, status: 'pending' })
          }
          for (const { makerHash, makerRemaining } of event.fills) {
            const resting = open.get(makerHash)!
            if (makerRemaining === 0) open.delete(makerHash)
            else open.set(makerHash, { ...resting, remaining: makerRemaining as Shares })
          }
          if (event.takerRemaining > 0) {
            rest(event.taker.orderHash, event.takerRemaining, event.atMs)
          }
          break
        case 'OrderClosed':
          open.delete(event.orderHash)
          break
        case 'MarketClosed':
          markets.get(event.marketId)!.closed = true
          for (const [hash, order] of open) if (order.marketId === event.marketId) open.delete(hash)
          break
        case 'TradeConfirmed':
          trades.get(event.tradeId)!.status = 'confirmed'
          break
        case 'TradeFailed':
          trades.get(event.tradeId)!.status = 'failed'
          break
        case 'TradeReverted':
          trades.get(event.tradeId)!.status = 'pending'
          break
        default:
          break
      }
    },
    chainOf: (marketId: MarketId): number => markets.get(marketId)!.chainId,
    load(): LoadedAccounts {
      return {
        checkpoints: [...offsets].map(([partition, offset]) => ({ partition, offset })),
        markets: [...markets].map(([marketId, market]) => ({ marketId, ...market })),
        orders: [...open.values()],
        trades: [...trades.values()].filter(({ status }) => status === 'pending'),
      }
    },
  }
}

export type ModelNeeds = ReturnType<typeof modelNeeds>

/**
 * Returns the amount that an order needs. A sell needs its shares. A buy needs its cost rounded up, and one
 * more unit for each of up to 10,000 fills, but never more than one dollar per share.
 */
export function needBySpec(order: Pick<NeedsOrder, 'side' | 'price'>, remaining: number): bigint {
  if (order.side !== BUY) return BigInt(remaining)
  const cost = (BigInt(order.price) * BigInt(remaining) + 999_999n) / 1_000_000n + 10_000n
  return cost < BigInt(remaining) ? cost : BigInt(remaining)
}

/**
 * Returns the least amount that an order needs: the shares of a sell, or the cost of a buy if one fill takes
 * everything.
 */
export function leastBySpec(order: NeedsOrder): bigint {
  if (order.side !== BUY) return BigInt(order.remaining)
  return BigInt(costCeil(order.price, order.remaining))
}

export function tokenOf(order: Pick<NeedsOrder, 'side' | 'marketId' | 'outcome'>): FundsToken {
  return order.side === BUY ? STABLECOIN : outcomeToken(order.marketId, order.outcome)
}

/** Returns the needs of a pending trade for one of its traders. */
export function tradeNeeds(
  trade: NeedsTrade,
  owner: Address,
): { token: FundsToken; need: bigint }[] {
  const needs: { token: FundsToken; need: bigint }[] = []
  const { buyer, seller, price, size, marketId, outcome } = trade
  if (buyer === owner) needs.push({ token: STABLECOIN, need: BigInt(costCeil(price, size)) })
  if (seller === owner) needs.push({ token: outcomeToken(marketId, outcome), need: BigInt(size) })
  return needs
}
