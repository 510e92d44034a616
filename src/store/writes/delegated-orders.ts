/**
 * Records each order signed by a delegate before the order reaches its market. So the sum of a delegate's open orders
 * cannot exceed the limit of the delegation, across all fronts and restarts. Writes run one after another, and each
 * write sees the earlier ones. An order counts with its full size until the projection of the event log contains it.
 * From then on, it counts with its remaining quantity.
 *
 * The same order may be submitted several times, even concurrently and with different options. The market may refuse
 * one submission and place another before the projection has the order. So a reservation counts the submissions of its
 * order. The reservation is deleted when the market has refused all of them.
 */

import type { Address, OrderHash } from '#domain/ids.ts'
import { DELEGATED_ORDERS_MAX, DELEGATED_READ_MAX } from '#domain/limits.ts'
import { costCeil, type Price, type Shares } from '#domain/money.ts'
import { partsOf } from '#domain/parts-of.ts'
import { type Database, read, transact } from '../engine/database.ts'
import { bytesOf } from '../engine/hex.ts'
import { type Statements, statements } from '../engine/statements.ts'

export type DelegatedOrder = {
  readonly orderHash: OrderHash
  readonly chainId: number
  readonly trader: Address
  readonly delegate: Address
  readonly price: Price
  readonly size: Shares
  readonly expiresAtSec: number
  readonly nowMs: number
  /** 0 for no limit. */
  readonly maxOpenNotional: number
}

/** Open orders of a delegate. */
type Open = {
  readonly openNotional: bigint
  readonly openOrders: number
  /** True if the delegate has too many rows to read in one write. The sum is then incomplete. */
  readonly isCrowded?: true
}

/** Result of a reservation: granted, or refused with the current sum of the delegate's open orders. */
type DelegatedReserve = { readonly reserved: true } | ({ readonly reserved: false } & Open)

/**
 * Maximum time from a reservation until the projection has the order. After this time, a missing order counts as lost
 * between front and market.
 */
const LOST_AFTER_MS = 600_000
/**
 * Maximum time from the fill of an order until its trades have settled or failed. Until then, the order's row is kept,
 * because a failed trade may return quantity to the book.
 */
const RETURNS_WITHIN_MS = 7_200_000
/** Maximum number of expired rows deleted per write. */
const FORGOTTEN_MAX = 20
/** Rows per statement. */
const DELETED_TOGETHER_MAX = 200

type All = Statements['all']

export async function reserveDelegated(
  database: Database,
  order: DelegatedOrder,
): Promise<DelegatedReserve> {
  const { orderHash, chainId, trader, delegate, price, size, nowMs } = order
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    await forgetExpired(sql, Math.floor(nowMs / 1_000))
    if (await isReserved(sql, order)) return { reserved: true }
    const { answer, ended } = await judge(sql.all, order)
    await forget(sql, ended)
    if (!answer.reserved) return answer
    await sql.insert('delegated_orders', [
      {
        order_hash: bytesOf(orderHash),
        chain_id: chainId,
        trader: bytesOf(trader),
        delegate: bytesOf(delegate),
        price_e6: price,
        size_e6: size,
        expires_at_sec: order.expiresAtSec,
        reserved_at_ms: nowMs,
        submissions: 1,
      },
    ])
    return answer
  })
}

/**
 * Returns whether the order could be reserved now. Does not write, because any client can trigger this check, and each
 * write delays all others.
 */
export async function checkDelegated(
  database: Database,
  order: DelegatedOrder,
): Promise<DelegatedReserve> {
  return read(database, async (em) => {
    const all: All = (sql, values) => em.getConnection().execute(sql, [...values], 'all')
    const known = await knownOf(all, order)
    if (known !== undefined && !isLost(known, order.nowMs)) return { reserved: true }
    return (await judge(all, order)).answer
  })
}

/** Checks a new order against its delegate's limit. `ended` contains the hashes of the delegate's ended orders. */
async function judge(
  all: All,
  order: DelegatedOrder,
): Promise<{ readonly answer: DelegatedReserve; readonly ended: readonly Buffer[] }> {
  const { maxOpenNotional, price, size } = order
  if (maxOpenNotional === 0) return { answer: { reserved: true }, ended: [] }
  const { open, ended } = await openOf(all, order)
  const isOver = open.openNotional + BigInt(costCeil(price, size)) > BigInt(maxOpenNotional)
  const isRefused = isOver || open.openOrders >= DELEGATED_ORDERS_MAX || open.isCrowded
  return { answer: isRefused ? { reserved: false, ...open } : { reserved: true }, ended }
}

