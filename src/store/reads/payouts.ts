/**
 * Payouts of markets to a user, newest first. Includes all redemptions on chain, however they were sent. Also
 * includes redemptions through the relayer that are pending, failed, or confirmed and not indexed yet.
 */

import type { Address, MarketId } from '#domain/ids.ts'
import type { Database } from '../engine/database.ts'
import { bytesOf, hexColumn, hexOfDigits } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'

type PayoutRecord = {
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
  readonly market: string
  readonly question: string | null
  readonly contract: string | null
  readonly winning_outcome: number | null
  readonly payout: string
  readonly tx: string | null
  readonly status: PayoutRecord['status']
  readonly at_ms: number | string
}

export async function payoutsOfUser(
  database: Database,
  filter: { readonly user: Address; readonly chainId: number; readonly limit: number },
): Promise<PayoutRecord[]> {
  const values = [bytesOf(filter.user), filter.chainId, filter.limit]
  const ask = (statement: string) => rowsOf<Row>(database, statement, values)
  const [redeemed, claimed] = await Promise.all([
    ask(`select ${hexColumn('c.market_id')} as market, m.question, m.winning_outcome,
        ${hexColumn('m.contract_address')} as contract, cast(c.amount_e6 as char) as payout,
        ${hexColumn('c.tx_hash')} as tx, 'confirmed' as status,
        c.at_sec * 1000 as at_ms
      from chain_conversions as c left join chain_markets as m on m.market_id = c.market_id
      where c.holder = ? and c.chain_id = ? and c.kind = 'redeem'
      order by c.block_number desc, c.log_index desc limit ?`),
    ask(`select ${hexColumn('c.market_id')} as market, m.question, c.winning_outcome,
        ${hexColumn('c.market_address')} as contract, cast(c.payout_e6 as char) as payout,
        ${hexColumn('c.tx_hash')} as tx, c.status, c.submitted_at_ms as at_ms
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
    marketId: hexOfDigits(row.market) as MarketId,
    marketQuestion: row.question ?? '',
    contractAddress: (hexOfDigits(row.contract) || `0x${'0'.repeat(40)}`) as Address,
    winningOutcome: Number(row.winning_outcome ?? 0),
    payout: BigInt(row.payout),
    txHash: hexOfDigits(row.tx),
    status: row.status,
    atMs: Number(row.at_ms),
  }
}
