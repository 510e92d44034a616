/**
 * The settlement actor of one chain. It reads pending trades from the database, sends them in batches,
 * follows the transactions, and reports each change of a trade to its market, which logs the change. The
 * database has all trades and the journal of transactions, so the actor may be killed at any instant.
 *
 * The stages of a trade (`STEPS` in `state.ts` has every step):
 *
 *     read → queued → submitting → sent → ended → reported → dropped
 *               ↑         │          │
 *               └─────────┴──────────┘  the market is not on chain, the batch would revert, the transaction was lost
 *
 * Worked example. Three trades wait. Transaction 7 contains all three, and each is reported as `submitted`.
 * The receipt shows that two settled, and that the contract rejected the third because its buyer has no
 * funds. After the confirmations, two are reported as `confirmed`, and one as `failed` with fault `buyer`.
 * When the markets have acknowledged all three reports, row 7 of the journal is closed.
 */

import type { TradeId } from '#domain/ids.ts'
import { SETTLEMENT_HELD_MAX } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import type { Behaviour } from '#runtime/actor.ts'
import { failBarred } from './barred.ts'
import { acknowledge, applyUpdate, resumeBatch, startBatch } from './batches.ts'
import type { OpenSettlement } from './chain/settlement-lane.ts'
import { drop, expireEnded, isVerifying, trustOnlyNew, verifyWithMarket } from './history.ts'
import { watchLag } from './lag.ts'
import { applyNote, saveNotes } from './notes.ts'
import { resumeWaiting } from './older-trades.ts'
import { enqueue, requeue, sendNext, track } from './queue.ts'
import { readVanished, settleVanished } from './reorgs.ts'
import { applyAnswer, end, isTransient, revertConfirmed, sendReports } from './reports.ts'
import {
  applyRefusals,
  awaitMarket,
  failOverdue,
  isolateFailing,
  isolateReverting,
  noteMissingMarket,
  retryMissingMarkets,
} from './retries.ts'
import { watchStall } from './stall.ts'
import type {
  SettlementContext,
  SettlementEvent,
  SettlementProtocol,
  SettlementState,
} from './state.ts'
import { done, failure, pause, tryBegin } from './steps.ts'
import { takersAtQuota } from './turns.ts'

/** Maximum number of new trades per read. */
const READ_TRADES = 500
/** Minimum time between two reads of the database, however fast new trades arrive. */
const READ_GAP_MS = 50
/**
 * Maximum number of ended trades that a read excludes. Only the newest ended trades are excluded, because the database
 * has usually recorded already that the older ones have ended.
 */
