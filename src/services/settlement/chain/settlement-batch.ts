/**
 * Builds one transaction of the settlement contract. It contains each order once, the fills, which refer to their
 * orders by index, and the unused permits of orders that pay dollars. In an ordinary trade only the buyer's order pays
 * dollars, in a mint both orders do. Each permit comes just before the first fill of its order.
 *
 * A permit replaces its owner's allowance, and the stablecoin accepts an owner's permits only in the order of their
 * nonces. So if the batch has permits of an owner, the fills that this owner pays swap places with each other. First
 * come the fills that use the allowance from before the batch. The fills of orders with permits follow, sorted by
 * nonce. Every other fill keeps its place, because it may need tokens that another fill brings.
 *
 * Example with two orders A and B of one owner. A1 and A2 are the fills of A:
 *
 *     before   A1 (permit 1)  other  B1 (permit 0)  A2
 *     after    B1 (permit 0)  other  A1 (permit 1)  A2
 *
 * If the owner has unused permits with lower nonces (`spare-permits.ts`), they come just before the permit. A permit
 * that cannot be encoded is left out, as if the order had no permit.
 */

import type {
  SettlementFill,
  SettlementOrder,
  SettlementPermit,
} from '#chain/settlement-contract.ts'
import { type Address, type OrderHash, parseUint256 } from '#domain/ids.ts'
import { BUY, type PermitSignature, type VerifiedOrder } from '#domain/order.ts'
import type { TradeToSettle } from '#domain/trade.ts'

/**
 * For each owner, the permits that must come before the owner's permits in the batch, sorted by nonce. The stablecoin
 * accepts a permit only after all permits of its owner with lower nonces.
 */
export type EarlierPermits = ReadonlyMap<Address, readonly PermitSignature[]>

type SettlementBatch = {
  /** Trades in the order of the fills. */
  readonly trades: readonly TradeToSettle[]
  readonly orders: readonly SettlementOrder[]
  readonly fills: readonly SettlementFill[]
  readonly permits: readonly SettlementPermit[]
}

export function batchOf(
  trades: readonly TradeToSettle[],
  usedPermits: ReadonlySet<OrderHash>,
  earlier: EarlierPermits = new Map(),
): SettlementBatch {
  const orders: SettlementOrder[] = []
  const permits: SettlementPermit[] = []
  const brought = new Set<string>()
  const bring = (fill: number, owner: Address, permit: PermitSignature): void => {
    // Equal signatures mean the same permit, so add it only once.
    if (brought.has(permit.s)) return
    brought.add(permit.s)
    permits.push({ fill, owner, permit })
  }
  const places = new Map<OrderHash, number>()
  const placeOf = (order: VerifiedOrder, fill: number): number => {
    const known = places.get(order.orderHash)
    if (known !== undefined) return known
    places.set(order.orderHash, orders.length)
    orders.push({ order, signature: order.signature })
    const permit = unusedPermit(order, usedPermits)
    if (permit !== undefined) {
      for (const before of earlier.get(order.trader) ?? []) {
        if (BigInt(before.nonce) < BigInt(permit.nonce)) bring(fill, order.trader, before)
      }
      bring(fill, order.trader, permit)
    }
    return orders.length - 1
  }
  const arranged = permitsInTurn(trades, usedPermits)
  const fills = arranged.map(({ buy, sell, seq, fillIndex, price, size }, at) => ({
    buy: placeOf(buy, at),
    sell: placeOf(sell, at),
    seq,
    fillIndex,
    price,
    size,
  }))
  return { trades: arranged, orders, fills, permits }
}

/**
 * Returns the permit of an order that pays dollars; undefined if it has none, or if its permit is used or
 * cannot be encoded.
 */
export function unusedPermit(
  order: VerifiedOrder,
  usedPermits: ReadonlySet<OrderHash>,
): PermitSignature | undefined {
  const { side, permit, orderHash } = order
  if (side !== BUY || permit === undefined || usedPermits.has(orderHash)) return undefined
  return isCarriable(permit) ? permit : undefined
}

const WORD = /^0x[0-9a-f]{64}$/i

/**
 * True if the permit fits the contract's argument types. Earlier versions of the exchange accepted permits that do not
 * fit.
 */
export function isCarriable({ nonce, value, deadline, v, r, s }: PermitSignature): boolean {
  const isUint256 = (text: string) => parseUint256(text) !== undefined
  const isSignature = (v === 27 || v === 28) && WORD.test(r) && WORD.test(s)
  return isSignature && [nonce, value, deadline].every(isUint256)
}

function permitsInTurn(
  trades: readonly TradeToSettle[],
  usedPermits: ReadonlySet<OrderHash>,
): readonly TradeToSettle[] {
  const owners = new Set<Address>()
  for (const order of trades.flatMap(payersOf)) {
    if (unusedPermit(order, usedPermits) !== undefined) owners.add(order.trader)
  }
  let arranged = trades
  for (const owner of owners) arranged = inTurnOf(owner, arranged, usedPermits)
  return arranged
}

function inTurnOf(
  owner: Address,
  trades: readonly TradeToSettle[],
  usedPermits: ReadonlySet<OrderHash>,
): readonly TradeToSettle[] {
  const turns = trades.flatMap((trade, at) => {
    const paid = payersOf(trade).find(({ trader }) => trader === owner)
    if (paid === undefined) return []
    return [{ at, turn: BigInt(unusedPermit(paid, usedPermits)?.nonce ?? -1) }]
  })
  const slots = turns.map(({ at }) => at)
  turns.sort((a, b) => (a.turn === b.turn ? a.at - b.at : a.turn < b.turn ? -1 : 1))
  const arranged = [...trades]
  for (const [index, slot] of slots.entries()) arranged[slot] = trades[turns[index]!.at]!
  return arranged
}

/** Returns the orders of a trade that pay dollars: one in an ordinary trade, both in a mint, none in a merge. */
export function payersOf({ buy, sell }: Pick<TradeToSettle, 'buy' | 'sell'>): VerifiedOrder[] {
  return [buy, sell].filter(({ side }) => side === BUY)
}
