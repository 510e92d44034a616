/** The transactions under way: what is in each, what the chain says of it, and what that means for its trades. */

import type { OrderHash, TradeId } from '#domain/ids.ts'
import { SETTLEMENT_PERMITS_MAX } from '#domain/limits.ts'
import type { TradeWithOrders } from '#domain/trade.ts'
import type { OpenSettlement, SettlementNews, TradeVerdict } from './chain/settlement-lane.ts'
import { noteMined } from './mined-since.ts'
import { hold, leaveQueue, requeue } from './queue.ts'
import { contradict, deliver, end, isUnderWay, isUntold, takeBack, tell } from './reports.ts'
import { isolate, missMarket, OUT_OF_TIME, setBack, wait } from './setbacks.ts'
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

/** A transaction has been sent: its trades are submitted. */
export function begin(
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
  submitted(state, batch)
  deliver(state, context)
  return batch
}

export function submitted(state: SettlementState, batch: Batch): void {
  for (const tradeId of batch.tradeIds) {
    const pending = state.trades.get(tradeId)
    if (pending === undefined || pending.stage === 'ended') continue
    leaveQueue(state, pending)
    moveTo(pending, 'sent')
    const { trade } = pending
    pending.trade = { ...trade, status: 'submitted', attempts: trade.attempts + 1 }
    tell(state, tradeId, { status: 'submitted', txHash: batch.txHash, reason: '', fault: 'none' })
  }
}

/**
 * A transaction that this process did not send, or not lately. Its end may have been told before a
 * kill, and a reorg may have removed it since: what has failed must not settle by it after all. Nor may a trade
 * that the removed block refused: the side at fault could act meanwhile.
 */
export function follow(
  state: SettlementState,
  found: RecoveredBatch,
  context: SettlementContext,
): Batch {
  const unwanted: TradeWithOrders[] = []
  let isRefused = false
  for (const trade of found.trades) {
    const known = state.trades.get(trade.tradeId)
    if (known?.refusal !== undefined) isRefused = true
    if (known !== undefined) leaveQueue(state, known)
    else if (trade.status === 'failed') {
      unwanted.push(trade)
      continue
    }
    state.history.ended.delete(trade.tradeId)
    hold(state, trade, 'sent', context.nowMs)
  }
  const batch = begin(state, found, context)
  for (const trade of unwanted) batch.unwanted.set(state.ports.keyOf(trade), trade.tradeId)
  if (unwanted.length > 0 || isRefused) state.ports.lane.abandon(batch)
  return batch
}

export function hearNews(
  state: SettlementState,
  news: SettlementNews,
  context: SettlementContext,
): void {
  const batch = state.flight.batches.get(batchName(news))
  if (news.type === 'vanished') {
    context.emit({ type: 'BatchVanished', trades: news.tradeIds.length })
    state.flight.batches.delete(batchName(news))
    state.flight.vanished.push(news)
    return
  }
  if (batch === undefined) return
  batch.txHash = news.txHash
  switch (news.type) {
    case 'mined':
      batch.mined = true
      noteBlock(state, batch, news.verdicts)
      break
    case 'replaced':
      batch.mined = false
      submitted(state, batch)
      break
    case 'finished':
      batch.ended = true
      finish(state, batch, news, context)
      break
  }
}

/** Handles trades that came into a block: others may wait for them, and their permits need not be sent again. */
function noteBlock(
  state: SettlementState,
  { tradeIds }: Batch,
  verdicts: readonly TradeVerdict[],
): void {
  const verdictOf = new Map(verdicts.map((verdict) => [verdict.tradeKey, verdict]))
  for (const tradeId of tradeIds) {
    const pending = state.trades.get(tradeId)
    if (pending === undefined || pending.stage === 'ended') continue
    const verdict = verdictOf.get(pending.trade.tradeKey)
    const isSettled = verdict?.settled === true
    if (verdict?.settled === false && isByFault(verdict)) pending.refusal = verdict
    if (isSettled) noteMined(state, pending.trade)
    if (isSettled && pending.trade.buy.permit !== undefined)
      rememberPermit(state, pending.trade.buy.orderHash)
    state.older.decided.set(tradeId, isSettled ? 'mined' : 'failed')
  }
}