const ENDED_READ_MAX = 2_000
const REPORT_AGAIN_MS = 200
const UNCONFIRMED_AGAIN_MS = 2_000
/** If two successful polls are at least this far apart, the chain counts as unreachable for the time between them. */
const OUTAGE_MS = 30_000
/** Number of failed submissions in a row, while polls succeed, after which a batch is halved. */
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
      retryMissingMarkets(state, context.nowMs)
      failOverdue(state, context)
      readPending(state, context)
      poll(state, context)
      advance(state, context)
      saveNotes(state, context)
    }
    watchLag(state, context)
    watchStall(state, context)
    return undefined
  },

  Recovered(state, { open }, context) {
    done(state, 'recover')
    state.reads.recovered = true
    for (const batch of open) resumeBatch(state, batch, context)
    // Read at once: before the first read, the age of the oldest pending trade is unknown, and so is the lag.
    readPending(state, context)
    poll(state, context)
    return undefined
  },

  TradesWritten(state, _message, context) {
    state.reads.notified++
    if (state.reads.recovered) readPending(state, context)
    return undefined
  },

  PendingRead(state, { trades, notes, full, upTo }, context) {
    done(state, 'read')
    state.reads.isFull = full
    state.reads.notifiedBefore = upTo
    state.reads.lastMs = context.nowMs
    const noteOf = new Map(notes.map((note) => [note.tradeId, note]))
    for (const trade of trades) {
      if (state.trades.has(trade.tradeId) || state.history.ended.has(trade.tradeId)) continue
      if (state.markets.missing.has(trade.marketId)) continue
      if (state.trades.size >= SETTLEMENT_HELD_MAX) break
      const pending = track(state, trade, 'queued', context.nowMs)
      applyNote(pending, noteOf.get(trade.tradeId), state)
      // If the trade has attempts, it was sent before a restart and is in no open transaction now. It may have been
      // waiting for a retry, so its lag counts from now.
      if (trade.attempts > 0) pending.settleableSinceMs = context.nowMs
      enqueue(state, pending)
      if (trade.matchedAtMs < state.history.trustedFromMs)
        verifyWithMarket(state, pending, context.nowMs)
    }
    expireEnded(state, context.nowMs)
    advance(state, context)
    return undefined
  },

  Submitted(state, { tradeIds, submission }, context) {
    done(state, 'submit')
    const { settled, unconfirmed, unknownMarkets, refused, sent, revert } = submission
    for (const tradeId of tradeIds) {
      const pending = state.trades.get(tradeId)
      if (pending !== undefined) pending.lagFromMs = 0
    }
    for (const { tradeId, txHash } of settled)
      end(state, tradeId, { status: 'confirmed', txHash }, context)
    for (const tradeId of unconfirmed) requeue(state, tradeId, context.nowMs + UNCONFIRMED_AGAIN_MS)
    for (const marketId of unknownMarkets) noteMissingMarket(state, marketId, context.nowMs)
    applyRefusals(state, refused, context)
    const rest: TradeId[] = []
    for (const tradeId of tradeIds) {
      const pending = state.trades.get(tradeId)
      if (pending?.stage !== 'submitting') continue
      if (state.markets.missing.has(pending.trade.marketId)) awaitMarket(state, pending, context)
      else rest.push(tradeId)
    }
    if (sent !== undefined) {
      state.chain.stopped = ''
      state.flight.lastSentMs = context.nowMs
      for (const tradeId of rest) {
        const pending = state.trades.get(tradeId)
        // Queue the trades of the batch that are not in the sent transaction.
        if (pending !== undefined && !sent.tradeIds.includes(tradeId)) requeue(state, tradeId, 0)
      }
      startBatch(state, sent, context)
      context.emit({ type: 'BatchSent', trades: sent.tradeIds.length })
    } else if (revert !== undefined) {
      isolateReverting(state, rest, revert, context)
    } else {
      for (const tradeId of rest) requeue(state, tradeId, 0)
    }
    advance(state, context)
    return undefined
  },

  Polled(state, { updates, trouble, graceSec }, context) {
    done(state, 'poll')
    state.chain.trouble = trouble
    state.chain.graceSec = graceSec
    if (state.rules.maxLagMs >= graceSec * 1_000) {
      state.chain.misfit = `the grace period of the settlement contract is ${graceSec} s, but it must be above SIBYL_SETTLEMENT_MAX_LAG_SECONDS`
    }
    const sinceMs = context.nowMs - state.chain.lastPollMs
    if (sinceMs < OUTAGE_MS) state.chain.reachableMs += sinceMs
    state.chain.lastPollMs = context.nowMs
    for (const each of updates) applyUpdate(state, each, context)
    advance(state, context)
    return undefined
  },

  VanishedRead(state, { batch }, context) {
    done(state, 'vanished')
    state.flight.vanished.shift()
    const again = resumeBatch(state, batch, context)
    again.vanished = true
    for (const { tradeId } of batch.trades) revertConfirmed(state, tradeId, batch.txHash)
    settleVanished(state, again, context)
    advance(state, context)
    return undefined
  },

  Reported(state, { tradeId, report, answer }, context) {
    state.reports.inFlight--
    const pending = state.trades.get(tradeId)
    if (pending === undefined) return undefined
    pending.isReporting = false
    if ('unanswered' in answer || (isRejection(answer) && isTransient(answer))) {
      pending.reportAgainMs = context.nowMs + REPORT_AGAIN_MS
      state.reports.unanswered = 'unanswered' in answer ? answer.unanswered : answer.rejected
      return undefined
    }
    state.reports.unanswered = ''
    pending.reports.shift()
    if (report.status === 'matched') state.history.unverified.delete(tradeId)
    if (isRejection(answer)) {
      // The market does not exist or rejects the report permanently: a retry cannot help.
      const what = `the market rejects the report that the trade is ${report.status}: ${answer.rejected}`
      context.emit({ type: 'Contradiction', tradeId, what })
    } else {
      applyAnswer(state, pending, { report, status: answer.status }, context)
    }
    if (pending.reports.length === 0 && pending.stage === 'ended') drop(state, pending, context)
    for (const batch of state.flight.batches.values()) {
      if (batch.vanished) settleVanished(state, batch, context)
    }
    advance(state, context)
    return undefined
  },

  Noted(state, { notes, ended }) {
    done(state, 'note')
    for (const note of notes) {
      const pending = state.trades.get(note.tradeId)
      // If the trade is no longer pending, it ended while its note was being saved. So the note must be deleted.
      if (pending === undefined) state.notes.ended.add(note.tradeId)
      else pending.noted = note
    }
    for (const tradeId of ended) state.notes.ended.delete(tradeId)
    return undefined
  },

  Acknowledged(state, { batch }) {
    // The journal has closed the transaction. Stop following the batch, unless a reorg has reopened it in the meantime.
    // A reopened batch is followed until it ends again.
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
 * Returns whether a submission failed because of its trades. This is so if its fault is not retryable. It is also so if
 * `SUBMIT_FAILURES_MAX` submissions in a row have failed while polls succeeded.
 */
function isAboutTrades(
  { steps: { pauses } }: SettlementState,
  { retry }: SettlementProtocol['Failed']['takes'],
): boolean {
  if (!retry) return true
  return !pauses.has('poll') && (pauses.get('submit')?.failures ?? 0) >= SUBMIT_FAILURES_MAX
}

function recover(state: SettlementState, context: SettlementContext): void {
  if (!tryBegin(state, 'recover', context.nowMs)) return
  const { lane, readTrades, readNotes } = state.ports
  const withTrades = (open: OpenSettlement) =>
    Promise.all([readTrades(open.tradeIds), readNotes(open.tradeIds)]).then(([trades, notes]) => ({
      ...open,
      trades,
      notes,
    }))
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
  // The more trades a read excludes, the longer the pause between two reads, because each excluded trade makes a read
  // more expensive.
  const noticeMs = Math.min(readEveryMs, READ_GAP_MS + state.trades.size)
  // If more trades may remain in the database, the read is normally repeated at once. If trades for two batches are
  // queued already, the next read can wait.
  const isEnough = state.queue.tradeIds.length >= 2 * batchMax
  const pauseMs = state.reads.isFull && !isEnough ? 0 : isNew ? noticeMs : readEveryMs
  if (nowMs - state.reads.lastMs < pauseMs) return
  if (state.trades.size >= SETTLEMENT_HELD_MAX) return
  if (!tryBegin(state, 'read', nowMs)) return
  const ended = [...state.history.ended.keys()].slice(-ENDED_READ_MAX)
  const upTo = state.reads.notified
  const filter = {
    limit: READ_TRADES,
    exceptMarkets: [...state.markets.missing.keys()],
    exceptTakers: takersAtQuota(state),
    exceptTrades: [...state.trades.keys(), ...ended],
  }
  context.pipe(
    readWithNotes(state, filter),
    (read) => ({ type: 'PendingRead', message: { ...read, upTo } }),
    failure('read'),
  )
}

/**
 * Reads pending trades, and the notes about trades matched before `trustedFromMs`: an earlier process may
 * have saved notes about them.
 */
function readWithNotes(
  { ports, history }: SettlementState,
  filter: Parameters<SettlementState['ports']['readPending']>[0],
) {
  return ports.readPending(filter).then((read) => {
    const older = read.trades.filter(({ matchedAtMs }) => matchedAtMs < history.trustedFromMs)
    const ids = older.map(({ tradeId }) => tradeId)
    return ports.readNotes(ids).then((notes) => ({ ...read, notes }))
  })
}

function poll(state: SettlementState, context: SettlementContext): void {
  const { nowMs } = context
  if (nowMs - state.chain.lastPollMs < state.rules.pollEveryMs) return
  // Do not poll while a batch is vanished (removed by a reorg): a poll would send the batch again before its markets
  // have acknowledged the reorg.
  for (const { vanished } of state.flight.batches.values()) if (vanished) return
  if (state.flight.vanished.length > 0 || !tryBegin(state, 'poll', nowMs)) return
  context.pipe(
    state.ports.lane.poll(),
    ({ updates, trouble, graceSec }) => ({
      type: 'Polled',
      message: { updates, trouble, graceSec },
    }),
    failure('poll'),
  )
}

/** Starts every step that can start now, without waiting for the next `Tick`. */
function advance(state: SettlementState, context: SettlementContext): void {
  resumeWaiting(state, context)
  readVanished(state, context)
  sendReports(state, context)
  acknowledge(state, context)
  if (isVerifying(state, context.nowMs)) return
  failBarred(state, context)
  sendNext(state, context)
}
