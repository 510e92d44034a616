/** Messages, events, ports and state of settlement, and the stages of a trade. */

import assert from 'node:assert/strict'
import type { FundsToken } from '#domain/funds.ts'
import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { Rejection } from '#domain/rejection.ts'
import type {
  FaultySide,
  TradeNote,
  TradeRefusal,
  TradeStatus,
  TradeToSettle,
  TradeWithOrders,
} from '#domain/trade.ts'
import type { TradeReport } from '#protocol/market.ts'
import type { SettlementRequests } from '#protocol/settlement.ts'
import type { Context } from '#runtime/actor.ts'
import type { PendingTrades } from '#store/reads/settlements.ts'
import type {
  OpenSettlement,
  SettlementLane,
  SettlementUpdate,
  Submission,
} from './chain/settlement-lane.ts'
import type { RefusedTrade } from './chain/simulation.ts'

export type SettlementProtocol = SettlementRequests & {
  /** The thread's timer. */
  Tick: { takes: object; answers: undefined }
  Status: { takes: object; answers: SettlementStatus }
  Recovered: {
    takes: { open: readonly RecoveredBatch[] }
    answers: undefined
  }
  /** `upTo` is the number of notices about new trades when the read began. */
  PendingRead: {
    takes: PendingTrades & { upTo: number; notes: readonly TradeNote[] }
    answers: undefined
  }
  Noted: {
    takes: { notes: readonly TradeNote[]; ended: readonly TradeId[] }
    answers: undefined
  }
  Submitted: { takes: { tradeIds: readonly TradeId[]; submission: Submission }; answers: undefined }
  Polled: {
    takes: {
      updates: readonly SettlementUpdate[]
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
  /** A step of asynchronous work failed. */
  Failed: {
    takes: {
      step: Step
      why: string
      /** True if the same request may succeed later; otherwise its content is at fault. */
      retry: boolean
      /** True if this process failed on its own data, and nothing external failed. */
      unexpected: boolean
      tradeIds?: readonly TradeId[]
      batch?: string
    }
    answers: undefined
  }
}

export type RecoveredBatch = OpenSettlement & {
  readonly trades: readonly TradeWithOrders[]
  readonly notes: readonly TradeNote[]
}

/** Answer of a market, or why there is none. */
export type ReportAnswer = { readonly status: TradeStatus } | Rejection | { unanswered: string }

export type SettlementStatus = {
  readonly chainId: number
  readonly queued: number
  readonly inFlight: number
  readonly waiting: number
  /** The trade did not settle, no side was at fault, and it is retried. */
  readonly retrying: number
  readonly unreported: number
  /** Age of the oldest unsettled trade. */
  readonly oldestMs: number
  readonly behind: boolean
  readonly why: string
}

/** Events for metrics, log lines and the market threads. */
export type SettlementEvent =
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
      readonly fault: FaultySide
      readonly waitedMs: number
      /** Gas that the trade has cost in transactions in which it did not settle. */
      readonly wastedGas: number
    }
  | { readonly type: 'BatchVanished'; readonly trades: number }
  | { readonly type: 'BatchReverts'; readonly trades: number; readonly why: string }
  /** The chain and a market permanently disagree about a trade. */
  | { readonly type: 'Contradiction'; readonly tradeId: TradeId; readonly what: string }
  /** A trade failed because it had not settled by its deadline. */
  | { readonly type: 'TradeOverdue'; readonly tradeId: TradeId; readonly why: string }
  | { readonly type: 'StepFailed'; readonly step: Step; readonly why: string }
  /** No trade has ended for a while although some are open. */
  | {
      readonly type: 'Stalled'
      readonly forMs: number
      readonly trades: number
      readonly why: string
    }
  | { readonly type: 'LagChanged'; readonly behind: boolean; readonly lagMs: number }

export type SettlementRules = {
  readonly chainId: number
  /** Most trades in one transaction. */
  readonly batchMax: number
  /** Time that a trade waits for others to share its transaction. */
  readonly batchWaitMs: number
  /** Maximum number of transactions that are sent and in no block yet. */
  readonly inFlightMax: number
  readonly readEveryMs: number
  readonly pollEveryMs: number
  /** Lag above which the markets accept cancels only; 0 for never. */
  readonly maxLagMs: number
  /** Maximum time that a trade may stay unsettled while the chain is reachable. */
  readonly tradeDeadlineMs: number
  /** Gas that may be spent on refusals of one trade without a side at fault. */
  readonly retryGasMax: number
}

/** Access to the chain, the database and the markets. */
export type SettlementPorts = {
  readonly lane: SettlementLane
  /** Reads pending trades with their orders, the oldest first. */
  readonly readPending: (filter: {
    readonly limit: number
    readonly exceptMarkets: readonly MarketId[]
    readonly exceptTakers: readonly Address[]
    readonly exceptTrades: readonly TradeId[]
  }) => Promise<PendingTrades>
  /** Reads these trades, in the same order; unknown ones are left out. */
  readonly readTrades: (tradeIds: readonly TradeId[]) => Promise<readonly TradeWithOrders[]>
  /** A trade's id on chain; computed, once per trade. */
  readonly keyOf: (trade: TradeWithOrders) => string
  /** Returns the notes of these trades. */
  readonly readNotes: (tradeIds: readonly TradeId[]) => Promise<readonly TradeNote[]>
  readonly saveNotes: (changes: {
    readonly notes: readonly TradeNote[]
    readonly ended: readonly TradeId[]
  }) => Promise<void>
  /** Sends a report to the market; never rejects. */
  readonly report: (marketId: MarketId, report: TradeReport) => Promise<ReportAnswer>
  /** Traders who have used up today's budget by failed fills; omitted if there is no budget. */
  readonly barred?: () => ReadonlySet<Address>
}

/** Stage of a trade in settlement. */
export type Stage =
  /** In the queue, or in a group that is sent separately. */
  | 'queued'
  /** In a batch that is being simulated and sent. */
  | 'submitting'
  /** In a transaction that is not final. */
  | 'sent'
  /** Its market is not on chain yet. */
  | 'awaitingMarket'
  /** The trade lacks a balance that older trades of the same trader will bring. */
  | 'awaitingOlder'
  /** Confirmed or failed; its market has still to acknowledge that. */
  | 'ended'

/**
 * Every step that a trade may take. A trade starts as `queued`, or as `sent` if the journal has its transaction; it is
 * dropped once it has ended and its market knows.
 *
 * Each stage leads to `sent`: a reorg or a replaced transaction can put a trade back into a transaction at any time, even
 * one that has ended. A trade that its market has as failed ends again if a block settles it all the same; its market
 * then contradicts the report.
 */
export const STEPS: Readonly<Record<Stage, readonly Stage[]>> = {
  queued: ['submitting', 'sent', 'ended'],
  submitting: ['queued', 'sent', 'awaitingMarket', 'awaitingOlder', 'ended'],
  sent: ['queued', 'sent', 'awaitingMarket', 'ended'],
  awaitingMarket: ['queued', 'sent', 'ended'],
  awaitingOlder: ['queued', 'sent', 'ended'],
  ended: ['sent', 'ended'],
}

/** The only place that changes a stage. A step outside the table is a bug of settlement. */
export function moveTo(pending: Pick<PendingSettlement, 'trade' | 'stage'>, to: Stage): void {
  const { stage, trade } = pending
  assert(STEPS[stage].includes(to), `${trade.tradeId} cannot go from ${stage} to ${to}`)
  ;(pending as { stage: Stage }).stage = to
}

/** The balance that a trade lacks until older ones have settled. */
export type MissingBalance = {
  readonly refusal: RefusedTrade
  /** Block at which the trade was refused and the balances were read. */
  readonly block: number
  readonly sinceMs: number
  readonly sides: readonly MissingSide[]
}

/** One side of the trade: its balance or allowance, its need of it, and the change by each older trade. */
export type MissingSide = {
  readonly trader: Address
  readonly token: FundsToken | 'allowance'
  has: bigint
  readonly needs: bigint
  readonly changes: Map<TradeId, bigint>
  /** Trades in blocks that `has` already includes. */
  readonly counted: Set<TradeId>
}

/** A trade from the read of the database until its market has acknowledged its end. */
export type PendingSettlement = {
  trade: TradeToSettle
  /** Changed by `moveTo` only. */
  readonly stage: Stage
  /** When it could first have been sent. */
  readonly readySinceMs: number
  /** When it could first have settled. */
  settleableSinceMs: number
  /**
   * The age of the trade counts as lag from this time on: the first submission shows whether it can settle at
   * all.
   */
  lagFromMs: number
  notBeforeMs: number
  /** The balance that it lacked at its last submission, until it is sent. */
  missing: MissingBalance | undefined
  /** The refusal by a block, by the fault of one side. It still counts if a reorg removes that block. */
  refusal: TradeRefusal | undefined
  /** Number of times it could not settle without a side at fault while others did. */
  retries: number
  /** Number of times its transaction could not even be simulated. */
  submitFailures: number
  submitFailedAtMs: number
  /** The last known reason why it has not settled; empty if there is none. */
  trouble: string
  /** `chain.reachableMs` when it was read; earlier by the time before a restart. */
  reachableAtMs: number
  /** Its note in the database. */
  noted: TradeNote | undefined
  /** Gas that the trade has cost in transactions in which it did not settle. */
  wastedGas: number
  /** Reports that its market has not acknowledged, the oldest first. */
  readonly reports: TradeReport[]
  isReporting: boolean
  reportAgainMs: number
  /** True if its market has it as confirmed; the market must be notified if that is undone. */
  isConfirmed: boolean
}

export type Ended = { readonly atMs: number; readonly matchedAtMs: number }

export type Batch = {
  readonly sender: OpenSettlement['sender']
  readonly nonce: number
  txHash: string
  tradeIds: readonly TradeId[]
  mined: boolean
  /** The chain has decided; it is acknowledged once its trades are reported. */
  ended: boolean
  acknowledging: boolean
  /** A reorg removed it; nothing is sent again until the markets have acknowledged that. */
  vanished: boolean
  /** Trades of the batch that have failed and must not settle any more, by their id on chain. */
  readonly unwanted: Map<string, TradeId>
}

export type SettlementState = {
  readonly rules: SettlementRules
  readonly ports: SettlementPorts
  readonly trades: Map<TradeId, PendingSettlement>
  readonly queue: {
    readonly tradeIds: TradeId[]
    /** The takers of queued trades, in the order of their turns. */
    readonly turns: Set<Address>
    /** Batches that are sent separately, before the queue: the halves of a batch that reverts. */
    readonly groups: TradeId[][]
  }
  /** Transactions under way. */
  readonly flight: {
    readonly batches: Map<string, Batch>
    /** Batches that a reorg removed; their trades are still to be read. */
    readonly vanished: OpenSettlement[]
    readonly usedPermits: Set<OrderHash>
    lastSentMs: number
  }
  /** Trades that wait for older ones. */
  readonly older: {
    readonly waiting: Set<TradeId>
    /** Trades decided since the waiting trades were last checked, with the block if one settled them. */
    readonly decided: Map<TradeId, number | undefined>
    /** Trades that were mined during a submission. */
    readonly minedSince: Map<TradeId, { readonly trade: TradeToSettle; readonly block: number }>
  }
  readonly markets: {
    /** Markets that the chain does not know yet, and the time of the next check. */
    readonly missing: Map<MarketId, number>
    /** Time until which they were missing: before it their trades could not have settled. */
    readonly missingUntilMs: Map<MarketId, number>
  }
  /** Trades that have or may have ended, although the database may not have that yet. */
  readonly history: {
    readonly ended: Map<TradeId, Ended>
    /** A trade matched before this time may have ended and been forgotten, here or before a restart. */
    trustedFromMs: number
    /**
     * Trades to verify with their markets; nothing is done for them before their markets answer that they are pending.
     */
    readonly unverified: Set<TradeId>
    verifyingSinceMs: number
  }
  /** Ended trades whose notes have still to be deleted. */
  readonly notes: { readonly ended: Set<TradeId> }
  readonly reports: {
    inFlight: number
    /** Why the last report was not acknowledged; empty if it was. */
    unanswered: string
  }
  /** When a trade last ended, and when the wait for the next was last logged. */
  readonly progress: { lastMs: number; toldMs: number }
  readonly steps: {
    /** Steps in progress, and since when. */
    readonly busy: Map<Step, number>
    /** After a failure a step does not start before this time. */
    readonly pauses: Map<Step, { untilMs: number; failures: number; why: string }>
  }
  /** Reads of the database. */
  readonly reads: {
    recovered: boolean
    lastMs: number
    isFull: boolean
    /** Number of notices about new trades, now and when the last read began. */
    notified: number
    notifiedBefore: number
  }
  readonly chain: {
    lastPollMs: number
    /** Time for which the chain was reachable since the start. */
    reachableMs: number
    /** Time after its expiration in which an order can settle; infinite until it is known. */
    graceSec: number
    /** The sender's complaint; empty if there is none. */
    trouble: string
    /** Why the settings do not fit the contract; empty if they do. */
    misfit: string
    /** Why batches are not sent although the chain answers; empty if they are. */
    stopped: string
  }
  readonly lag: {
    behind: boolean
    ms: number
    /** Age of the oldest unsettled trade. */
    oldestMs: number
  }
}

export function newSettlement(rules: SettlementRules, ports: SettlementPorts): SettlementState {
  return {
    rules,
    ports,
    trades: new Map(),
    queue: { tradeIds: [], turns: new Set(), groups: [] },
    flight: { batches: new Map(), vanished: [], usedPermits: new Set(), lastSentMs: 0 },
    older: { waiting: new Set(), decided: new Map(), minedSince: new Map() },
    markets: { missing: new Map(), missingUntilMs: new Map() },
    history: {
      ended: new Map(),
      trustedFromMs: Number.POSITIVE_INFINITY,
      unverified: new Set(),
      verifyingSinceMs: 0,
    },
    notes: { ended: new Set() },
    reports: { inFlight: 0, unanswered: '' },
    progress: { lastMs: 0, toldMs: 0 },
    steps: { busy: new Map(), pauses: new Map() },
    reads: { recovered: false, lastMs: 0, isFull: true, notified: 0, notifiedBefore: 0 },
    chain: {
      lastPollMs: 0,
      reachableMs: 0,
      graceSec: Number.POSITIVE_INFINITY,
      trouble: '',
      misfit: '',
      stopped: '',
    },
    lag: { behind: false, ms: 0, oldestMs: 0 },
  }
}

export type SettlementContext = Context<SettlementProtocol, SettlementEvent>

export type Step = 'recover' | 'read' | 'submit' | 'poll' | 'vanished' | 'acknowledge' | 'note'
