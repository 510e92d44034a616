/** Transactions in flight: their trades, their receipts, and the verdicts for each trade. */

import type { TradeId } from '#domain/ids.ts'
import { SETTLEMENT_PERMITS_MAX } from '#domain/limits.ts'
import type { TradeToSettle, TradeWithOrders } from '#domain/trade.ts'
import { payersOf } from './chain/settlement-batch.ts'
import type { OpenSettlement, SettlementUpdate, TradeVerdict } from './chain/settlement-lane.ts'
import { noteMined } from './mined-since.ts'
import { applyNote } from './notes.ts'
import { leaveQueue, requeue, track } from './queue.ts'
import {
  addReport,
  emitContradiction,
  end,
  isInFlight,
  isUnreported,
  revertConfirmed,
  sendReports,
} from './reports.ts'
import {
  awaitMarket,
  isolateReverting,
  noteMissingMarket,
  OUT_OF_TIME,
  retryLater,
} from './retries.ts'
import {
  type Batch,
  moveTo,
  type PendingSettlement,
  type RecoveredBatch,
  type SettlementContext,
  type SettlementState,
} from './state.ts'
import { failure } from './steps.ts'

function batchName({ sender, nonce }: { sender: string; nonce: number }): string {
  return `${sender}/${nonce}`
}

/** Follows a transaction that was just sent. */
export function startBatch(
  state: SettlementState,
  sent: OpenSettlement,
  context: SettlementContext,
): Batch {
  const batch: Batch = {
    sender: sent.sender,
    nonce: sent.nonce,
    txHash: sent.txHash,
    tradeIds: sent.tradeIds,
    mined: false,
    ended: false,
    acknowledging: false,
    vanished: false,
    unwanted: new Map(),
  }
  state.flight.batches.set(batchName(batch), batch)
  markSent(state, batch)
  sendReports(state, context)
  return batch
}

export function markSent(state: SettlementState, batch: Batch): void {
  for (const tradeId of batch.tradeIds) {
    const pending = state.trades.get(tradeId)
    if (pending === undefined || pending.stage === 'ended') continue
    leaveQueue(state, pending)
    moveTo(pending, 'sent')
    pending.missing = undefined
    const { trade } = pending
    pending.trade = { ...trade, status: 'submitted', attempts: trade.attempts + 1 }
    addReport(state, tradeId, {
      status: 'submitted',
      txHash: batch.txHash,
      reason: '',
      fault: 'none',
    })
  }
}

/**
 * Resumes following a transaction that is open in the journal after a restart, or that a reorg removed from its block.
 * Abandons the transaction if one of its trades must not settle. A trade must not settle if it has failed, or if the
 * contract refused it in an earlier block and named a side at fault.
 */
export function resumeBatch(
  state: SettlementState,
  found: RecoveredBatch,
  context: SettlementContext,
): Batch {
  const unwanted: TradeWithOrders[] = []
  let isRefused = false
  const notes = new Map(found.notes.map((note) => [note.tradeId, note]))
  for (const trade of found.trades) {
    const known = state.trades.get(trade.tradeId)
    if (known !== undefined) leaveQueue(state, known)
    else if (trade.status === 'failed') {
      unwanted.push(trade)
      continue
    }
    state.history.ended.delete(trade.tradeId)
    const pending = track(state, trade, 'sent', context.nowMs)
    if (known === undefined) applyNote(pending, notes.get(trade.tradeId), state)
    if (pending.refusal !== undefined) isRefused = true
  }
  const batch = startBatch(state, found, context)
  for (const trade of unwanted) batch.unwanted.set(state.ports.keyOf(trade), trade.tradeId)
  if (unwanted.length > 0 || isRefused) state.ports.lane.abandon(batch)
  return batch
}

export function applyUpdate(
  state: SettlementState,
  update: SettlementUpdate,
  context: SettlementContext,
): void {
  const batch = state.flight.batches.get(batchName(update))
  if (update.type === 'vanished') {
    context.emit({ type: 'BatchVanished', trades: update.tradeIds.length })
    state.flight.batches.delete(batchName(update))
    state.flight.vanished.push(update)
    return
  }
  if (batch === undefined) return
  batch.txHash = update.txHash
  switch (update.type) {
    case 'mined':
      batch.mined = true
      noteBlock(state, batch, update)
      break
    case 'replaced':
      batch.mined = false
      markSent(state, batch)
      break
    case 'finished':
      batch.ended = true
      finishBatch(state, batch, update, context)
      break
  }
}

/**
 * Records that a block contains this batch. Trades that wait for this batch can then continue, and the permits of the
 * batch's settled trades count as used.
 */
function noteBlock(
  state: SettlementState,
  { tradeIds }: Batch,
  { verdicts, block }: Extract<SettlementUpdate, { type: 'mined' }>,
): void {
  const verdictOf = new Map(verdicts.map((verdict) => [verdict.tradeKey, verdict]))
  for (const tradeId of tradeIds) {
    const pending = state.trades.get(tradeId)
    if (pending === undefined || pending.stage === 'ended') continue
    const verdict = verdictOf.get(pending.trade.tradeKey)
    const isSettled = verdict?.settled === true
    if (verdict?.settled === false && isByFault(verdict)) pending.refusal = verdict
    if (isSettled) noteMined(state, pending.trade, block)
    if (isSettled) rememberPermits(state, pending.trade)
    state.older.decided.set(tradeId, isSettled ? block : undefined)
  }
}

