/**
 * Operations of the relayer. An operation is stored before its transaction is signed, and updated until the chain has
 * decided. Storing an operation again returns the existing row. The claims of an operation (redemptions, one row per
 * market) are written and changed in the same transaction as the operation.
 */

import type { Address } from '#domain/ids.ts'
import {
  type Claim,
  REDEMPTION_KINDS,
  type RelayKey,
  type RelayKind,
  type RelayPurpose,
  type RelayRecord,
  type RelayStatus,
} from '#domain/relay.ts'
import { type Database, read, transact } from '../engine/database.ts'
import { bytesOf } from '../engine/hex.ts'
import { RelayEntity } from '../entities/relay.ts'

export type OpenedRelay = {
  readonly key: RelayKey
  readonly chainId: number
  readonly kind: RelayKind
  readonly owner: Address
  /**
   * Number of the attempt that the caller wants to begin. A repeated call that arrives late has an old number, so it
   * begins no new attempt.
   */
  readonly attempt: number
  /** Gas limit of the operation. */
  readonly gas: number
  readonly claims: readonly Claim[]
  readonly atMs: number
}

export type RelayChange = {
  readonly key: RelayKey
  /**
   * Attempt to which the change belongs. A change of an earlier attempt is ignored, unless it is a confirmation and the
   * latest attempt has failed.
   */
  readonly attempt: number
  readonly status: RelayStatus
  /** Hash of the transaction; an empty text keeps the stored hash. */
  readonly txHash: string
  /** Gas of the operation; null keeps the stored gas. */
  readonly gas: number | null
  readonly reason: string
  readonly atMs: number
}

const REASON_LENGTH_MAX = 1_000

/**
 * Stores an operation before it is sent. If the operation is already stored, returns its row unchanged, with one
 * exception. If the stored attempt failed and `attempt` is the next number, begins a new attempt and adds its gas to
 * the stored gas.
 */
export async function openRelay(
  database: Database,
  relay: OpenedRelay,
): Promise<{ readonly record: RelayRecord; readonly opened: boolean }> {
  const { key, chainId, kind, owner, attempt, atMs } = relay
  return transact(database, async (transaction, connection) => {
    const lock = database.address.dialect === 'mysql' ? ' for update' : ''
    const [found] = await connection.execute<RelayRow[]>(
      `select * from relays where relay_key = ?${lock}`,
      [bytesOf(key)],
      'all',
      transaction,
    )
    const before = found === undefined ? undefined : recordOfRow(key, found)
    const isNext = before?.status === 'failed' && before.attempt + 1 === attempt
    if (before !== undefined && !isNext) return { record: before, opened: false }
    const gas = (before?.gas ?? 0) + relay.gas
    if (before === undefined) {
      await connection.execute(
        `insert into relays (relay_key, chain_id, kind, owner, status, unfinished, attempt, tx_hash,
          gas, reason, opened_at_ms, updated_at_ms)
          values (?, ?, ?, ?, 'sending', 1, ?, null, ?, null, ?, ?)`,
        [bytesOf(key), chainId, kind, bytesOf(owner), attempt, gas, atMs, atMs],
        'run',
        transaction,
      )
    } else {
      await connection.execute(
        `update relays set status = 'sending', unfinished = 1, attempt = ?, tx_hash = null, gas = ?,
          reason = null, opened_at_ms = ?, updated_at_ms = ? where relay_key = ?`,
        [attempt, gas, atMs, atMs, bytesOf(key)],
        'run',
        transaction,
      )
      await connection.execute(
        'delete from claims where relay_key = ?',
        [bytesOf(key)],
        'run',
        transaction,
      )
    }
    for (const [item, claim] of relay.claims.entries()) {
      await connection.execute(
        `insert into claims (relay_key, item, chain_id, user_address, market_id, market_address,
          payout_e6, winning_outcome, status, tx_hash, reason, submitted_at_ms, updated_at_ms)
          values (?, ?, ?, ?, ?, ?, ?, ?, 'pending', null, null, ?, ?)`,
        [
          bytesOf(key),
          item,
          claim.chainId,
          bytesOf(claim.userAddress),
          bytesOf(claim.marketId),
          bytesOf(claim.marketAddress),
          claim.payout,
          claim.winningOutcome,
          atMs,
          atMs,
        ],
        'run',
        transaction,
      )
    }
    const record: RelayRecord = {
      ...{ key, chainId, kind, owner, status: 'sending', attempt, txHash: '', gas, reason: '' },
      openedAtMs: atMs,
      updatedAtMs: atMs,
    }
    return { record, opened: true }
  })
}

/**
 * Changes an operation and its claims. Returns false and changes nothing if the change belongs to an earlier attempt.
 * Exception: if the latest attempt failed, a confirmation of an earlier one is stored.
 */
