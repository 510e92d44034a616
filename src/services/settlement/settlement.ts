/**
 * Settlement brings every matched trade of one chain on chain, once. It reads pending trades from
 * the database, sends them in batches, follows the transactions, and reports each change of a trade
 * to its market, which logs it. What it is doing is in the database (the trades and the journal of
 * transactions), so it may be killed at any instant.
 *
 * The way of a trade:
 *
 *     read → queued → sending → sent → confirmed | failed → reported → forgotten
 *                ↑        │        │
 *                └────────┴────────┘  the market is not mined yet, the batch as a whole would
 *                                     revert, its transaction was lost: back, and asked about first
 *
 * Exactly once rests on three legs. The contract settles a trade id once, however often
 * it is sent. A transaction is in the journal before it leaves, with the trades in it, so nothing that may
 * be under way is ever forgotten; and a trade that was sent before is asked about before it is sent
 * again. Nothing is dropped before its market has answered: the journal's row of a batch is closed
 * last, and until then a restart tells its end again.
 *
 * A batch is simulated first. A trade that would be refused is not sent: with the contract's reason and
 * the side at fault it fails alone, as does one that the chain refuses after all. A batch that reverts as a whole is halved until the trade that does it is alone. A trade that is refused
 * without a side at fault is tried again, so many times and for so much gas, and then fails too
 * (`setbacks.ts`).
 *
 * When a reorg removes a batch, its confirmed trades are `reverted`, and the same transaction is sent
 * again. If one of its trades had failed, its quantity is back in the book and it must not settle
 * after all: then the transaction is replaced by one that does nothing, and the others go into a new
 * batch.
 *
 * Worked example. Three trades wait; the batch goes out as transaction 7 and each is reported
 * `submitted`. The receipt settles two and rejects the third (the buyer has no funds): after the
 * confirmations two are reported `confirmed`, one `failed` with fault `buyer`. When the markets have
 * answered all three, row 7 is closed.
 */

import type { TradeId } from '#domain/ids.ts'
import { SETTLEMENT_HELD_MAX } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import type { Behaviour } from '#runtime/actor.ts'
import { failBarred } from './barred.ts'
import { acknowledge, begin, follow, hearNews } from './batches.ts'
import type { OpenSettlement } from './chain/settlement-lane.ts'
import { doubt, forget, forgetEnded, isAsking, trustOnlyNew } from './ended.ts'
import { statusOf, watchLag } from './lag.ts'
import { settleOwed } from './owed.ts'
import { enqueue, hold, requeue, sendNext } from './queue.ts'
import { readVanished, settleVanished } from './reorgs.ts'
import { deliver, end, heard, isPassing, takeBack } from './reports.ts'
import {
  failOverdue,
  isolate,
  isolateFailing,
  missMarket,
  refuse,
  wait,
  wakeMarkets,
} from './setbacks.ts'
import type {
  SettlementContext,
  SettlementEvent,
  SettlementProtocol,
  SettlementState,
} from './state.ts'
import { begun, done, failure, pause } from './steps.ts'
import { satedTakers } from './turns.ts'

/** Trades that one read brings beyond those that are pending. */
const READ_TRADES = 500
/** Between two reads while new trades keep coming. */
const READ_GAP_MS = 50
/** Ended trades that a read allows for: the database hears of most within a moment. */
const ENDED_READ_MAX = 2_000
const ASK_AGAIN_MS = 200
const UNRIPE_AGAIN_MS = 2_000
/** Longest time between two answers of the chain during which it counts as reachable. */
const OUTAGE_MS = 30_000
/** After this many failed submissions in a row while the poll succeeds, a batch is halved. */
const SUBMIT_FAILURES_MAX = 4

