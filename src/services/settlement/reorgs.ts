/**
 * Batches that a reorg removed. Their trades are read again, their markets hear that they are not settled
 * any more, and only then may anything be sent again.
 */

import { submitted } from './batches.ts'
import { deliver } from './reports.ts'
import type { Batch, SettlementContext, SettlementState } from './state.ts'
import { begun, failure } from './steps.ts'

/** Once every market has said what it thinks of a batch that vanished, it may be sent again. */
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
  submitted(state, batch)
  deliver(state, context)
}

export function readVanished(state: SettlementState, context: SettlementContext): void {
  const [next] = state.flight.vanished
  if (next === undefined || !begun(state, 'vanished', context.nowMs)) return
  const { sender, nonce, txHash, tradeIds } = next
  context.pipe(
    state.ports.readTrades(tradeIds),
    (trades) => ({
      type: 'VanishedRead',
      message: { batch: { sender, nonce, txHash, tradeIds, trades } },
    }),
    failure('vanished'),
  )
}
