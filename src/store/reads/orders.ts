/** Reads orders. Only the market thread has the current open orders; the database lags behind it. */

import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { PERMIT_HIDDEN_SEC } from '#domain/limits.ts'
import type { Outcome, PermitSignature, Side, VerifiedOrder } from '#domain/order.ts'
import type { EchoedTags } from '#domain/order-tags.ts'
import { type Database, read } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'
import { MarketEntity } from '../entities/market.ts'
import { OrderEntity } from '../entities/order.ts'
import type { OrderStatus } from '../projection/rows.ts'
import { type TagsRow, tagsOf } from './order-tags.ts'

export type OrderRecord = VerifiedOrder & {
  readonly chainId: number
  readonly status: OrderStatus
  readonly remaining: number
  readonly matches: number
  readonly placedAtMs: number
  readonly updatedAtMs: number
  /** Sequence number of the last change. */
  readonly seq: number
}

/** Returns the given orders that exist, in any order. */
export async function ordersByHash(
  database: Database,
  orderHashes: readonly OrderHash[],
): Promise<OrderRecord[]> {
  if (orderHashes.length === 0) return []
  const found = await read(database, (em) =>
    em.find(OrderEntity, { orderHash: { $in: [...orderHashes] } }, { disableIdentityMap: true }),
  )
  const places = new Set(found.filter(({ status }) => status === 'open').map((row) => row.marketId))
  const closed = await closedOf(database, places)
  return found.map((row) => orderRecord(row, closed.has(row.marketId)))
}

/**
 * Returns the signatures of those given orders that are no longer open. Includes the permit of such an order only if
 * the permit has expired. Before that, any account could submit the permit. This would change the trader's allowance
 * and use up the permit nonce that the trader's next order needs. The next order and its trades would then fail.
 */
export async function endedOrders(
  database: Database,
  { orderHashes, nowSec }: { readonly orderHashes: readonly OrderHash[]; readonly nowSec: number },
): Promise<Pick<OrderRecord, 'orderHash' | 'signature' | 'permit'>[]> {
  const found = await ordersByHash(database, orderHashes)
  const hasExpired = ({ deadline }: PermitSignature) =>
    BigInt(deadline) < BigInt(nowSec - PERMIT_HIDDEN_SEC)
  return found
    .filter(({ status }) => status !== 'open')
    .map(({ orderHash, signature, permit }) => ({
      ...{ orderHash, signature },
      ...(permit !== undefined && hasExpired(permit) ? { permit } : {}),
    }))
}

/** Returns the given orders that the database has, open or ended. */
export async function storedOrders(
  database: Database,
  filter: { readonly orderHashes: readonly OrderHash[] },
): Promise<OrderHash[]> {
  const { orderHashes } = filter
  if (orderHashes.length === 0) return []
  const rows = await rowsOf<{ order_hash: Buffer }>(
    database,
    `select order_hash from orders where order_hash in (${orderHashes.map(() => '?').join(', ')})`,
    orderHashes.map(bytesOf),
  )
  return rows.map(({ order_hash }) => hexOf(order_hash) as OrderHash)
}

/** State of an order without its signature. */
type OrderState = {
  readonly orderHash: OrderHash
  readonly marketId: MarketId
  readonly chainId: number
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: number
  readonly size: number
  readonly remaining: number
  readonly expiresAtSec: number
  readonly status: OrderStatus
  readonly placedAtMs: number
  readonly updatedAtMs: number
  readonly seq: number
  readonly tags: EchoedTags
}

type StateRow = TagsRow & {
  readonly market_id: Buffer
  readonly chain_id: number | string
  readonly trader: Buffer
  readonly side: Side
  readonly outcome: Outcome
  readonly price_e6: number
  readonly size_e6: number | string
  readonly remaining_e6: number | string
  readonly expires_at_sec: number | string
  readonly status: OrderStatus
  readonly placed_at_ms: number | string
  readonly updated_at_ms: number | string
  readonly last_seq: number | string
  readonly close_reason: string | null
}

/** Returns the state of one order; undefined if the database does not have it yet. */
export async function orderState(
  database: Database,
  { orderHash }: { readonly orderHash: OrderHash },
): Promise<OrderState | undefined> {
  const [row] = await rowsOf<StateRow>(
    database,
    `select o.market_id, o.chain_id, o.trader, o.side, o.outcome, o.price_e6, o.size_e6, o.remaining_e6,
        o.expires_at_sec, o.status, o.placed_at_ms, o.updated_at_ms, o.last_seq, g.label, g.order_group,
        m.close_reason
      from orders as o join markets as m on m.market_id = o.market_id
      left join order_tags as g on g.order_hash = o.order_hash where o.order_hash = ?`,
    [bytesOf(orderHash)],
  )
  if (row === undefined) return undefined
  const isOver = row.close_reason !== null && row.status === 'open'
  return {
    orderHash,
    marketId: hexOf(row.market_id) as MarketId,
    chainId: Number(row.chain_id),
    trader: hexOf(row.trader) as Address,
    ...{ side: row.side, outcome: row.outcome, price: row.price_e6 },
    size: Number(row.size_e6),
    remaining: Number(row.remaining_e6),
    expiresAtSec: Number(row.expires_at_sec),
    status: isOver ? 'market-closed' : row.status,
    placedAtMs: Number(row.placed_at_ms),
    updatedAtMs: Number(row.updated_at_ms),
    seq: Number(row.last_seq),
    tags: tagsOf(row),
  }
}

/**
 * Returns the given markets that are closed. All orders of a closed market have ended, even if their rows are still
 * marked open.
 */
async function closedOf(
  database: Database,
  marketIds: ReadonlySet<MarketId>,
): Promise<Set<MarketId>> {
  if (marketIds.size === 0) return new Set()
  const where = { id: { $in: [...marketIds] }, closeReason: { $ne: null } }
  const found = await read(database, (em) =>
    em.find(MarketEntity, where, { disableIdentityMap: true, fields: ['id'] }),
  )
  return new Set(found.map(({ id }) => id))
}

function orderRecord(row: OrderEntity, isOver: boolean): OrderRecord {
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
    status: isOver && row.status === 'open' ? 'market-closed' : row.status,
    remaining: row.remaining,
    matches: row.matches,
    placedAtMs: row.placedAtMs,
    updatedAtMs: row.updatedAtMs,
    seq: row.seq,
  }
}
