/** Reads the orders that traders withdrew on chain: single orders, or all orders below a nonce. */

import type { Address, OrderHash, Uint64 } from '#domain/ids.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'

type Withdrawn = {
  /**
   * Nonce below which all orders of the trader are withdrawn; '0' if the trader has never withdrawn orders by nonce.
   */
  readonly beforeNonce: Uint64
  /** Orders that the trader withdrew one by one; at most `ordersMax` of them. */
  readonly orderHashes: readonly OrderHash[]
  /** True if the trader withdrew the requested order individually, even if `orderHashes` does not contain it. */
  readonly isWithdrawn: boolean
}

/**
 * Returns the orders that a trader withdrew on chain. A withdrawal applies on the exchange immediately, although the
 * contract applies it only after a delay.
 */
export async function withdrawnBy(
  database: Database,
  args: {
    readonly chainId: number
    readonly trader: Address
    readonly orderHash: OrderHash
    readonly ordersMax: number
  },
): Promise<Withdrawn> {
  const { chainId, ordersMax } = args
  const trader = bytesOf(args.trader)
  // Nonces are decimal text without leading zeros. So a longer text is a larger nonce, and texts of the same length are
  // compared digit by digit.
  const [epoch] = await select<{ before_nonce: string }>(
    database,
    `select before_nonce from chain_withdrawn_epochs where chain_id = ? and trader = ?
      order by length(before_nonce) desc, before_nonce desc limit 1`,
    [chainId, trader],
  )
  const orders = await select<{ order_hash: Buffer }>(
    database,
    `select order_hash from chain_withdrawn_orders where chain_id = ? and trader = ?
      limit ${Math.floor(ordersMax)}`,
    [chainId, trader],
  )
  const found = await select(
    database,
    'select 1 from chain_withdrawn_orders where chain_id = ? and order_hash = ? and trader = ?',
    [chainId, bytesOf(args.orderHash), trader],
  )
  return {
    beforeNonce: (epoch?.before_nonce ?? '0') as Uint64,
    orderHashes: orders.map((row) => hexOf(row.order_hash) as OrderHash),
    isWithdrawn: found.length > 0,
  }
}

/**
 * Returns traders who withdrew orders on a chain: at most `limit` who withdrew by nonce, and at most `limit` who
 * withdrew single orders.
 */
export async function withdrawers(
  database: Database,
  { chainId, limit }: { readonly chainId: number; readonly limit: number },
): Promise<Address[]> {
  const traders = new Set<Address>()
  for (const table of ['chain_withdrawn_epochs', 'chain_withdrawn_orders']) {
    const rows = await select<{ trader: Buffer }>(
      database,
      `select distinct trader from ${table} where chain_id = ? limit ${Math.floor(limit)}`,
      [chainId],
    )
    for (const row of rows) traders.add(hexOf(row.trader) as Address)
  }
  return [...traders]
}

function select<Row>(
  database: Database,
  sql: string,
  values: readonly (number | Buffer)[],
): Promise<Row[]> {
  return read(database, () => sqlConnection(database).execute<Row[]>(sql, [...values], 'all'))
}