export async function changeRelay(database: Database, change: RelayChange): Promise<boolean> {
  const { key, attempt, status, txHash, gas, atMs } = change
  const unfinished = status === 'sending' || status === 'submitted' ? 1 : 0
  const hash = txHash === '' ? null : bytesOf(txHash)
  const reason = change.reason === '' ? null : change.reason.slice(0, REASON_LENGTH_MAX)
  return transact(database, async (transaction, connection) => {
    const [found] = await connection.execute<Pick<RelayRow, 'attempt' | 'status'>[]>(
      'select attempt, status from relays where relay_key = ?',
      [bytesOf(key)],
      'all',
      transaction,
    )
    if (found === undefined) return false
    const isLast = found.attempt === attempt
    const isLate = found.status === 'failed' && status === 'confirmed' && attempt < found.attempt
    if (!isLast && !isLate) return false
    await connection.execute(
      `update relays set status = ?, unfinished = ?, tx_hash = coalesce(?, tx_hash),
        gas = coalesce(?, gas), reason = ?, updated_at_ms = ? where relay_key = ?`,
      [
        ...[status, unfinished, hash, isLast ? gas : null],
        ...[reason?.toWellFormed() ?? null, atMs, bytesOf(key)],
      ],
      'run',
      transaction,
    )
    await connection.execute(
      `update claims set status = ?, tx_hash = coalesce(?, tx_hash), reason = ?, updated_at_ms = ?
        where relay_key = ?`,
      [
        unfinished === 1 ? 'pending' : status,
        hash,
        reason?.toWellFormed() ?? null,
        atMs,
        bytesOf(key),
      ],
      'run',
      transaction,
    )
    return true
  })
}

export async function relayByKey(
  database: Database,
  filter: { readonly key: RelayKey },
): Promise<RelayRecord | undefined> {
  const found = await read(database, (em) =>
    em.findOne(RelayEntity, { key: filter.key }, { disableIdentityMap: true }),
  )
  return found === null ? undefined : relayRecord(found)
}

/** Returns the operations that the chain has not decided yet, oldest first. */
export async function unfinishedRelays(
  database: Database,
  filter: { readonly chainId: number; readonly limit: number },
): Promise<RelayRecord[]> {
  const found = await read(database, (em) =>
    em.find(
      RelayEntity,
      { chainId: filter.chainId, unfinished: 1 },
      { orderBy: { openedAtMs: 'asc', key: 'asc' }, limit: filter.limit, disableIdentityMap: true },
    ),
  )
  return found.map(relayRecord)
}

/**
 * Returns the gas that operations since `sinceMs` have spent or reserved. Without `owner`, counts all owners. Without
 * `purpose`, counts all purposes.
 */
export async function relayGasSince(
  database: Database,
  filter: {
    readonly chainId: number
    readonly owner?: Address
    readonly purpose?: RelayPurpose
    readonly sinceMs: number
  },
): Promise<number> {
  const { chainId, owner, purpose, sinceMs } = filter
  const ofOwner = owner === undefined ? '' : ' and owner = ?'
  const not = purpose === 'redemption' ? '' : ' not'
  const ofPurpose =
    purpose === undefined ? '' : ` and kind${not} in (${REDEMPTION_KINDS.map(() => '?')})`
  const rows = await read(database, (em) =>
    em
      .getConnection()
      .execute<{ gas: number | string | null }[]>(
        `select sum(gas) as gas from relays where chain_id = ? and opened_at_ms >= ?${ofOwner}${ofPurpose}`,
        [
          chainId,
          sinceMs,
          ...(owner === undefined ? [] : [bytesOf(owner)]),
          ...(purpose === undefined ? [] : REDEMPTION_KINDS),
        ],
        'all',
      ),
  )
  return Number(rows[0]?.gas ?? 0)
}

/** Returns the transaction hashes of an owner's confirmed operations of one kind, newest first. */
export async function confirmedRelaysOf(
  database: Database,
  filter: {
    readonly chainId: number
    readonly owner: Address
    readonly kind: RelayKind
    readonly limit: number
  },
): Promise<string[]> {
  const { limit, ...where } = filter
  const found = await read(database, (em) =>
    em.find(
      RelayEntity,
      { ...where, status: 'confirmed' },
      { orderBy: { openedAtMs: 'desc', key: 'asc' }, limit, disableIdentityMap: true },
    ),
  )
  return found.map(({ txHash }) => txHash ?? '')
}

type RelayRow = {
  chain_id: number | string
  kind: RelayKind
  owner: Buffer
  status: RelayStatus
  attempt: number
  tx_hash: Buffer | null
  gas: number | string
  reason: string | null
  opened_at_ms: number | string
  updated_at_ms: number | string
}

function recordOfRow(key: RelayKey, row: RelayRow): RelayRecord {
  return {
    key,
    chainId: Number(row.chain_id),
    kind: row.kind,
    owner: `0x${row.owner.toString('hex')}` as Address,
    status: row.status,
    attempt: row.attempt,
    txHash: row.tx_hash === null ? '' : `0x${row.tx_hash.toString('hex')}`,
    gas: Number(row.gas),
    reason: row.reason ?? '',
    openedAtMs: Number(row.opened_at_ms),
    updatedAtMs: Number(row.updated_at_ms),
  }
}

function relayRecord(row: RelayEntity): RelayRecord {
  return {
    key: row.key,
    chainId: row.chainId,
    kind: row.kind,
    owner: row.owner,
    status: row.status,
    attempt: row.attempt,
    txHash: row.txHash ?? '',
    gas: row.gas,
    reason: row.reason ?? '',
    openedAtMs: row.openedAtMs,
    updatedAtMs: row.updatedAtMs,
  }
}