function finish(
  state: SettlementState,
  batch: Batch,
  news: Extract<SettlementNews, { type: 'finished' }>,
  context: SettlementContext,
): void {
  const { outcome, verdicts, gasUsed, txHash } = news
  const settled = verdicts.filter((verdict) => verdict.settled).length
  const rejected = verdicts.length - settled
  context.emit({ type: 'BatchEnded', outcome, settled, rejected, gasUsed })
  const own = batch.tradeIds.filter(
    (tradeId) => state.trades.get(tradeId)?.stage === 'sent' && !isUnderWay(state, tradeId),
  )
  const gasEach = Math.ceil(gasUsed / batch.tradeIds.length)
  const verdictOf = new Map(verdicts.map((verdict) => [verdict.tradeKey, verdict]))
  for (const tradeId of own) {
    const pending = state.trades.get(tradeId)
    if (pending?.isConfirmed !== true) continue
    const verdict = verdictOf.get(pending.trade.tradeKey)
    // A block that has gone confirmed it before a kill, and this one has not.
    const isSettled = verdict?.settled === true || verdict?.reason === 'AlreadySettled'
    if (!isSettled) takeBack(state, tradeId, txHash)
  }
  if (outcome !== 'succeeded') {
    const rest = failRefused(state, own, context)
    const revert = { name: '', words: 'the transaction reverted', gasEach }
    if (outcome === 'reverted') isolate(state, rest, revert, context)
    else for (const tradeId of rest) requeue(state, tradeId, 0)
    return
  }
  for (const tradeId of batch.tradeIds) {
    const pending = state.trades.get(tradeId)
    if (pending === undefined) continue
    const verdict = verdictOf.get(pending.trade.tradeKey)
    if (verdict?.settled !== true && isUnderWay(state, tradeId)) continue
    if (verdict?.settled === false) pending.wastedGas += gasEach
    decide(state, pending, { verdict, txHash }, context)
  }
  for (const [tradeKey, tradeId] of batch.unwanted) {
    if (verdictOf.get(tradeKey)?.settled === true) contradict(tradeId, context)
  }
}

/** Fails trades that a block had refused before a reorg removed it; returns the others. */
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

function decide(
  state: SettlementState,
  pending: PendingSettlement,
  { verdict, txHash }: { readonly verdict: TradeVerdict | undefined; readonly txHash: string },
  context: SettlementContext,
): void {
  const { tradeId, marketId, buy } = pending.trade
  if (verdict?.settled === true) {
    if (buy.permit !== undefined) rememberPermit(state, buy.orderHash)
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
      // Which transaction did it is found out before it is sent again.
      requeue(state, tradeId, 0)
      break
    case 'MarketUnknown':
      missMarket(state, marketId, context.nowMs)
      wait(state, pending, context)
      break
    case OUT_OF_TIME:
      end(state, tradeId, { status: 'failed', reason: verdict.reason, txHash }, context)
      break
    default:
      if (verdict.fault === 'none') setBack(state, pending, verdict.reason, context)
      else end(state, tradeId, { ...verdict, status: 'failed', txHash }, context)
  }
}

function rememberPermit(state: SettlementState, orderHash: OrderHash): void {
  if (state.flight.usedPermits.size >= SETTLEMENT_PERMITS_MAX) state.flight.usedPermits.clear()
  state.flight.usedPermits.add(orderHash)
}

/** Closes the journal's rows of batches whose trades are all reported. */
export function acknowledge(state: SettlementState, context: SettlementContext): void {
  for (const [name, batch] of state.flight.batches) {
    if (!batch.ended || batch.acknowledging) continue
    if (batch.tradeIds.some((tradeId) => isUntold(state.trades.get(tradeId)))) continue
    if (context.nowMs < (state.steps.pauses.get('acknowledge')?.untilMs ?? 0)) return
    batch.acknowledging = true
    context.pipe(
      state.ports.lane.acknowledge(batch),
      () => ({ type: 'Acknowledged', message: { batch: name } }),
      failure('acknowledge', { batch: name }),
    )
  }
}
