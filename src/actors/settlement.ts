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
 * Exactly once rests on three legs. The contract settles a trade id once, whoever sends it how
 * often. A transaction is in the journal before it leaves, with the trades in it, so nothing that may
 * be under way is ever forgotten; and a trade that was sent before is asked about before it is sent
 * again. Nothing is dropped before its market has answered: the journal's row of a batch is closed
 * last, and until then a restart tells its end again.
 *
 * A trade that the chain rejects fails alone, with the contract's reason and the side at fault. A
 * batch that reverts as a whole is halved until the trade that does it is alone.
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

import assert from 'node:assert/strict'
import type {
  OpenSettlement,
  SettlementDesk,
  SettlementNews,
  Submission,
  TradeVerdict,
} from '#chain/settlement-desk.ts'
import { backoff } from '#domain/backoff.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import {
  SETTLEMENT_ENDED_MAX,
  SETTLEMENT_HELD_MAX,
  SETTLEMENT_PERMITS_MAX,
  SETTLEMENT_REPORTS_MAX,
} from '#domain/limits.ts'
import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { StoredTrade, TradeStatus, TradeToSettle } from '#domain/trade.ts'
import type { Behaviour, Context } from '#runtime/actor.ts'
import type { TradeReport } from './market.ts'

export type SettlementProtocol = {
  /** The thread's timer: looks whether anything is due. */
  Tick: { takes: object; answers: undefined }
  Status: { takes: object; answers: SettlementStatus }
  Recovered: {
    takes: { open: readonly RecoveredBatch[] }
    answers: undefined
  }
  PendingRead: { takes: { tradeIds: readonly TradeId[]; full: boolean }; answers: undefined }
  TradesRead: { takes: { trades: readonly StoredTrade[] }; answers: undefined }
  Submitted: { takes: { tradeIds: readonly TradeId[]; submission: Submission }; answers: undefined }
  Polled: {
    takes: {
      news: readonly SettlementNews[]
      headNumber: number
      trouble: string
      graceSec: number
    }
    answers: undefined
  }
  /** The trades of a batch that a reorg removed. */
  VanishedRead: { takes: { batch: RecoveredBatch }; answers: undefined }
  Reported: {
    takes: { tradeId: TradeId; report: TradeReport; answer: ReportAnswer }
    answers: undefined
  }
  Acknowledged: { takes: { batch: string }; answers: undefined }
  /** Outside work failed; `step` is which. */
  Failed: {
    takes: {
      step: Step
      why: string
      retry: boolean
      tradeIds?: readonly TradeId[]
      batch?: string
    }
    answers: undefined
  }
}

export type Step = 'recover' | 'read' | 'submit' | 'poll' | 'vanished' | 'acknowledge'

export type RecoveredBatch = OpenSettlement & { readonly trades: readonly StoredTrade[] }

/** What the market said, or `unanswered` when nobody did. */
export type ReportAnswer = { readonly status: TradeStatus } | Rejection | { unanswered: string }

export type SettlementStatus = {
  readonly chainId: number
  readonly queued: number
  readonly inFlight: number
  readonly waiting: number
  readonly unreported: number
  readonly oldestMs: number
  readonly behind: boolean
  readonly why: string
}

/** What the thread makes metrics and log lines of, and tells the market threads. */
export type SettlementSaid =
  | { readonly type: 'BatchSent'; readonly trades: number }
  | {
      readonly type: 'BatchEnded'
      readonly outcome: string
      readonly settled: number
      readonly rejected: number
      readonly gasUsed: number
    }
  | {
      readonly type: 'TradeEnded'
      readonly status: 'confirmed' | 'failed'
      readonly reason: string
      readonly waitedMs: number
    }
  | { readonly type: 'BatchVanished'; readonly trades: number }
  | { readonly type: 'BatchReverts'; readonly trades: number; readonly why: string }
  /** The chain and a market disagree about a trade, and both have the last word. */
  | { readonly type: 'Contradiction'; readonly tradeId: TradeId; readonly what: string }
  | { readonly type: 'StepFailed'; readonly step: Step; readonly why: string }
  | { readonly type: 'LagChanged'; readonly behind: boolean; readonly lagMs: number }

export type SettlementRules = {
  readonly chainId: number
  /** Trades of one transaction. */
  readonly batchMax: number
  /** How long a trade waits for others to share its transaction. */
  readonly batchWaitMs: number
  /** Transactions that are sent and in no block yet. */
  readonly inFlightMax: number
  readonly readEveryMs: number
  readonly pollEveryMs: number
  /** 0 for never. */
  readonly maxLagMs: number
}

