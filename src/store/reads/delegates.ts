/** Reads delegations: which keys may sign for an account, and within which limits. */

import type { Delegation } from '#domain/delegate.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'

type DelegateRow = {
  readonly account: Buffer
  readonly delegate: Buffer
  readonly until_sec: number | string
  readonly settles_until_sec: number | string
  readonly max_order_size_e6: number | string
  readonly max_open_notional_e6: number | string
  readonly markets: string
}

/** SQL condition: row `c` is the newest row of its account and delegate. */
export const IS_NEWEST = `not exists (select 1 from chain_delegates n
  where n.chain_id = c.chain_id and n.account = c.account and n.delegate = c.delegate
    and (n.block_number > c.block_number
      or (n.block_number = c.block_number and n.log_index > c.log_index)))`

/**
 * Returns an account's delegates, newest first. Includes a revoked delegate until its `settles_until_sec`, because
 * trades of orders that this delegate signed may still settle.
 */
export async function delegationsOf(
  database: Database,
  args: {
    readonly chainId: number
    readonly account: Address
    readonly nowSec: number
    readonly limit: number
  },
): Promise<Delegation[]> {
  const rows = await read(database, () =>
    sqlConnection(database).execute<DelegateRow[]>(
      `select account, delegate, until_sec, settles_until_sec, max_order_size_e6,
          max_open_notional_e6, markets
        from chain_delegates c where chain_id = ? and account = ? and settles_until_sec >= ?
          and ${IS_NEWEST}
        order by block_number desc, log_index desc limit ${Math.floor(args.limit)}`,
      [args.chainId, bytesOf(args.account), args.nowSec],
      'all',
    ),
  )
  return rows.map(delegationOf)
}

/** Returns at most `limit` accounts that have ever appointed a delegate on a chain. */
export async function delegators(
  database: Database,
  { chainId, limit }: { readonly chainId: number; readonly limit: number },
): Promise<Address[]> {
  const rows = await read(database, () =>
    sqlConnection(database).execute<{ account: Buffer }[]>(
      `select distinct account from chain_delegates where chain_id = ? limit ${Math.floor(limit)}`,
      [chainId],
      'all',
    ),
  )
  return rows.map((row) => hexOf(row.account) as Address)
}

function delegationOf(row: DelegateRow): Delegation {
  return {
    account: hexOf(row.account) as Address,
    delegate: hexOf(row.delegate) as Address,
    untilSec: Number(row.until_sec),
    settlesUntilSec: Number(row.settles_until_sec),
    maxOrderSize: Number(row.max_order_size_e6),
    maxOpenNotional: Number(row.max_open_notional_e6),
    markets:
      row.markets === '' ? [] : row.markets.split(',').map((digits) => `0x${digits}` as MarketId),
  }
}
