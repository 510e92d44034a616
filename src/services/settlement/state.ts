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
  Recovered: {
    takes: { open: readonly RecoveredBatch[] }
    answers: undefined
  }
  /** `upTo` is the number of `TradesWritten` messages received before the read began. */
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
  /** The trades of a batch have been read, after a reorg removed the batch. */
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
      /**
       * True if a retry of the same step may succeed. If false for a submission, the batch is halved until
       * the bad trade is alone.
       */
      retry: boolean
      /**
       * True if the error is not a `Fault`: this process could not handle its own data, although the chain and the
       * database worked.
       */
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

/** The answer of a market, or the reason why the market did not answer. */
export type ReportAnswer = { readonly status: TradeStatus } | Rejection | { unanswered: string }

export type SettlementStatus = {
  readonly queued: number
  readonly inFlight: number
  readonly waiting: number
  /** Number of trades that are being retried: they have not settled, and neither side is at fault. */
  readonly retrying: number
  readonly unreported: number
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
      /** Gas that was paid for this trade in transactions that did not settle it. */
      readonly wastedGas: number
    }
  | { readonly type: 'BatchVanished'; readonly trades: number }
  | { readonly type: 'BatchReverts'; readonly trades: number; readonly why: string }
  /** The chain and a market permanently disagree about a trade. */
  | { readonly type: 'Contradiction'; readonly tradeId: TradeId; readonly what: string }
  /** A trade failed because it had not settled by its deadline. */
  | { readonly type: 'TradeOverdue'; readonly tradeId: TradeId; readonly why: string }
  | { readonly type: 'StepFailed'; readonly step: Step; readonly why: string }
  /** No trade has ended for a while although some trades are open. */
  | {
      readonly type: 'Stalled'
      readonly forMs: number
      readonly trades: number
      readonly why: string
    }
  | { readonly type: 'LagChanged'; readonly behind: boolean; readonly lagMs: number }

export type SettlementRules = {
  readonly chainId: number
  /** Maximum number of trades in one transaction. */
  readonly batchMax: number
  /** Maximum time that a trade waits for other trades to share its transaction. */
  readonly batchWaitMs: number
  /** Maximum number of transactions that are sent and in no block yet. */
  readonly inFlightMax: number
  readonly readEveryMs: number
  readonly pollEveryMs: number
  /** Maximum settlement lag. Above this lag, the chain's markets accept only cancels. 0 means no limit. */
  readonly maxLagMs: number
  /** Maximum time that a trade may stay unsettled while the chain is reachable. */
  readonly tradeDeadlineMs: number
  /** Maximum gas per trade for transactions that did not settle the trade. At this limit, the trade is not retried. */
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
  /** Reads these trades, in the order of their ids; leaves out unknown trades. */
  readonly readTrades: (tradeIds: readonly TradeId[]) => Promise<readonly TradeWithOrders[]>
  /** Computes a trade's id on the chain; called once per trade. */
  readonly keyOf: (trade: TradeWithOrders) => string
  /** Returns the notes of these trades. */
  readonly readNotes: (tradeIds: readonly TradeId[]) => Promise<readonly TradeNote[]>
  readonly saveNotes: (changes: {
    readonly notes: readonly TradeNote[]
    readonly ended: readonly TradeId[]
  }) => Promise<void>
  /** Sends a report to the market; never rejects. */
  readonly report: (marketId: MarketId, report: TradeReport) => Promise<ReportAnswer>
  /** Returns the traders whose failed fills have used up their gas budget today; omitted if there is no budget. */
  readonly barred?: () => ReadonlySet<Address>
}

/** Stage of a trade in settlement. */
export type Stage =
  /** The trade is in the queue, or in a group that is sent separately. */
  | 'queued'
  /** The trade is in a batch that is being simulated and sent. */
  | 'submitting'
  /** The trade is in a transaction that is not final. */
  | 'sent'
  /** The market of the trade is not on chain yet. */
  | 'awaitingMarket'
  /** The trade waits for a missing balance that older trades of the same trader will bring. */
  | 'awaitingOlder'
  /** The trade is confirmed or failed; its market has not acknowledged this end yet. */
  | 'ended'