function finishBatch(
  state: SettlementState,
  batch: Batch,
  update: Extract<SettlementUpdate, { type: 'finished' }>,
  context: SettlementContext,
): void {
  const { outcome, verdicts, gasUsed, txHash } = update
  const settled = verdicts.filter((verdict) => verdict.settled).length
  const rejected = verdicts.length - settled
  context.emit({ type: 'BatchEnded', outcome, settled, rejected, gasUsed })
  const own = batch.tradeIds.filter(
    (tradeId) => state.trades.get(tradeId)?.stage === 'sent' && !isInFlight(state, tradeId),
  )
  const gasEach = Math.ceil(gasUsed / batch.tradeIds.length)
  const verdictOf = new Map(verdicts.map((verdict) => [verdict.tradeKey, verdict]))
  for (const tradeId of own) {
    const pending = state.trades.get(tradeId)
    if (pending?.isConfirmed !== true) continue
    const verdict = verdictOf.get(pending.trade.tradeKey)
    // The market recorded the trade as confirmed, but a reorg removed the block of its settlement. Undo the
    // confirmation unless the new block shows that the trade is settled.
    const isSettled = verdict?.settled === true || verdict?.reason === 'AlreadySettled'
    if (!isSettled) revertConfirmed(state, tradeId, txHash)
  }
  if (outcome !== 'succeeded') {
    const rest = failRefused(state, own, context)
    const revert = { name: '', words: 'the transaction reverted', gasEach }
    if (outcome === 'reverted') isolateReverting(state, rest, revert, context)
    else for (const tradeId of rest) requeue(state, tradeId, 0)
    return
  }
  for (const tradeId of batch.tradeIds) {
    const pending = state.trades.get(tradeId)
    if (pending === undefined) continue
    const verdict = verdictOf.get(pending.trade.tradeKey)
    if (verdict?.settled !== true && isInFlight(state, tradeId)) continue
    if (verdict?.settled === false) pending.wastedGas += gasEach
    applyVerdict(state, pending, { verdict, txHash }, context)
  }
  for (const [tradeKey, tradeId] of batch.unwanted) {
    if (verdictOf.get(tradeKey)?.settled === true) emitContradiction(tradeId, context)
  }
}

/**
 * Fails trades that the contract refused in an earlier block, even if a reorg removed that block. Returns the other
 * trades.
 */
function failRefused(
  state: SettlementState,
  tradeIds: readonly TradeId[],
  context: SettlementContext,
): readonly TradeId[] {
  return tradeIds.filter((tradeId) => {
    const refusal = state.trades.get(tradeId)?.refusal
    if (refusal === undefined) return true
    const { reason, fault } = refusal
    end(state, tradeId, { status: 'failed', reason, fault }, context)
    return false
  })
}

function isByFault({ fault, reason }: TradeVerdict): boolean {
  return fault !== 'none' && reason !== OUT_OF_TIME
}

function applyVerdict(
  state: SettlementState,
  pending: PendingSettlement,
  { verdict, txHash }: { readonly verdict: TradeVerdict | undefined; readonly txHash: string },
  context: SettlementContext,
): void {
  const { tradeId, marketId } = pending.trade
  if (verdict?.settled === true) {
    rememberPermits(state, pending.trade)
    end(state, tradeId, { status: 'confirmed', txHash }, context)
    return
  }
  if (pending.stage !== 'sent') return
  if (verdict === undefined) {
    requeue(state, tradeId, 0)
    return
  }
  switch (verdict.reason) {
    case 'AlreadySettled':
      // Another transaction settled the trade. The next submission searches for that transaction on the chain.
      requeue(state, tradeId, 0)
      break
    case 'MarketUnknown':
      noteMissingMarket(state, marketId, context.nowMs)
      awaitMarket(state, pending, context)
      break
    case OUT_OF_TIME:
      end(state, tradeId, { status: 'failed', reason: verdict.reason, txHash }, context)
      break
    default:
      if (verdict.fault === 'none') retryLater(state, pending, verdict.reason, context)
      else end(state, tradeId, { ...verdict, status: 'failed', txHash }, context)
  }
}

/** Remembers that the permits of a settled trade are used: the buyer's, and in a mint the seller's too. */
function rememberPermits({ flight }: SettlementState, trade: TradeToSettle): void {
  for (const { permit, orderHash } of payersOf(trade)) {
    if (permit === undefined) continue
    if (flight.usedPermits.size >= SETTLEMENT_PERMITS_MAX) flight.usedPermits.clear()
    flight.usedPermits.add(orderHash)
  }
}

/** Closes a batch's row in the journal (the table of sent transactions) once all trades of the batch are reported. */
export function acknowledge(state: SettlementState, context: SettlementContext): void {
  for (const [name, batch] of state.flight.batches) {
    if (!batch.ended || batch.acknowledging) continue
    if (batch.tradeIds.some((tradeId) => isUnreported(state.trades.get(tradeId)))) continue
    if (context.nowMs < (state.steps.pauses.get('acknowledge')?.untilMs ?? 0)) return
    batch.acknowledging = true
    context.pipe(
      state.ports.lane.acknowledge(batch),
      () => ({ type: 'Acknowledged', message: { batch: name } }),
      failure('acknowledge', { batch: name }),
    )
  }
}