export const settlement: Behaviour<SettlementState, SettlementProtocol, SettlementEvent> = {
  Tick(state, _message, context) {
    if (state.reads.lastMs === 0) {
      state.reads.lastMs = context.nowMs
      trustOnlyNew(state, context.nowMs)
    }
    if (!state.reads.recovered) {
      recover(state, context)
    } else {
      wakeMarkets(state, context.nowMs)
      failOverdue(state, context)
      readPending(state, context)
      poll(state, context)
      advance(state, context)
    }
    watchLag(state, context)
    return undefined
  },

  Status(state) {
    return statusOf(state)
  },

  Recovered(state, { open }, context) {
    done(state, 'recover')
    state.reads.recovered = true
    for (const batch of open) follow(state, batch, context)
    // What has waited longest is known only once the database was read.
    readPending(state, context)
    poll(state, context)
    return undefined
  },

  TradesWritten(state, _message, context) {
    state.reads.notified++
    if (state.reads.recovered) readPending(state, context)
    return undefined
  },

  PendingRead(state, { trades, full, upTo }, context) {
    done(state, 'read')
    state.reads.isFull = full
    state.reads.notifiedBefore = upTo
    state.reads.lastMs = context.nowMs
    for (const trade of trades) {
      if (state.trades.has(trade.tradeId) || state.history.ended.has(trade.tradeId)) continue
      if (state.markets.missing.has(trade.marketId)) continue
      if (state.trades.size >= SETTLEMENT_HELD_MAX) break
      const pending = hold(state, trade, 'queued', context.nowMs)
      // Sent before a restart, and not under way any more: it may have been set back then.
      if (trade.attempts > 0) pending.settleableSinceMs = context.nowMs
      enqueue(state, pending)
      if (trade.matchedAtMs < state.history.trustedFromMs) doubt(state, pending, context.nowMs)
    }
    forgetEnded(state, context.nowMs)
    advance(state, context)
    return undefined
  },

  Submitted(state, { tradeIds, submission }, context) {
    done(state, 'submit')
    const { settled, unripe, unknownMarkets, refused, sent, revert } = submission
    for (const tradeId of tradeIds) {
      const pending = state.trades.get(tradeId)
      if (pending !== undefined) pending.lagFromMs = 0
    }
    for (const { tradeId, txHash } of settled)
      end(state, tradeId, { status: 'confirmed', txHash }, context)
    for (const tradeId of unripe) requeue(state, tradeId, context.nowMs + UNRIPE_AGAIN_MS)
    for (const marketId of unknownMarkets) missMarket(state, marketId, context.nowMs)
    refuse(state, refused, context)
    const rest: TradeId[] = []
    for (const tradeId of tradeIds) {
      const pending = state.trades.get(tradeId)
      if (pending?.stage !== 'submitting') continue
      if (state.markets.missing.has(pending.trade.marketId)) wait(state, pending, context)
      else rest.push(tradeId)
    }
    if (sent !== undefined) {
      state.chain.stopped = ''
      state.flight.lastSentMs = context.nowMs
      for (const tradeId of rest) {
        const pending = state.trades.get(tradeId)
        // Those that are not in the transaction were dealt with above, or are asked about again.
        if (pending !== undefined && !sent.tradeIds.includes(tradeId)) requeue(state, tradeId, 0)
      }
      begin(state, sent, context)
      context.emit({ type: 'BatchSent', trades: sent.tradeIds.length })
    } else if (revert !== undefined) {
      isolate(state, rest, revert, context)
    } else {
      for (const tradeId of rest) requeue(state, tradeId, 0)
    }
    advance(state, context)
    return undefined
  },

  Polled(state, { news, trouble, graceSec }, context) {
    done(state, 'poll')
    state.chain.trouble = trouble
    state.chain.graceSec = graceSec
    if (state.rules.maxLagMs >= graceSec * 1_000) {
      state.chain.misfit = `the settlement contract's grace of ${graceSec} s is not above the highest lag`
    }
    const sinceMs = context.nowMs - state.chain.lastPollMs
    if (sinceMs < OUTAGE_MS) state.chain.reachableMs += sinceMs
    state.chain.lastPollMs = context.nowMs
    for (const each of news) hearNews(state, each, context)
    advance(state, context)
    return undefined
  },

  VanishedRead(state, { batch }, context) {
    done(state, 'vanished')
    state.flight.vanished.shift()
    const again = follow(state, batch, context)
    again.vanished = true
    for (const { tradeId } of batch.trades) takeBack(state, tradeId, batch.txHash)
    settleVanished(state, again, context)
    advance(state, context)
    return undefined
  },

  Reported(state, { tradeId, report, answer }, context) {
    state.reports.inFlight--
    const pending = state.trades.get(tradeId)
    if (pending === undefined) return undefined
    pending.isReporting = false
    if ('unanswered' in answer || (isRejection(answer) && isPassing(answer))) {
      pending.reportAgainMs = context.nowMs + ASK_AGAIN_MS
      return undefined
    }
    pending.reports.shift()
    if (report.status === 'matched') state.history.unverified.delete(tradeId)
    if (isRejection(answer)) {
      // No market to be told, or a report that its market does not understand: both only end here.
      const what = `${report.status} is not heard: ${answer.rejected}`
      context.emit({ type: 'Contradiction', tradeId, what })
    } else {
      heard(state, pending, { report, status: answer.status }, context)
    }
    if (pending.reports.length === 0 && pending.stage === 'ended') forget(state, pending, context)
    for (const batch of state.flight.batches.values()) {
      if (batch.vanished) settleVanished(state, batch, context)
    }
    advance(state, context)
    return undefined
  },

  Acknowledged(state, { batch }) {
    // A reorg may have brought it back meanwhile; then it is to be followed to its next end.
    if (state.flight.batches.get(batch)?.acknowledging === true) state.flight.batches.delete(batch)
    return undefined
  },

  Failed(state, message, context) {
    const { step, why, tradeIds = [], batch } = message
    pause(state, message, context.nowMs)
    if (step === 'submit' && isAboutTrades(state, message)) {
      const sending = tradeIds.filter(
        (tradeId) => state.trades.get(tradeId)?.stage === 'submitting',
      )
      isolateFailing(state, sending, message, context)
    }
    for (const tradeId of tradeIds) requeue(state, tradeId, 0)
    const known = batch === undefined ? undefined : state.flight.batches.get(batch)
    if (known !== undefined) known.acknowledging = false
    context.emit({ type: 'StepFailed', step, why })
    return undefined
  },
}