/**
 * Every step that a trade may take. A trade starts as `queued`, or as `sent` if the journal has its transaction. A
 * trade is dropped once it has ended and its market has acknowledged the end.
 *
 * Each stage leads to `sent`: a reorg or a replaced transaction can put a trade back into a transaction at any time,
 * even a trade that has ended. A block may still settle a trade that its market has recorded as failed. The trade then
 * ends a second time, as confirmed, and its market answers that the trade has failed.
 */
export const STEPS: Readonly<Record<Stage, readonly Stage[]>> = {
  queued: ['submitting', 'sent', 'ended'],
  submitting: ['queued', 'sent', 'awaitingMarket', 'awaitingOlder', 'ended'],
  sent: ['queued', 'sent', 'awaitingMarket', 'ended'],
  awaitingMarket: ['queued', 'sent', 'ended'],
  awaitingOlder: ['queued', 'sent', 'ended'],
  ended: ['sent', 'ended'],
}

/** Moves a trade to another stage; the only function that does so. A step that is not in `STEPS` is a bug. */
export function moveTo(pending: Pick<PendingSettlement, 'trade' | 'stage'>, to: Stage): void {
  const { stage, trade } = pending
  assert(STEPS[stage].includes(to), `${trade.tradeId} cannot go from ${stage} to ${to}`)
  ;(pending as { stage: Stage }).stage = to
}

/** A trade whose trader lacks an amount that older trades may bring. The trade waits for these older trades. */
export type MissingBalance = {
  readonly refusal: RefusedTrade
  /** Block at which the trade was refused and the balances were read. */
  readonly block: number
  readonly sinceMs: number
  readonly sides: readonly MissingSide[]
}

/**
 * One side of a trade that waits for older trades: its balance or allowance, the amount that it needs, and the change
 * that each older trade would make.
 */
export type MissingSide = {
  readonly trader: Address
  readonly token: FundsToken | 'allowance'
  has: bigint
  readonly needs: bigint
  readonly changes: Map<TradeId, bigint>
  /** Decided trades, older or younger, whose changes are already included in `has`. */
  readonly counted: Set<TradeId>
}

/**
 * A trade that settlement follows, from the read from the database until the trade's market has acknowledged its end.
 */
export type PendingSettlement = {
  trade: TradeToSettle
  /** Stage of the trade; only `moveTo` changes it. */
  readonly stage: Stage
  /** Time at which settlement read the trade and could first send it. */
  readonly readySinceMs: number
  /**
   * Time from which the trade could settle: the time of its match or, if it was sent before a restart, the time of its
   * read from the database.
   */
  settleableSinceMs: number
  /**
   * Time from which the trade counts in the lag. A newly read trade may be unable to settle, so it counts only after
   * its first submission, or after `UNTRIED_MS`.
   */
  lagFromMs: number
  notBeforeMs: number
  /**
   * Set if a balance was too low at the last submission and older trades will bring it; undefined once the trade is
   * sent.
   */
  missing: MissingBalance | undefined
  /**
   * Set if the contract refused the trade in a block and named a side at fault. A reorg that removes the block does not
   * clear this field.
   */
  refusal: TradeRefusal | undefined
  /**
   * Number of failed attempts to settle the trade, counting only attempts in which no side was at fault. A submission
   * that could not be simulated counts only if other batches were sent since the previous failure.
   */
  retries: number
  /** Number of times that a transaction with only this trade could not be simulated. */
  submitFailures: number
  submitFailedAtMs: number
  /** The last known reason why the trade has not settled; empty if there is none. */
  trouble: string
  /**
   * Value of `chain.reachableMs` from which the trade's deadline is counted. It is the value when this process read the
   * trade, minus the reachable time that an earlier process had already counted for the trade.
   */
  reachableAtMs: number
  /** The note about this trade in the database. */
  noted: TradeNote | undefined
  /** Gas that was paid for this trade in transactions that did not settle it. */
  wastedGas: number
  /** The reports of this trade that its market has not acknowledged yet, oldest first. */
  readonly reports: TradeReport[]
  isReporting: boolean
  reportAgainMs: number
  /**
   * True if the trade's market has recorded the trade as confirmed. If a reorg undoes the confirmation, the market must
   * be notified.
   */
  isConfirmed: boolean
}

