/** Reads of orders. What is open right now only its market knows; these follow it. */

import type { OrderHash } from '#domain/ids.ts'
import type { PermitSignature, VerifiedOrder } from '#domain/order.ts'
import { type Database, read } from '../engine/database.ts'
import { OrderEntity } from '../entities/order.ts'
import type { OrderStatus } from '../projection/rows.ts'

export type OrderRecord = VerifiedOrder & {
  readonly chainId: number
  readonly status: OrderStatus
  readonly remaining: number
  readonly matches: number
  readonly placedAtMs: number
  readonly updatedAtMs: number
  /** The market's sequence number of the last change. */
  readonly seq: number
}

/** Those of the orders that are known, in no particular order. */
export async function ordersByHash(
  database: Database,
  orderHashes: readonly OrderHash[],
): Promise<OrderRecord[]> {
  if (orderHashes.length === 0) return []
  const found = await read(database, (em) =>
    em.find(OrderEntity, { orderHash: { $in: [...orderHashes] } }, { disableIdentityMap: true }),
  )
  return found.map(orderRecord)
}

function orderRecord(row: OrderEntity): OrderRecord {
  return {
    marketId: row.marketId,
    trader: row.trader,
    side: row.side,
    outcome: row.outcome,
    price: row.price,
    size: row.size,
    nonce: row.nonce,
    expiration: row.expiration,
    makerFeeRecipient: row.makerFeeRecipient,
    orderHash: row.orderHash,
    signature: row.signature,
    ...(row.permit == null ? {} : { permit: JSON.parse(row.permit) as PermitSignature }),
    chainId: row.chainId,
    status: row.status,
    remaining: row.remaining,
    matches: row.matches,
    placedAtMs: row.placedAtMs,
    updatedAtMs: row.updatedAtMs,
    seq: row.seq,
  }
}
