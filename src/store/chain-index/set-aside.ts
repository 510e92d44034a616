/**
 * Stores set-aside events, which the indexer could not decode or store, with their place on the chain and the reason.
 * Only the newest events are kept, so that strangers cannot fill the table.
 */

import type { SetAside } from '#domain/chain-event.ts'
import { CHAIN_SET_ASIDE_MAX } from '#domain/limits.ts'
import { bytesOf, hexOf } from '../engine/hex.ts'
import type { Statements } from '../engine/statements.ts'

const WHY_CHARS_MAX = 200

/**
 * Inserts the newest `CHAIN_SET_ASIDE_MAX` of these events. If the table then has more events, deletes the events of
 * its oldest blocks. Only whole blocks are deleted, so up to twice the maximum can remain.
 */
export async function insertSetAside(
  sql: Statements,
  chainId: number,
  setAside: readonly SetAside[],
): Promise<void> {
  if (setAside.length === 0) return
  const newest = [...setAside]
    .sort((a, b) => a.blockNumber - b.blockNumber || a.logIndex - b.logIndex)
    .slice(-CHAIN_SET_ASIDE_MAX)
  await sql.insert(
    'chain_set_aside',
    newest.map(({ blockNumber, logIndex, txHash, atSec, event, why }) => ({
      chain_id: chainId,
      block_number: blockNumber,
      log_index: logIndex,
      event,
      why: why
        .slice(0, WHY_CHARS_MAX)
        .toWellFormed()
        .replaceAll(/\p{Cc}/gu, ' '),
      tx_hash: bytesOf(txHash),
      at_sec: atSec,
    })),
  )
  await sql.run(
    `delete from chain_set_aside where chain_id = ? and block_number < (select oldest from (
        select block_number as oldest from chain_set_aside where chain_id = ?
          order by block_number desc, log_index desc limit 1 offset ${CHAIN_SET_ASIDE_MAX - 1}) as kept)`,
    [chainId, chainId],
  )
}

/** Returns the events that were set aside in blocks after `above` and up to `upTo`, oldest first. */
export async function setAsideOf(
  sql: Pick<Statements, 'all'>,
  chainId: number,
  { above = -1, upTo = Number.MAX_SAFE_INTEGER }: { above?: number; upTo?: number } = {},
): Promise<SetAside[]> {
  const rows = await sql.all<{
    block_number: number | string
    log_index: number | string
    event: string
    why: string
    tx_hash: Uint8Array
    at_sec: number | string
  }>(
    `select block_number, log_index, event, why, tx_hash, at_sec from chain_set_aside
      where chain_id = ? and block_number > ? and block_number <= ?
      order by block_number, log_index`,
    [chainId, above, upTo],
  )
  return rows.map((row) => ({
    blockNumber: Number(row.block_number),
    logIndex: Number(row.log_index),
    txHash: hexOf(row.tx_hash),
    atSec: Number(row.at_sec),
    event: row.event,
    why: row.why,
  }))
}