/** What settlement needs of the outside. */
export type SettlementOutside = {
  readonly desk: SettlementDesk
  /** Pending trades, the oldest first. */
  readonly readPending: (filter: {
    readonly limit: number
    readonly exceptMarkets: readonly MarketId[]
  }) => Promise<readonly TradeId[]>
  /** Those of them that are known, in the order in which they were asked for. */
  readonly readTrades: (tradeIds: readonly TradeId[]) => Promise<readonly StoredTrade[]>
  /** A trade's id on chain; computed, once per trade. */
  readonly keyOf: (trade: StoredTrade) => string
  /** Tells the market; resolves always. */
  readonly report: (marketId: MarketId, report: TradeReport) => Promise<ReportAnswer>
}

type Place = 'queued' | 'sending' | 'sent' | 'waiting' | 'ended'

type Held = {
  trade: TradeToSettle
  place: Place
  /** Since when it could have been sent. */
  readySinceMs: number
  notBeforeMs: number
  /** How often it could not settle for a reason that is nobody's fault. */
  setbacks: number
  /** What its market is to hear, one after the other. */
  readonly reports: TradeReport[]
  /** Whether its market takes it for confirmed; then it must hear so if it is not after all. */
  confirmed: boolean
  asking: boolean
  askAgainMs: number
}

type Batch = {
  readonly sender: OpenSettlement['sender']
  readonly nonce: number
  txHash: string
  tradeIds: readonly TradeId[]
  mined: boolean
  /** Whether the chain has decided; then it is acknowledged once its trades are reported. */
  ended: boolean
  acknowledging: boolean
  /** A reorg removed it; nothing is sent again until the markets have said what they think of it. */
  vanished: boolean
  /** Those of its trades that have failed here and must not settle any more, by their id on chain. */
  readonly unwanted: Map<string, TradeId>
}

export type SettlementState = {
  readonly rules: SettlementRules
  readonly outside: SettlementOutside
  readonly held: Map<TradeId, Held>
  readonly queue: TradeId[]
  /** Batches to be sent by themselves, before the queue: the halves of one that reverts. */
  readonly groups: TradeId[][]
  readonly batches: Map<string, Batch>
  /** Trades that have ended lately: the database may not have heard yet. */
  readonly ended: Map<TradeId, number>
  /** Markets that the chain does not know yet, and when to look again. */
  readonly unknownMarkets: Map<MarketId, number>
  /** Until when they were known to be missing: until then their trades could not have settled. */
  readonly missingUntilMs: Map<MarketId, number>
  readonly usedPermits: Set<OrderHash>
  readonly busy: Set<Step>
  /** By step: not before this time, after a failure. */
  readonly pauses: Map<Step, { untilMs: number; failures: number; why: string }>
  recovered: boolean
  /** How long after its expiration an order can settle; unknown, and so endless, at first. */
  graceSec: number
  lastReadMs: number
  readFull: boolean
  lastPollMs: number
  headNumber: number
  reporting: number
  behind: boolean
  lagMs: number
  /** Batches that a reorg removed, and whose trades are still to be told so. */
  readonly vanishing: OpenSettlement[]
  /** What the sender complains of; empty when it does not. */
  trouble: string
  /** What is wrong with the settings; empty when nothing is. */
  misfit: string
  /** Why batches do not go out although the chain answers; empty when they do. */
  stopped: string
}

type SettlementContext = Context<SettlementProtocol, SettlementSaid>

/** Trades that one read brings beyond those that are held. */
const READ_TRADES = 500
/** Ended trades that a read allows for: the database hears of most within a moment. */
const ENDED_READ_MAX = 2_000
/** How long an ended trade is not taken up again, whatever the database still says. */
const ENDED_KEPT_MS = 60_000
const PAUSE_MS = 250
const PAUSE_MS_MAX = 15_000
const ASK_AGAIN_MS = 200
const MARKET_AGAIN_MS = 2_000
const MISSING_KEPT_MS = 10 * MARKET_AGAIN_MS
const UNRIPE_AGAIN_MS = 2_000
const SYSTEMIC_AGAIN_MS = 2_000
/** How long a trade waits after its first setback; it doubles with each. */
const SETBACK_MS = 2_000
const SETBACK_MS_MAX = 600_000

const REORGANISED = 'a reorganisation of the chain removed its transaction'

/** Reverts that are not about any trade: the batch waits for somebody to mend the cause. */
const SYSTEMIC: ReadonlySet<string> = new Set([
  'EnforcedPause',
  'NotOperator',
  'ReentrancyGuardReentrantCall',
])

export function newSettlement(rules: SettlementRules, outside: SettlementOutside): SettlementState {
  return {
    rules,
    outside,
    held: new Map(),
    queue: [],
    groups: [],
    batches: new Map(),
    ended: new Map(),
    unknownMarkets: new Map(),
    missingUntilMs: new Map(),
    usedPermits: new Set(),
    busy: new Set(),
    pauses: new Map(),
    recovered: false,
    graceSec: Number.POSITIVE_INFINITY,
    lastReadMs: 0,
    readFull: true,
    lastPollMs: 0,
    headNumber: 0,
    reporting: 0,
    behind: false,
    lagMs: 0,
    vanishing: [],
    trouble: '',
    misfit: '',
    stopped: '',
  }
}

