/** Reads of claims: redemptions through the relayer, the newest first. */

import type { Address } from '#domain/ids.ts'
import type { ClaimRecord, ClaimStatus } from '#domain/relay.ts'
import { type Database, read } from './database.ts'
import { ClaimEntity } from './entities/claim.ts'

/** The newest claims of one status, and how many there are in all. */
export async function claimsByStatus(
  database: Database,
  filter: { readonly status: ClaimStatus; readonly limit: number },
): Promise<{ claims: ClaimRecord[]; count: number }> {
  const where = { status: filter.status }
  const [found, count] = await read(database, (em) =>
    Promise.all([em.find(ClaimEntity, where, newest(filter.limit)), em.count(ClaimEntity, where)]),
  )
  return { claims: found.map(claimRecord), count }
}

/** The claims of a user on a chain, whatever became of them. */
export async function claimsOfUser(
  database: Database,
  filter: { readonly user: Address; readonly chainId: number; readonly limit: number },
): Promise<ClaimRecord[]> {
  const { user, chainId, limit } = filter
  const found = await read(database, (em) =>
    em.find(ClaimEntity, { userAddress: user, chainId }, newest(limit)),
  )
  return found.map(claimRecord)
}

function newest(limit: number) {
  return {
    orderBy: { submittedAtMs: 'desc', item: 'desc', key: 'desc' },
    limit,
    disableIdentityMap: true,
  } as const
}

function claimRecord(row: ClaimEntity): ClaimRecord {
  return {
    chainId: row.chainId,
    userAddress: row.userAddress,
    marketId: row.marketId,
    marketAddress: row.marketAddress,
    payout: row.payout,
    winningOutcome: row.winningOutcome,
    status: row.status,
    txHash: row.txHash ?? '',
    reason: row.reason ?? '',
    submittedAtMs: row.submittedAtMs,
    updatedAtMs: row.updatedAtMs,
  }
}
