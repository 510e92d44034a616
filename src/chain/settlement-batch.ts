/**
 * What one transaction of the settlement contract carries: each order once, fills by index, and the
 * permits of buyers that have not been used before, each just before the first fill of its order.
 *
 * A permit replaces the allowance that was there, and the stablecoin takes the permits of an owner in
 * the order of their nonces only. So the buys of an owner with a permit in the batch change places
 * among themselves: first those that live on the allowance of before, then order by order as the
 * permits are numbered. Everything else stays where it is, because a fill may need what another one
 * brought. A permit may need others of its owner before it: see `spare-permits.ts`. All of them come along, or none
 * where they are too many: each costs gas, and a transaction has a bound on its bytes. Its owner is `short` then.
 *
 *   before   A1 (permit 1)  other  B1 (permit 0)  A2
 *   after    B1 (permit 0)  other  A1 (permit 1)  A2
 */

import type { Address, OrderHash } from '#domain/ids.ts'
import { BUY, type PermitSignature, type VerifiedOrder } from '#domain/order.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import type { SettlementFill, SettlementOrder, SettlementPermit } from './settlement-contract.ts'

/** More permits of orders that are not in the batch are not brought along for one owner, and for all of them. */
const SPARE_OF_OWNER_MAX = 32
const SPARE_OF_BATCH_MAX = 96

/** Permits that have to come before that one of the same owner, by their nonces. */
export type PermitsBefore = (
  owner: Address,
  permit: PermitSignature,
) => readonly { readonly orderHash: OrderHash; readonly permit: PermitSignature }[]

type SettlementBatch = {
  /** In the order of the fills. */
  readonly trades: readonly TradeToSettle[]
  readonly orders: readonly SettlementOrder[]
  readonly fills: readonly SettlementFill[]
  readonly permits: readonly SettlementPermit[]
  /** Owners for whom not all permits could come along: their allowance is lower than they signed. */
  readonly short: ReadonlySet<Address>
}

export function batchOf(
  trades: readonly TradeToSettle[],
  usedPermits: ReadonlySet<OrderHash>,
  permitsBefore: PermitsBefore = () => [],
): SettlementBatch {
  const orders: SettlementOrder[] = []
  const permits: SettlementPermit[] = []
  const short = new Set<Address>()
  let spares = 0
  const places = new Map<OrderHash, number>()
  const brought = new Set(trades.map(({ buy }) => buy.orderHash))
  const placeOf = (order: VerifiedOrder, fill: number): number => {
    const known = places.get(order.orderHash)
    if (known !== undefined) return known
    places.set(order.orderHash, orders.length)
    orders.push({ order, signature: order.signature })
    const permit = unusedPermit(order, usedPermits)
    if (permit !== undefined) {
      const earlier = permitsBefore(order.trader, permit).filter(
        ({ orderHash }) => !brought.has(orderHash),
      )
      if (earlier.length > Math.min(SPARE_OF_OWNER_MAX, SPARE_OF_BATCH_MAX - spares)) {
        short.add(order.trader)
        earlier.length = 0
      }
      spares += earlier.length
      for (const spare of earlier) {
        brought.add(spare.orderHash)
        permits.push({ fill, owner: order.trader, permit: spare.permit })
      }
      permits.push({ fill, owner: order.trader, permit })
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
  return { trades: arranged, orders, fills, permits, short }
}

function unusedPermit(
  order: VerifiedOrder,
  usedPermits: ReadonlySet<OrderHash>,
): VerifiedOrder['permit'] {
  return order.side === BUY && !usedPermits.has(order.orderHash) ? order.permit : undefined
}

function permitsInTurn(
  trades: readonly TradeToSettle[],
  usedPermits: ReadonlySet<OrderHash>,
): readonly TradeToSettle[] {
  const turnOf = ({ buy }: TradeToSettle): bigint =>
    BigInt(unusedPermit(buy, usedPermits)?.nonce ?? -1)
  const owners = new Set<Address>()
  for (const { buy } of trades) {
    if (unusedPermit(buy, usedPermits) !== undefined) owners.add(buy.trader)
  }
  if (owners.size === 0) return trades
  const arranged = [...trades]
  for (const owner of owners) {
    const slots: number[] = []
    for (const [at, { buy }] of trades.entries()) if (buy.trader === owner) slots.push(at)
    const turns = slots
      .map((at) => ({ at, turn: turnOf(trades[at]!) }))
      .sort((a, b) => (a.turn === b.turn ? a.at - b.at : a.turn < b.turn ? -1 : 1))
    for (const [index, slot] of slots.entries()) arranged[slot] = trades[turns[index]!.at]!
  }
  return arranged
}