export const settlement: Behaviour<SettlementState, SettlementProtocol, SettlementSaid> = {
  Tick(state, _message, context) {
    if (state.lastReadMs === 0) state.lastReadMs = context.nowMs
    if (!state.recovered) {
      recover(state, context)
    } else {
      wakeMarkets(state, context.nowMs)
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
    state.recovered = true
    for (const batch of open) follow(state, batch, context)
    // What has waited longest is known only once the database was read.
    readPending(state, context)
    poll(state, context)
    return undefined
  },

  PendingRead(state, { tradeIds, full }, context) {
    state.readFull = full
    const fresh = tradeIds.filter((id) => !state.held.has(id) && !state.ended.has(id))
    context.pipe(
      state.outside.readTrades(fresh.slice(0, READ_TRADES)),
      (trades) => ({ type: 'TradesRead', message: { trades } }),
      failure('read'),
    )
    return undefined
  },

  TradesRead(state, { trades }, context) {
    done(state, 'read')
    state.lastReadMs = context.nowMs
    for (const trade of trades) {
      if (state.held.has(trade.tradeId) || state.ended.has(trade.tradeId)) continue
      if (state.unknownMarkets.has(trade.marketId)) continue
      if (state.held.size >= SETTLEMENT_HELD_MAX) break
      enqueue(state, hold(state, trade, 'queued', context.nowMs))
    }
    forgetEnded(state, context.nowMs)
    advance(state, context)
    return undefined
  },

  Submitted(state, { tradeIds, submission }, context) {
    done(state, 'submit')
    const { settled, unripe, unknownMarkets, sent, revert } = submission
    for (const { tradeId, txHash } of settled) end(state, tradeId, 'confirmed', txHash, context)
    for (const tradeId of unripe) requeue(state, tradeId, context.nowMs + UNRIPE_AGAIN_MS)
    for (const marketId of unknownMarkets) {
      state.unknownMarkets.set(marketId, context.nowMs + MARKET_AGAIN_MS)
    }
    const rest: TradeId[] = []
    for (const tradeId of tradeIds) {
      const held = state.held.get(tradeId)
      if (held?.place !== 'sending') continue
      if (state.unknownMarkets.has(held.trade.marketId)) wait(state, held, context)
      else rest.push(tradeId)
    }
    if (sent !== undefined) {
      state.stopped = ''
      for (const tradeId of rest) {
        const held = state.held.get(tradeId)
        // Those that are not in the transaction were dealt with above, or are asked about again.
        if (held !== undefined && !sent.tradeIds.includes(tradeId)) requeue(state, tradeId, 0)
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

  Polled(state, { news, headNumber, trouble, graceSec }, context) {
    done(state, 'poll')
    state.trouble = trouble
    state.graceSec = graceSec
    if (state.rules.maxLagMs >= graceSec * 1_000) {
      state.misfit = `the settlement contract's grace of ${graceSec} s is not above the highest lag`
    }
    state.lastPollMs = context.nowMs
    state.headNumber = headNumber
    for (const each of news) hearNews(state, each, context)
    advance(state, context)
    return undefined
  },

  VanishedRead(state, { batch }, context) {
    done(state, 'vanished')
    state.vanishing.shift()
    const again = follow(state, batch, context)
    again.vanished = true
    for (const { tradeId } of batch.trades) takeBack(state, tradeId, batch.txHash)
    settleVanished(state, again, context)
    advance(state, context)
    return undefined
  },

  Reported(state, { tradeId, report, answer }, context) {
    state.reporting--
    const held = state.held.get(tradeId)
    if (held === undefined) return undefined
    held.asking = false
    if ('unanswered' in answer || (isRejection(answer) && isPassing(answer))) {
      held.askAgainMs = context.nowMs + ASK_AGAIN_MS
      return undefined
    }
    held.reports.shift()
    if (isRejection(answer)) {
      // Nobody there to be told, or a report that its market does not understand: both only end here.
      const what = `${report.status} is not heard: ${answer.rejected}`
      context.emit({ type: 'Contradiction', tradeId, what })
    } else {
      heard(state, held, report, answer.status, context)
    }
    if (held.reports.length === 0 && held.place === 'ended') forget(state, held, context)
    for (const batch of state.batches.values()) {
      if (batch.vanished) settleVanished(state, batch, context)
    }
    advance(state, context)
    return undefined
  },

  Acknowledged(state, { batch }) {
    // A reorg may have brought it back meanwhile; then it is to be followed to its next end.
    if (state.batches.get(batch)?.acknowledging === true) state.batches.delete(batch)
    return undefined
  },

  Failed(state, { step, why, retry, tradeIds = [], batch }, context) {
    const failures = (state.pauses.get(step)?.failures ?? 0) + 1
    state.busy.delete(step)
    const pauseMs = retry ? backoff(PAUSE_MS, PAUSE_MS_MAX, failures - 1) : PAUSE_MS_MAX
    state.pauses.set(step, { untilMs: context.nowMs + pauseMs, failures, why })
    for (const tradeId of tradeIds) requeue(state, tradeId, 0)
    const known = batch === undefined ? undefined : state.batches.get(batch)
    if (known !== undefined) known.acknowledging = false
    context.emit({ type: 'StepFailed', step, why })
    return undefined
  },
}

/** Why settlement does not get on; empty when it does. */
export function whyStuck(state: SettlementState): string {
  if (state.misfit !== '') return state.misfit
  if (state.stopped !== '') return state.stopped
  for (const { why } of state.pauses.values()) return why
  return state.trouble
}

export function statusOf(state: SettlementState): SettlementStatus {
  let inFlight = 0
  let waiting = 0
  let unreported = 0
  for (const { place, reports } of state.held.values()) {
    if (place === 'sending' || place === 'sent') inFlight++
    if (place === 'waiting') waiting++
    if (reports.length > 0) unreported++
  }
  return {
    chainId: state.rules.chainId,
    queued: state.queue.length + state.groups.reduce((sum, group) => sum + group.length, 0),
    inFlight,
    waiting,
    unreported,
    oldestMs: state.lagMs,
    behind: state.behind,
    why: whyStuck(state),
  }
}

function begun(state: SettlementState, step: Step, nowMs: number): boolean {
  if (state.busy.has(step) || nowMs < (state.pauses.get(step)?.untilMs ?? 0)) return false
  state.busy.add(step)
  return true
}

function done(state: SettlementState, step: Step): void {
  state.busy.delete(step)
  state.pauses.delete(step)
}

function failure(
  step: Step,
  more: { tradeIds?: readonly TradeId[]; batch?: string } = {},
): (error: unknown) => { type: 'Failed'; message: SettlementProtocol['Failed']['takes'] } {
  return (error) => ({
    type: 'Failed',
    message: {
      step,
      why: error instanceof Error ? error.message : String(error),
      retry: error instanceof Fault ? error.retryable : false,
      ...more,
    },
  })
}

function recover(state: SettlementState, context: SettlementContext): void {
  if (!begun(state, 'recover', context.nowMs)) return
  const { desk, readTrades } = state.outside
  const withTrades = (open: OpenSettlement) =>
    readTrades(open.tradeIds).then((trades) => ({ ...open, trades }))
  context.pipe(
    desk.recover().then((open) => Promise.all(open.map(withTrades))),
    (open) => ({ type: 'Recovered', message: { open } }),
    failure('recover'),
  )
}

function readPending(state: SettlementState, context: SettlementContext): void {
  const { nowMs } = context
  const { readEveryMs, batchMax } = state.rules
  if (!state.readFull && nowMs - state.lastReadMs < readEveryMs) return
  if (state.queue.length >= 2 * batchMax || state.held.size >= SETTLEMENT_HELD_MAX) return
  if (!begun(state, 'read', nowMs)) return
  // Those that are held are among the oldest, so the read has to reach beyond them.
  const limit = state.held.size + Math.min(state.ended.size, ENDED_READ_MAX) + READ_TRADES
  context.pipe(
    state.outside.readPending({ limit, exceptMarkets: [...state.unknownMarkets.keys()] }),
    (tradeIds) => ({ type: 'PendingRead', message: { tradeIds, full: tradeIds.length >= limit } }),
    failure('read'),
  )
}

function poll(state: SettlementState, context: SettlementContext): void {
  const { nowMs } = context
  if (nowMs - state.lastPollMs < state.rules.pollEveryMs) return
  // What a poll would send again is first to be asked about.
  for (const { vanished } of state.batches.values()) if (vanished) return
  if (state.vanishing.length > 0 || !begun(state, 'poll', nowMs)) return
  context.pipe(
    state.outside.desk.poll(),
    ({ news, headNumber, trouble, graceSec }) => ({
      type: 'Polled',
      message: { news, headNumber, trouble, graceSec },
    }),
    failure('poll'),
  )
}

/** Everything that may go on without waiting for the timer. */
function advance(state: SettlementState, context: SettlementContext): void {
  readVanished(state, context)
  deliver(state, context)
  acknowledge(state, context)
  sendNext(state, context)
}

function hold(state: SettlementState, trade: StoredTrade, place: Place, nowMs: number): Held {
  const known = state.held.get(trade.tradeId)
  if (known !== undefined) {
    known.place = place
    return known
  }
  const held: Held = {
    trade: { ...trade, tradeKey: state.outside.keyOf(trade) },
    place,
    readySinceMs: nowMs,
    notBeforeMs: 0,
    setbacks: 0,
    reports: [],
    confirmed: trade.status === 'confirmed',
    asking: false,
    askAgainMs: 0,
  }
  state.held.set(trade.tradeId, held)
  return held
}

function enqueue(state: SettlementState, held: Held): void {
  held.place = 'queued'
  state.queue.push(held.trade.tradeId)
}

/** Back into the queue, not to be sent before that time. */
function requeue(state: SettlementState, tradeId: TradeId, notBeforeMs: number): void {
  const held = state.held.get(tradeId)
  if (held === undefined || held.place === 'queued' || held.place === 'ended') return
  held.notBeforeMs = notBeforeMs
  enqueue(state, held)
}

/** Its market is not on chain yet. It waits, but not for longer than its orders could settle. */
function wait(state: SettlementState, held: Held, context: SettlementContext): void {
  if (isOver(state, held, context)) failAtLast(state, held, 'MarketUnknown', context)
  else held.place = 'waiting'
}

/**
 * Neither side is at fault: the stablecoin refuses everybody, or nobody knows why. If such a trade
 * failed at once, both quantities would go back into the book, meet again, and fail again, for ever.
 * So it is tried again, less and less often, until its orders cannot settle any more.
 */
function setBack(
  state: SettlementState,
  held: Held,
  reason: string,
  context: SettlementContext,
): void {
  if (isOver(state, held, context)) {
    failAtLast(state, held, reason, context)
    return
  }
  const waitMs = backoff(SETBACK_MS, SETBACK_MS_MAX, held.setbacks++)
  held.notBeforeMs = context.nowMs + waitMs
  alone(state, [held.trade.tradeId])
}

function isOver(state: SettlementState, { trade }: Held, context: SettlementContext): boolean {
  const { buy, sell } = trade
  const lastSec = Math.min(Number(buy.expiration), Number(sell.expiration)) + state.graceSec
  return context.nowMs / 1_000 > lastSec
}

function failAtLast(
  state: SettlementState,
  { trade }: Held,
  reason: string,
  context: SettlementContext,
): void {
  end(state, trade.tradeId, 'failed', '', context, { reason, fault: 'none' })
}

/** Markets whose time to be looked for has come; their trades go back into the queue. */
function wakeMarkets(state: SettlementState, nowMs: number): void {
  for (const [marketId, againMs] of state.unknownMarkets) {
    if (nowMs < againMs) continue
    state.unknownMarkets.delete(marketId)
    state.missingUntilMs.set(marketId, nowMs)
    state.readFull = true
    for (const [tradeId, { place, trade }] of state.held) {
      if (place === 'waiting' && trade.marketId === marketId) requeue(state, tradeId, 0)
    }
  }
}

function sendNext(state: SettlementState, context: SettlementContext): void {
  let unmined = 0
  for (const { mined, ended, vanished } of state.batches.values()) {
    if (vanished) return
    if (!mined && !ended) unmined++
  }
  if (state.vanishing.length > 0) return
  if (unmined >= state.rules.inFlightMax || state.busy.has('submit')) return
  const chosen = nextBatch(state, context.nowMs)
  if (chosen.length === 0 || !begun(state, 'submit', context.nowMs)) return
  const trades: TradeToSettle[] = []
  const taken = new Set(chosen)
  const group = state.groups.indexOf(chosen)
  if (group >= 0) state.groups.splice(group, 1)
  else keep(state.queue, (tradeId) => !taken.has(tradeId))
  for (const tradeId of chosen) {
    const held = state.held.get(tradeId)
    assert(held !== undefined, `${tradeId} is queued and not held`)
    held.place = 'sending'
    trades.push(held.trade)
  }
  context.pipe(
    state.outside.desk.submit(trades, { usedPermits: state.usedPermits }),
    (submission) => ({ type: 'Submitted', message: { tradeIds: chosen, submission } }),
    failure('submit', { tradeIds: chosen }),
  )
}

/** The trades of the next batch; none when it is better to wait for more. */
function nextBatch(state: SettlementState, nowMs: number): TradeId[] {
  const ready = (tradeId: TradeId): boolean =>
    (state.held.get(tradeId)?.notBeforeMs ?? Number.POSITIVE_INFINITY) <= nowMs
  const group = state.groups.find((each) => each.every(ready))
  if (group !== undefined) return group
  const { batchMax, batchWaitMs } = state.rules
  const chosen: TradeId[] = []
  let oldestMs = nowMs
  for (const tradeId of state.queue) {
    if (!ready(tradeId)) continue
    chosen.push(tradeId)
    oldestMs = Math.min(oldestMs, state.held.get(tradeId)?.readySinceMs ?? nowMs)
    if (chosen.length === batchMax) return chosen
  }
  return nowMs - oldestMs >= batchWaitMs ? chosen : []
}

function keep<T>(list: T[], wanted: (each: T) => boolean): void {
  let kept = 0
  for (const each of list) if (wanted(each)) list[kept++] = each
  list.length = kept
}

function batchName({ sender, nonce }: { sender: string; nonce: number }): string {
  return `${sender}/${nonce}`
}

/** A transaction has been sent: its trades are submitted. */
function begin(state: SettlementState, sent: OpenSettlement, context: SettlementContext): Batch {
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
  state.batches.set(batchName(batch), batch)
  submitted(state, batch)
  deliver(state, context)
  return batch
}

function submitted(state: SettlementState, batch: Batch): void {
  for (const tradeId of batch.tradeIds) {
    const held = state.held.get(tradeId)
    if (held === undefined || held.place === 'ended') continue
    leaveQueue(state, held)
    held.place = 'sent'
    const { trade } = held
    held.trade = { ...trade, status: 'submitted', attempts: trade.attempts + 1 }
    tell(state, tradeId, 'submitted', batch.txHash, '', 'none')
  }
}

/**
 * A transaction that this process did not send, or not lately. Its end may have been told before a
 * kill, and a reorg may have removed it since: what has failed must not settle by it after all.
 */
function follow(state: SettlementState, found: RecoveredBatch, context: SettlementContext): Batch {
  const unwanted: StoredTrade[] = []
  for (const trade of found.trades) {
    const known = state.held.get(trade.tradeId)
    if (known !== undefined) leaveQueue(state, known)
    else if (trade.status === 'failed') {
      unwanted.push(trade)
      continue
    }
    state.ended.delete(trade.tradeId)
    hold(state, trade, 'sent', context.nowMs)
  }
  const batch = begin(state, found, context)
  for (const trade of unwanted) batch.unwanted.set(state.outside.keyOf(trade), trade.tradeId)
  if (unwanted.length > 0) state.outside.desk.abandon(batch)
  return batch
}

function hearNews(state: SettlementState, news: SettlementNews, context: SettlementContext): void {
  const batch = state.batches.get(batchName(news))
  if (news.type === 'vanished') {
    context.emit({ type: 'BatchVanished', trades: news.tradeIds.length })
    state.batches.delete(batchName(news))
    state.vanishing.push(news)
    return
  }
  if (batch === undefined) return
  batch.txHash = news.txHash
  switch (news.type) {
    case 'mined':
      batch.mined = true
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
    (tradeId) => state.held.get(tradeId)?.place === 'sent' && !isElsewhere(state, tradeId),
  )
  const verdictOf = new Map(verdicts.map((verdict) => [verdict.tradeKey, verdict]))
  for (const tradeId of own) {
    const held = state.held.get(tradeId)
    if (held?.confirmed !== true) continue
    const verdict = verdictOf.get(held.trade.tradeKey)
    // A block that has gone confirmed it before a kill, and this one has not.
    const isSettled = verdict?.settled === true || verdict?.reason === 'AlreadySettled'
    if (!isSettled) takeBack(state, tradeId, txHash)
  }
  if (outcome === 'reverted') {
    const revert = { name: '', words: 'the transaction reverted' }
    isolate(state, own, revert, context)
    return
  }
  if (outcome !== 'succeeded') {
    for (const tradeId of own) requeue(state, tradeId, 0)
    return
  }
  for (const tradeId of batch.tradeIds) {
    const held = state.held.get(tradeId)
    if (held === undefined) continue
    const verdict = verdictOf.get(held.trade.tradeKey)
    if (verdict?.settled !== true && isElsewhere(state, tradeId)) continue
    decide(state, held, verdict, txHash, context)
  }
  for (const [tradeKey, tradeId] of batch.unwanted) {
    if (verdictOf.get(tradeKey)?.settled === true) contradict(tradeId, context)
  }
}

/** Whether it is in another transaction that is under way, as after a reorg: then that one decides. */
function isElsewhere(state: SettlementState, tradeId: TradeId): boolean {
  for (const { ended, tradeIds } of state.batches.values()) {
    if (!ended && tradeIds.includes(tradeId)) return true
  }
  return state.vanishing.some(({ tradeIds }) => tradeIds.includes(tradeId))
}

function contradict(tradeId: TradeId, context: SettlementContext): void {
  const what = 'it settled on chain after it had failed here'
  context.emit({ type: 'Contradiction', tradeId, what })
}

function decide(
  state: SettlementState,
  held: Held,
  verdict: TradeVerdict | undefined,
  txHash: string,
  context: SettlementContext,
): void {
  const { tradeId, marketId, buy } = held.trade
  if (verdict?.settled === true) {
    if (buy.permit !== undefined) rememberPermit(state, buy.orderHash)
    end(state, tradeId, 'confirmed', txHash, context)
    return
  }
  if (held.place !== 'sent') return
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
      state.unknownMarkets.set(marketId, context.nowMs + MARKET_AGAIN_MS)
      wait(state, held, context)
      break
    default:
      if (verdict.fault === 'none') setBack(state, held, verdict.reason, context)
      else end(state, tradeId, 'failed', txHash, context, verdict)
  }
}

function rememberPermit(state: SettlementState, orderHash: OrderHash): void {
  if (state.usedPermits.size >= SETTLEMENT_PERMITS_MAX) state.usedPermits.clear()
  state.usedPermits.add(orderHash)
}

/** A batch that reverts as a whole: halved, until what does it is alone. */
function isolate(
  state: SettlementState,
  tradeIds: readonly TradeId[],
  revert: { readonly name: string; readonly words: string },
  context: SettlementContext,
): void {
  const { nowMs } = context
  if (tradeIds.length === 0) return
  context.emit({ type: 'BatchReverts', trades: tradeIds.length, why: revert.words })
  if (SYSTEMIC.has(revert.name)) {
    state.stopped = revert.words
    for (const tradeId of tradeIds) requeue(state, tradeId, nowMs + SYSTEMIC_AGAIN_MS)
    return
  }
  const [first] = tradeIds
  if (tradeIds.length === 1 && first !== undefined) {
    const held = state.held.get(first)
    if (held !== undefined) setBack(state, held, `Reverted: ${revert.words}`, context)
    return
  }
  const middle = Math.ceil(tradeIds.length / 2)
  alone(state, tradeIds.slice(0, middle))
  alone(state, tradeIds.slice(middle))
}

function alone(state: SettlementState, tradeIds: TradeId[]): void {
  for (const tradeId of tradeIds) {
    const held = state.held.get(tradeId)
    if (held !== undefined) held.place = 'queued'
  }
  state.groups.push(tradeIds)
}

/** The chain has decided about a trade. */
function end(
  state: SettlementState,
  tradeId: TradeId,
  status: 'confirmed' | 'failed',
  txHash: string,
  context: SettlementContext,
  why: { reason: string; fault: TradeReport['fault'] } = { reason: '', fault: 'none' },
): void {
  const held = state.held.get(tradeId)
  if (held === undefined) return
  leaveQueue(state, held)
  held.place = 'ended'
  tell(state, tradeId, status, txHash, why.reason, why.fault)
  const waitedMs = context.nowMs - held.trade.matchedAtMs
  context.emit({ type: 'TradeEnded', status, reason: why.reason, waitedMs })
}

function leaveQueue(state: SettlementState, { place, trade: { tradeId } }: Held): void {
  if (place !== 'queued') return
  keep(state.queue, (each) => each !== tradeId)
  for (const group of state.groups) keep(group, (each) => each !== tradeId)
  keep(state.groups, (group) => group.length > 0)
}

/** Plans a report. One that the newer makes pointless is left out. */
function tell(
  state: SettlementState,
  tradeId: TradeId,
  status: TradeReport['status'],
  txHash: string,
  reason: string,
  fault: TradeReport['fault'],
): void {
  const held = state.held.get(tradeId)
  if (held === undefined) return
  const { size, buy, sell } = held.trade
  const { reports } = held
  const pointless = reports.at(-1)?.status === 'submitted' && status !== 'reverted'
  if (pointless && !(held.asking && reports.length === 1)) reports.pop()
  reports.push({ tradeId, status, txHash, reason, fault, size, buy, sell })
}

function deliver(state: SettlementState, context: SettlementContext): void {
  if (state.reporting >= SETTLEMENT_REPORTS_MAX) return
  for (const held of state.held.values()) {
    const [report] = held.reports
    if (report === undefined || held.asking || context.nowMs < held.askAgainMs) continue
    held.asking = true
    state.reporting++
    const { tradeId, marketId } = held.trade
    const reported = (answer: ReportAnswer) => ({
      type: 'Reported' as const,
      message: { tradeId, report, answer },
    })
    context.pipe(state.outside.report(marketId, report), reported, (error) =>
      reported({ unanswered: String(error) }),
    )
    if (state.reporting >= SETTLEMENT_REPORTS_MAX) return
  }
}

/** Whether the same report may be heard later. */
function isPassing({ rejected }: Rejection): boolean {
  return rejected === 'OVERLOADED' || rejected === 'OUTCOME_UNKNOWN'
}

/** What a market made of a report. */
function heard(
  state: SettlementState,
  held: Held,
  report: TradeReport,
  status: TradeStatus,
  context: SettlementContext,
): void {
  const { tradeId } = held.trade
  if (report.status === 'reverted') {
    // Not confirmed yet: there was nothing to take back. Failed: it must not settle any more.
    if (status === 'failed') dropFailed(state, held)
    return
  }
  if (status === report.status) return
  if (report.status === 'submitted' && status === 'failed') {
    // It failed before a restart, and what was read then did not say so.
    dropFailed(state, held)
  } else if (report.status === 'submitted' && status === 'confirmed') {
    held.confirmed = true
    if (held.place !== 'sent' && held.place !== 'ended') takeBack(state, tradeId, report.txHash)
  } else if (report.status === 'failed' && status === 'confirmed') {
    // It was confirmed by a block that has gone, which nobody noticed at the time.
    const before = { status: 'reverted', reason: REORGANISED, fault: 'none' } as const
    held.reports.unshift({ ...report, ...before }, report)
  } else if (report.status === 'confirmed' && status === 'failed') {
    contradict(tradeId, context)
  }
}

/** It is not settled any more, whatever was told. */
function takeBack(state: SettlementState, tradeId: TradeId, txHash: string): void {
  const held = state.held.get(tradeId)
  if (held === undefined) return
  held.confirmed = false
  tell(state, tradeId, 'reverted', txHash, REORGANISED, 'none')
}

/** A trade that has failed is under way again: what it is in had better not be mined. */
function dropFailed(state: SettlementState, held: Held): void {
  if (held.place === 'ended') return
  const { tradeId, tradeKey } = held.trade
  leaveQueue(state, held)
  held.place = 'ended'
  for (const batch of state.batches.values()) {
    if (batch.ended || !batch.tradeIds.includes(tradeId)) continue
    batch.unwanted.set(tradeKey, tradeId)
    state.outside.desk.abandon(batch)
  }
}

/** Once every market has said what it thinks of a batch that vanished, it may be sent again. */
function settleVanished(state: SettlementState, batch: Batch, context: SettlementContext): void {
  for (const tradeId of batch.tradeIds) {
    const reports = state.held.get(tradeId)?.reports ?? []
    if (reports.some(({ status }) => status === 'reverted')) return
  }
  batch.vanished = false
  submitted(state, batch)
  deliver(state, context)
}

function readVanished(state: SettlementState, context: SettlementContext): void {
  const [next] = state.vanishing
  if (next === undefined || !begun(state, 'vanished', context.nowMs)) return
  const { sender, nonce, txHash, tradeIds } = next
  context.pipe(
    state.outside.readTrades(tradeIds),
    (trades) => ({
      type: 'VanishedRead',
      message: { batch: { sender, nonce, txHash, tradeIds, trades } },
    }),
    failure('vanished'),
  )
}

/** The trade has ended and its market knows: nothing is left to do about it. */
function forget(state: SettlementState, held: Held, context: SettlementContext): void {
  const { tradeId } = held.trade
  state.held.delete(tradeId)
  if (state.ended.size >= SETTLEMENT_ENDED_MAX) state.ended.clear()
  state.ended.set(tradeId, context.nowMs)
}

function forgetEnded(state: SettlementState, nowMs: number): void {
  for (const [tradeId, atMs] of state.ended) {
    if (nowMs - atMs < ENDED_KEPT_MS) return
    state.ended.delete(tradeId)
  }
}

/** Closes the journal's rows of batches whose trades are all reported. */
function acknowledge(state: SettlementState, context: SettlementContext): void {
  for (const [name, batch] of state.batches) {
    if (!batch.ended || batch.acknowledging) continue
    if (batch.tradeIds.some((tradeId) => isUntold(state.held.get(tradeId)))) continue
    if (context.nowMs < (state.pauses.get('acknowledge')?.untilMs ?? 0)) return
    batch.acknowledging = true
    context.pipe(
      state.outside.desk.acknowledge(batch),
      () => ({ type: 'Acknowledged', message: { batch: name } }),
      failure('acknowledge', { batch: name }),
    )
  }
}

/** Whether its market has to hear something that a restart could not find out. */
function isUntold(held: Held | undefined): boolean {
  if (held === undefined) return false
  return held.place === 'ended' || held.reports.some(({ status }) => status === 'reverted')
}

/** How long the oldest trade that could have settled has waited. */
function watchLag(state: SettlementState, context: SettlementContext): void {
  const { nowMs } = context
  const { maxLagMs } = state.rules
  for (const [marketId, untilMs] of state.missingUntilMs) {
    if (nowMs - untilMs > maxLagMs + MISSING_KEPT_MS) state.missingUntilMs.delete(marketId)
  }
  let oldestMs = nowMs
  for (const { place, trade } of state.held.values()) {
    if (place === 'waiting' || place === 'ended') continue
    const couldMs = Math.max(trade.matchedAtMs, state.missingUntilMs.get(trade.marketId) ?? 0)
    oldestMs = Math.min(oldestMs, couldMs)
  }
  // While the database cannot be read, nobody knows what waits in it.
  const blind = state.pauses.has('read') || state.pauses.has('recover')
  if (blind) oldestMs = Math.min(oldestMs, state.lastReadMs)
  state.lagMs = nowMs - oldestMs
  const behind = maxLagMs > 0 && state.lagMs > maxLagMs
  if (behind === state.behind) return
  state.behind = behind
  context.emit({ type: 'LagChanged', behind, lagMs: state.lagMs })
}
