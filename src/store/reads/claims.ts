/** Reads claims (redemptions through the relayer), newest first. */

import type { Address, MarketId } from '#domain/ids.ts'
import type { ClaimRecord, ClaimStatus, RelayKey } from '#domain/relay.ts'
import { type Database, read } from '../engine/database.ts'
import { ClaimEntity } from '../entities/claim.ts'

/** Position of the last claim of a page. */
export type ClaimPlace = { readonly atMs: number; readonly item: number; readonly key: RelayKey }

type ClaimFilter = {
  readonly status: ClaimStatus
  readonly limit: number
  /** Selects only claims that are older than the claim at this position. */
  readonly before?: ClaimPlace
}

/** Returns the newest claims with one status, the start of the next page, and the total number. */
export async function claimsByStatus(
  database: Database,
  { status, limit, before }: ClaimFilter,
): Promise<{ claims: ClaimRecord[]; count: number; next: ClaimPlace | undefined }> {
  const where = { status, ...(before === undefined ? {} : olderThan(before)) }
  const [found, count] = await read(database, (em) =>
    Promise.all([em.find(ClaimEntity, where, newest(limit)), em.count(ClaimEntity, { status })]),
  )
  const last = found.length === limit ? found.at(-1) : undefined
  const next =
    last === undefined ? undefined : { atMs: last.submittedAtMs, item: last.item, key: last.key }
  return { claims: found.map(claimRecord), count, next }
}

/** Returns the transaction hash of a user's newest confirmed redemption in a market. */
export async function redemptionOf(
  database: Database,
  filter: {
    readonly chainId: number
    readonly userAddress: Address
    readonly marketId: MarketId
  },
): Promise<string | undefined> {
  const [found] = await read(database, (em) =>
    em.find(ClaimEntity, { ...filter, status: 'confirmed' }, newest(1)),
  )
  return found?.txHash ?? undefined
}

function olderThan({ atMs, item, key }: ClaimPlace) {
  return {
    submittedAtMs: { $lte: atMs },
    $or: [{ submittedAtMs: { $lt: atMs } }, { item: { $lt: item } }, { item, key: { $lt: key } }],
  }
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
