/**
 * Writes the steps of a resolution: inserts a row for each proposal at the oracle, and updates existing rows with the
 * later steps.
 */

import type { ChainEvent, ResolutionProposed } from '#domain/chain-event.ts'
import { bytesOf } from '../engine/hex.ts'
import type { Statements } from '../engine/statements.ts'

/** Names under which the tables store steps that change or end an existing proposal. */
export const STEPS = {
  ResolutionDisputed: 'disputed',
  ResolutionOverturned: 'overturned',
  ResolutionAbandoned: 'abandoned',
} as const

export async function applyStep(
  sql: Statements,
  chainId: number,
  event: ChainEvent,
): Promise<void> {
  const { blockNumber, atSec, txHash } = event
  const when = [blockNumber, atSec, bytesOf(txHash)] as const
  const end = (as: string, assertionId: string) =>
    sql.run(
      `update chain_assertions set ended_as = ?, ended_block = ?, ended_at_sec = ?, ended_tx = ?
        where chain_id = ? and assertion_id = ?`,
      [as, ...when, chainId, bytesOf(assertionId)],
    )
  switch (event.type) {
    case 'ResolutionProposed':
      await propose(sql, chainId, event)
      break
    case 'ResolutionDisputed':
      await sql.run(
        `update chain_assertions set disputed_block = ?, disputed_at_sec = ?, disputed_tx = ?
          where chain_id = ? and assertion_id = ?`,
        [...when, chainId, bytesOf(event.assertionId)],
      )
      break
    case 'ResolutionOverturned':
    case 'ResolutionAbandoned':
      await end(STEPS[event.type], event.assertionId)
      break
    case 'QuickMarketResolved':
      await sql.run(
        `update chain_markets set end_start_price_e8 = ?, end_price_e8 = ?, end_source = ?
          where market_id = ?`,
        [
          String(event.startPrice),
          String(event.endPrice),
          event.source.toWellFormed(),
          bytesOf(event.marketId),
        ],
      )
      break
    case 'MarketResolved':
      await sql.run(
        `update chain_markets set resolved = 1, winning_outcome = ?, resolved_block = ?,
          resolved_at_sec = ?, resolved_tx = ? where market_id = ?`,
        [event.winningOutcome, ...when, bytesOf(event.marketId)],
      )
      if (event.assertionId !== '') await end('settled', event.assertionId)
      break
    case 'ConditionResolved':
      await sql.run('update chain_markets set payouts = ?, payouts_block = ? where market_id = ?', [
        event.payouts.join(','),
        blockNumber,
        bytesOf(event.marketId),
      ])
      break
    default:
      break
  }
}

async function propose(sql: Statements, chainId: number, event: ResolutionProposed): Promise<void> {
  await sql.insert('chain_assertions', [
    {
      chain_id: chainId,
      assertion_id: bytesOf(event.assertionId),
      market_id: bytesOf(event.marketId),
      proposer: bytesOf(event.proposer),
      asserter: bytesOf(event.asserter),
      proposed_outcome: event.outcome,
      bond_e6: String(event.bond),
      asserted_at_sec: event.assertedAtSec,
      window_ends_at_sec: event.windowEndsAtSec,
      proposed_block: event.blockNumber,
      proposed_log_index: event.logIndex,
      proposed_tx: bytesOf(event.txHash),
    },
  ])
}