/** The stored record of an order, with the order's status in the projection. */
type Known = { readonly status: string | null; readonly reserved_at_ms: number | string }

async function knownOf(all: All, { orderHash }: DelegatedOrder): Promise<Known | undefined> {
  const [known] = await all<Known>(
    `select o.status, d.reserved_at_ms from delegated_orders d
      left join orders o on o.order_hash = d.order_hash where d.order_hash = ?`,
    [bytesOf(orderHash)],
  )
  return known
}

/**
 * Counts one more submission of a reserved order. Returns false if the order has no reservation. If the order counts as
 * lost, deletes its reservation and returns false.
 */
async function isReserved(sql: Statements, order: DelegatedOrder): Promise<boolean> {
  const hash = bytesOf(order.orderHash)
  const known = await knownOf(sql.all, order)
  if (known === undefined) return false
  if (isLost(known, order.nowMs)) {
    await forget(sql, [hash])
    return false
  }
  const again = 'update delegated_orders set submissions = submissions + 1 where order_hash = ?'
  await sql.run(again, [hash])
  return true
}

/**
 * Records that the market refused one submission of an order. If no other submission is left, deletes the reservation
 * and returns true. Otherwise returns false. If the projection already has the order, changes nothing and returns
 * false.
 */
export async function releaseDelegated(
  database: Database,
  { orderHash }: { readonly orderHash: OrderHash },
): Promise<boolean> {
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    const hash = bytesOf(orderHash)
    const placed = await sql.all('select 1 from orders where order_hash = ?', [hash])
    if (placed.length > 0) return false
    const less = 'update delegated_orders set submissions = submissions - 1 where order_hash = ?'
    await sql.run(less, [hash])
    const none = 'delete from delegated_orders where order_hash = ? and submissions <= 0'
    return (await sql.run(none, [hash])) > 0
  })
}

/**
 * Sums a delegate's open orders, and returns the hashes of ended orders. Reads at most `DELEGATED_READ_MAX` rows,
 * because all other writes wait during a reservation. `reserveDelegated` then deletes the rows of the ended orders, so
 * that its next call reads further rows.
 */
async function openOf(
  all: All,
  { chainId, trader, delegate, nowMs }: DelegatedOrder,
): Promise<{ readonly open: Open; readonly ended: readonly Buffer[] }> {
  const rows = await all<{
    order_hash: Buffer
    price_e6: number
    size_e6: number | string
    reserved_at_ms: number | string
    status: string | null
    remaining_e6: number | string | null
    updated_at_ms: number | string | null
  }>(
    `select d.order_hash, d.price_e6, d.size_e6, d.reserved_at_ms, o.status, o.remaining_e6,
        o.updated_at_ms
      from (select * from delegated_orders where chain_id = ? and trader = ? and delegate = ?
        limit ${DELEGATED_READ_MAX}) d
      left join orders o on o.order_hash = d.order_hash`,
    [chainId, bytesOf(trader), bytesOf(delegate)],
  )
  let openNotional = 0n
  let openOrders = 0
  const ended: Buffer[] = []
  for (const row of rows) {
    const lost = isLost(row, nowMs)
    const isOver = row.status !== null && row.status !== 'open' && row.status !== 'filled'
    const mayReturn = Number(row.updated_at_ms) > nowMs - RETURNS_WITHIN_MS
    if (lost || isOver || (row.status === 'filled' && !mayReturn)) ended.push(row.order_hash)
    if (lost || (row.status !== null && row.status !== 'open')) continue
    const left = Number(row.remaining_e6 ?? row.size_e6) as Shares
    openNotional += BigInt(costCeil(row.price_e6 as Price, left))
    openOrders++
  }
  const isCrowded = rows.length === DELEGATED_READ_MAX
  return { open: { openNotional, openOrders, ...(isCrowded ? { isCrowded } : {}) }, ended }
}

function isLost(row: Known, nowMs: number): boolean {
  return row.status === null && Number(row.reserved_at_ms) < nowMs - LOST_AFTER_MS
}

async function forgetExpired(sql: Statements, nowSec: number): Promise<void> {
  const rows = await sql.all<{ order_hash: Buffer }>(
    `select order_hash from delegated_orders where expires_at_sec < ? limit ${FORGOTTEN_MAX}`,
    [nowSec],
  )
  await forget(
    sql,
    rows.map((row) => row.order_hash),
  )
}

async function forget(sql: Statements, hashes: readonly Buffer[]): Promise<void> {
  for (const part of partsOf(hashes, DELETED_TOGETHER_MAX)) {
    const marks = part.map(() => '?').join(', ')
    await sql.run(`delete from delegated_orders where order_hash in (${marks})`, part)
  }
}
