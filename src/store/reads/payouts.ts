/**
 * What markets have paid a user out, the newest first: redemptions that the chain has, by whatever
 * way they came there, and those through the relayer that it does not have yet, or refused.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import { type Database, read, sqlConnection } from '../engine/database.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'

export type PayoutRecord = {
  readonly marketId: MarketId
  readonly marketQuestion: string
  readonly contractAddress: Address
  readonly winningOutcome: number
  readonly payout: bigint
  readonly txHash: string
  readonly status: 'pending' | 'confirmed' | 'failed'
  readonly atMs: number
}

type Row = {
  readonly market_id: Uint8Array
  readonly question: string | null
  readonly contract_address: Uint8Array | null
  readonly winning_outcome: number | null
  readonly payout: string
  readonly tx_hash: Uint8Array | null
  readonly status: PayoutRecord['status']
  readonly at_ms: number | string
}

export async function payoutsOfUser(
  database: Database,
  filter: { readonly user: Address; readonly chainId: number; readonly limit: number },
): Promise<PayoutRecord[]> {
  const values = [bytesOf(filter.user), filter.chainId, filter.limit]
  const ask = (statement: string) =>
    read(database, () => sqlConnection(database).execute<Row[]>(statement, values, 'all'))
  const [redeemed, claimed] = await Promise.all([
    ask(`select c.market_id, m.question, m.contract_address, m.winning_outcome,
        cast(c.amount_e6 as char) as payout, c.tx_hash, 'confirmed' as status,
        c.at_sec * 1000 as at_ms
      from chain_conversions as c left join chain_markets as m on m.market_id = c.market_id
      where c.holder = ? and c.chain_id = ? and c.kind = 'redeem'
      order by c.block_number desc, c.log_index desc limit ?`),
    ask(`select c.market_id, m.question, c.market_address as contract_address, c.winning_outcome,
        cast(c.payout_e6 as char) as payout, c.tx_hash, c.status, c.submitted_at_ms as at_ms
      from claims as c left join markets as m on m.market_id = c.market_id
      where c.user_address = ? and c.chain_id = ?
      order by c.submitted_at_ms desc, c.item desc limit ?`),
  ])
  const payouts = redeemed.map(payoutRecord)
  const seen = new Set(payouts.map(({ txHash, marketId }) => `${txHash}/${marketId}`))
  for (const claim of claimed.map(payoutRecord)) {
    if (!seen.has(`${claim.txHash}/${claim.marketId}`)) payouts.push(claim)
  }
  return payouts.sort((a, b) => b.atMs - a.atMs).slice(0, filter.limit)
}

function payoutRecord(row: Row): PayoutRecord {
  return {
    marketId: hexOf(row.market_id) as MarketId,
    marketQuestion: row.question ?? '',
    contractAddress: (row.contract_address === null
      ? `0x${'0'.repeat(40)}`
      : hexOf(row.contract_address)) as Address,
    winningOutcome: Number(row.winning_outcome ?? 0),
    payout: BigInt(row.payout),
    txHash: row.tx_hash === null ? '' : hexOf(row.tx_hash),
    status: row.status,
    atMs: Number(row.at_ms),
  }
}