export type Ended = { readonly atMs: number; readonly matchedAtMs: number }

export type Batch = {
  readonly sender: OpenSettlement['sender']
  readonly nonce: number
  txHash: string
  tradeIds: readonly TradeId[]
  mined: boolean
  /**
   * True if the transaction is final. Once the markets have acknowledged the reports of its trades, the journal closes
   * it.
   */
  ended: boolean
  acknowledging: boolean
  /** True if a reorg removed the transaction. Nothing is sent until the markets have acknowledged the reorg. */
  vanished: boolean
  /** Failed trades of the batch, which must not settle any more. The keys are the trades' ids on the chain. */
  readonly unwanted: Map<string, TradeId>
}

export type SettlementState = {
  readonly rules: SettlementRules
  readonly ports: SettlementPorts
  readonly trades: Map<TradeId, PendingSettlement>
  readonly queue: {
    readonly tradeIds: TradeId[]
    /** Takers with queued trades, in the order in which they are served. */
    readonly turns: Set<Address>
    /**
     * Batches that are sent separately, before the queue: the halves of a batch that failed, and single trades to
     * retry.
     */
    readonly groups: TradeId[][]
  }
  /** Transactions under way. */
  readonly flight: {
    readonly batches: Map<string, Batch>
    /** Batches that a reorg removed, and whose trades settlement has not read again yet. */
    readonly vanished: OpenSettlement[]
    readonly usedPermits: Set<OrderHash>
    lastSentMs: number
  }
  /** Trades that wait for older trades. */
  readonly older: {
    readonly waiting: Set<TradeId>
    /**
     * Trades decided since the waiting trades were last checked. The value is the block that settled the trade;
     * undefined if no block settled it.
     */
    readonly decided: Map<TradeId, number | undefined>
    /** Trades that were mined during a submission. */
    readonly minedSince: Map<TradeId, { readonly trade: TradeToSettle; readonly block: number }>
  }
  readonly markets: {
    /** Markets that the chain does not know yet. The value is the time of the market's next check. */
    readonly missing: Map<MarketId, number>
    /**
     * Time until which each market was missing on the chain. No trade of the market could have settled before that
     * time.
     */
    readonly missingUntilMs: Map<MarketId, number>
  }
  /** Trades that have ended, or may have ended, while the database still has them as pending. */
  readonly history: {
    readonly ended: Map<TradeId, Ended>
    /**
     * Trades matched before this time are verified with their market: they may have ended and been forgotten, in this
     * process or before a restart.
     */
    trustedFromMs: number
    /** Trades whose market has not answered yet whether they are pending; they are neither sent nor failed. */
    readonly unverified: Set<TradeId>
    verifyingSinceMs: number
  }
  /** Ended trades whose notes must still be deleted. */
  readonly notes: { readonly ended: Set<TradeId> }
  readonly reports: {
    inFlight: number
    /** Why the last report was not acknowledged; empty if it was acknowledged. */
    unanswered: string
  }
  /** Time at which the last trade ended, and time of the last log line about a stall. */
  readonly progress: { lastMs: number; loggedMs: number }
  readonly steps: {
    /** Steps in progress, with the time of their start. */
    readonly busy: Map<Step, number>
    /** Pause of each failed step: the step is not repeated before `untilMs`. */
    readonly pauses: Map<Step, { untilMs: number; failures: number; why: string }>
  }
  /** Reads of the database. */
  readonly reads: {
    recovered: boolean
    lastMs: number
    isFull: boolean
    /**
     * `notified` counts the `TradesWritten` messages received. `notifiedBefore`: this count when the last completed
     * read began.
     */
    notified: number
    notifiedBefore: number
  }
  readonly chain: {
    lastPollMs: number
    /** Total time that the chain was reachable since the start. */
    reachableMs: number
    /** Time for which an order can still settle after its expiration; infinite until it is known. */
    graceSec: number
    /** The problem that the transaction sender reports; empty if there is none. */
    trouble: string
    /** Why the settings do not fit the contract; empty if they fit. */
    misfit: string
    /** Why no batches are sent although the chain answers; empty if there is no such reason. */
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
    progress: { lastMs: 0, loggedMs: 0 },
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
