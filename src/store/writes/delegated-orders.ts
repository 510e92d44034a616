/**
 * Records orders that delegates signed before their markets get them. So the sum of a delegate's open orders cannot
 * exceed the limit of the delegation, through any fronts and restarts: writes run one after another, and each sees the
 * earlier ones. An order counts in full until the projection has it, then with its rest.
 *
 * The same order may be submitted several times, also at once and with different options: one submission is refused, the
 * other is placed, and the projection has neither yet. So a reservation counts its submissions and goes with the last.
 */

import type { Address, OrderHash } from '#domain/ids.ts'
import { DELEGATED_ORDERS_MAX } from '#domain/limits.ts'
import { costCeil, type Price, type Shares } from '#domain/money.ts'
import { type Database, transact } from '../engine/database.ts'
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
  /** True to find out only. */
  readonly dryRun?: boolean
}

/** Result of a reservation: granted, or the current sum of the open orders. */
type DelegatedReserve =
  | { readonly reserved: true }
  | { readonly reserved: false; readonly openNotional: bigint; readonly openOrders: number }

/** If the projection never gets the order of a reservation, the order was lost between front and market. */
const LOST_AFTER_MS = 600_000
/** The quantity of a filled order may return until its trades have settled, which takes less than this. */
const RETURNS_WITHIN_MS = 7_200_000
/** Expired rows deleted per write. */
const FORGOTTEN_MAX = 20

export async function reserveDelegated(
  database: Database,
  order: DelegatedOrder,
): Promise<DelegatedReserve> {
  const { orderHash, chainId, trader, delegate, price, size, nowMs, maxOpenNotional } = order
  return transact(database, async (transaction, connection) => {
    const sql = statements(database, connection, transaction)
    await forgetExpired(sql, Math.floor(nowMs / 1_000))
    if (await isReserved(sql, order)) return { reserved: true }
    if (maxOpenNotional > 0) {
      const { openNotional, openOrders } = await openOf(sql, order)
      const isOver = openNotional + BigInt(costCeil(price, size)) > BigInt(maxOpenNotional)
      if (isOver || openOrders >= DELEGATED_ORDERS_MAX) {
        return { reserved: false, openNotional, openOrders }
      }
    }
    if (order.dryRun === true) return { reserved: true }
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
    return { reserved: true }
  })
}

/** Counts another submission of a reserved order; false for an order without a reservation, or with a lost one. */
async function isReserved(
  sql: Statements,
  { orderHash, nowMs, dryRun = false }: DelegatedOrder,
): Promise<boolean> {
  const hash = bytesOf(orderHash)
  const [known] = await sql.all<{ status: string | null; reserved_at_ms: number | string }>(
    `select o.status, d.reserved_at_ms from delegated_orders d
      left join orders o on o.order_hash = d.order_hash where d.order_hash = ?`,
    [hash],
  )
  if (known === undefined) return false
  if (isLost(known, nowMs)) {
    if (!dryRun) await forget(sql, [hash])
    return false
  }
  if (dryRun) return true
  const again = 'update delegated_orders set submissions = submissions + 1 where order_hash = ?'
  await sql.run(again, [hash])
  return true
}

/** Ends a submission that its market refused. An order that the projection has stays. Returns whether none is left. */
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

/** Returns the open orders of a delegate; deletes those that have ended. */
async function openOf(
  sql: Statements,
  { chainId, trader, delegate, nowMs }: DelegatedOrder,
): Promise<{ openNotional: bigint; openOrders: number }> {
  const rows = await sql.all<{
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
      from delegated_orders d left join orders o on o.order_hash = d.order_hash
      where d.chain_id = ? and d.trader = ? and d.delegate = ?`,
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
  await forget(sql, ended)
  return { openNotional, openOrders }
}

function isLost(
  row: { readonly status: string | null; readonly reserved_at_ms: number | string },
  nowMs: number,
): boolean {
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
  for (const hash of hashes)
    await sql.run('delete from delegated_orders where order_hash = ?', [hash])
}