/**
 * True if a submission failed because of its content: retrying it unchanged cannot succeed, or it has failed several
 * times while the chain answered other requests.
 */
function isAboutTrades(
  { steps: { pauses } }: SettlementState,
  { retry }: SettlementProtocol['Failed']['takes'],
): boolean {
  if (!retry) return true
  return !pauses.has('poll') && (pauses.get('submit')?.failures ?? 0) >= SUBMIT_FAILURES_MAX
}

function recover(state: SettlementState, context: SettlementContext): void {
  if (!begun(state, 'recover', context.nowMs)) return
  const { lane, readTrades } = state.ports
  const withTrades = (open: OpenSettlement) =>
    readTrades(open.tradeIds).then((trades) => ({ ...open, trades }))
  context.pipe(
    lane.recover().then((open) => Promise.all(open.map(withTrades))),
    (open) => ({ type: 'Recovered', message: { open } }),
    failure('recover'),
  )
}

function readPending(state: SettlementState, context: SettlementContext): void {
  const { nowMs } = context
  const { readEveryMs, batchMax } = state.rules
  const isNew = state.reads.notified > state.reads.notifiedBefore
  // A read passes over all that is pending, so with much in hand news is gathered for longer.
  const newsMs = Math.min(readEveryMs, READ_GAP_MS + state.trades.size)
  // With enough to send, it is read on only so that traders who have nothing in hand get their turn.
  const isEnough = state.queue.tradeIds.length >= 2 * batchMax
  const pauseMs = state.reads.isFull && !isEnough ? 0 : isNew ? newsMs : readEveryMs
  if (nowMs - state.reads.lastMs < pauseMs) return
  if (state.trades.size >= SETTLEMENT_HELD_MAX) return
  if (!begun(state, 'read', nowMs)) return
  const ended = [...state.history.ended.keys()].slice(-ENDED_READ_MAX)
  const upTo = state.reads.notified
  context.pipe(
    state.ports.readPending({
      limit: READ_TRADES,
      exceptMarkets: [...state.markets.missing.keys()],
      exceptTakers: satedTakers(state),
      exceptTrades: [...state.trades.keys(), ...ended],
    }),
    (read) => ({ type: 'PendingRead', message: { ...read, upTo } }),
    failure('read'),
  )
}

function poll(state: SettlementState, context: SettlementContext): void {
  const { nowMs } = context
  if (nowMs - state.chain.lastPollMs < state.rules.pollEveryMs) return
  // What a poll would send again is first to be asked about.
  for (const { vanished } of state.flight.batches.values()) if (vanished) return
  if (state.flight.vanished.length > 0 || !begun(state, 'poll', nowMs)) return
  context.pipe(
    state.ports.lane.poll(),
    ({ news, trouble, graceSec }) => ({
      type: 'Polled',
      message: { news, trouble, graceSec },
    }),
    failure('poll'),
  )
}

/** Everything that may go on without waiting for the timer. */
function advance(state: SettlementState, context: SettlementContext): void {
  settleOwed(state, context)
  readVanished(state, context)
  deliver(state, context)
  acknowledge(state, context)
  if (isAsking(state, context.nowMs)) return
  failBarred(state, context)
  sendNext(state, context)
}
