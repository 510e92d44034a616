/**
 * Handles batches that a reorg removed. Settlement reads the trades of such a batch again and reports them as
 * `reverted`. Settlement sends nothing until the markets have acknowledged these reports.
 */

import { markSent } from './batches.ts'
import { sendReports } from './reports.ts'
import type { Batch, SettlementContext, SettlementState } from './state.ts'
import { failure, tryBegin } from './steps.ts'

/** Sends a removed batch again once the markets have acknowledged all `reverted` reports of the batch's trades. */
export function settleVanished(
  state: SettlementState,
  batch: Batch,
  context: SettlementContext,
): void {
  for (const tradeId of batch.tradeIds) {
    const reports = state.trades.get(tradeId)?.reports ?? []
    if (reports.some(({ status }) => status === 'reverted')) return
  }
  batch.vanished = false
  markSent(state, batch)
  sendReports(state, context)
}

export function readVanished(state: SettlementState, context: SettlementContext): void {
  const [next] = state.flight.vanished
  if (next === undefined || !tryBegin(state, 'vanished', context.nowMs)) return
  const { sender, nonce, txHash, tradeIds } = next
  context.pipe(
    Promise.all([state.ports.readTrades(tradeIds), state.ports.readNotes(tradeIds)]),
    ([trades, notes]) => ({
      type: 'VanishedRead',
      message: { batch: { sender, nonce, txHash, tradeIds, trades, notes } },
    }),
    failure('vanished'),
  )
}
