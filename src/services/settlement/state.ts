/** What settlement hears, says and remembers. */

import type { FundsToken } from '#domain/funds.ts'
import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { FaultySide, TradeStatus, TradeToSettle, TradeWithOrders } from '#domain/trade.ts'
import type { TradeReport } from '#protocol/market.ts'
import type { SettlementRequests } from '#protocol/settlement.ts'
import type { Context } from '#runtime/actor.ts'
import type { PendingTrades } from '#store/reads/settlements.ts'
import type {
  OpenSettlement,
  SettlementLane,
  SettlementNews,
  Submission,
} from './chain/settlement-lane.ts'
import type { RefusedTrade } from './chain/settlement-trial.ts'

export type SettlementProtocol = SettlementRequests & {
  /** The thread's timer: looks whether anything is due. */
  Tick: { takes: object; answers: undefined }
  Status: { takes: object; answers: SettlementStatus }
  Recovered: {
    takes: { open: readonly RecoveredBatch[] }
    answers: undefined
  }
  /** `upTo` is how often it had been told of new trades when the read began. */
  PendingRead: { takes: PendingTrades & { upTo: number }; answers: undefined }
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
      /** True if the same request may succeed later; otherwise its content is at fault. */
      retry: boolean
      /** True if this process failed on its own data, and nothing outside. */
      unexpected: boolean
      tradeIds?: readonly TradeId[]
      batch?: string
    }
    answers: undefined
  }
}

export type RecoveredBatch = OpenSettlement & { readonly trades: readonly TradeWithOrders[] }

/** What the market said, or `unanswered` when no answer came. */
export type ReportAnswer = { readonly status: TradeStatus } | Rejection | { unanswered: string }

export type SettlementStatus = {
  readonly chainId: number
  readonly queued: number
  readonly inFlight: number
  readonly waiting: number
  /** Refused without a side at fault, and tried again. */
  readonly setBack: number
  readonly unreported: number
  /** Age of the oldest trade that has not settled, whatever it waits for. */
  readonly oldestMs: number
  readonly behind: boolean
  readonly why: string
}

/** What the thread makes metrics and log lines of, and tells the market threads. */
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
      /** Its share of the gas of transactions in which it did not settle. */
      readonly wastedGas: number
    }
  | { readonly type: 'BatchVanished'; readonly trades: number }
  | { readonly type: 'BatchReverts'; readonly trades: number; readonly why: string }
  /** The chain and a market disagree about a trade, and both have the last word. */
  | { readonly type: 'Contradiction'; readonly tradeId: TradeId; readonly what: string }
  /** A trade failed because it had not settled by its deadline. */
  | { readonly type: 'TradeOverdue'; readonly tradeId: TradeId; readonly why: string }
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
  /** How long a trade may stay unsettled while the chain can be reached. */
  readonly tradeDeadlineMs: number
  /** Gas that may be spent on refusals of one trade without a side at fault. */
  readonly retryGasMax: number
}

/** What settlement needs of the outside. */
export type SettlementPorts = {
  readonly lane: SettlementLane
  /** Pending trades with their orders, the oldest first. */
  readonly readPending: (filter: {
    readonly limit: number
    readonly exceptMarkets: readonly MarketId[]
    readonly exceptTakers: readonly Address[]
    readonly exceptTrades: readonly TradeId[]
  }) => Promise<PendingTrades>
  /** Those of them that are known, in the order in which they were asked for. */
  readonly readTrades: (tradeIds: readonly TradeId[]) => Promise<readonly TradeWithOrders[]>
  /** A trade's id on chain; computed, once per trade. */
  readonly keyOf: (trade: TradeWithOrders) => string
  /** Tells the market; resolves always. */
  readonly report: (marketId: MarketId, report: TradeReport) => Promise<ReportAnswer>
  /** Traders whose failed fills have used up today's budget; left out if there is no budget. */
  readonly barred?: () => ReadonlySet<Address>
}

export type Place =
  | 'queued'
  | 'sending'
  | 'sent'
  /** Its market is not on chain yet. */
  | 'waiting'
  /** It lacks a balance that older trades of the same trader will bring. */
  | 'owed'
  | 'ended'

/** The balance that a trade lacks until older ones have settled. */
export type Owed = {
  readonly refusal: RefusedTrade
  readonly sides: readonly OwedSide[]
}

/** One side at fault: what it has and needs of one token, and what each older trade will change. */
export type OwedSide = {
  readonly trader: Address
  readonly token: FundsToken
  has: bigint
  readonly needs: bigint
  readonly changes: Map<TradeId, bigint>
  /** Trades whose block has changed `has`. */
  readonly counted: Set<TradeId>
}

/** How a trade was decided: by a block that settled it, by what is known of one, or not settled. */
export type Decided = 'mined' | 'settled' | 'failed'

export type Held = {
  trade: TradeToSettle
  place: Place
  /** Since when it could have been sent. */
  readySinceMs: number
  /** Since when it could have settled. */
  couldSinceMs: number
  /** Until when its age does not count yet: a first try tells whether it can settle at all. */
  untriedUntilMs: number
  notBeforeMs: number
  /** The trades that it waits for in the place `owed`. */
  owed: Owed | undefined
  /** Number of times it could not settle without a side at fault while others did. */
  setbacks: number
  /** Number of times its transaction could not even be simulated. */
  failures: number
  failedAtMs: number
  /** The last known reason why it has not settled; empty if there is none. */
  trouble: string
  /** `reachableMs` when it was read. */
  readonly reachableAtMs: number
  /** Its share of the gas of transactions in which it did not settle. */
  wastedGas: number
  /** What its market is to hear, one after the other. */
  readonly reports: TradeReport[]
  /** Whether its market takes it for confirmed; then it must hear so if it is not after all. */
  confirmed: boolean
  asking: boolean
  askAgainMs: number
}

export type Ended = { readonly atMs: number; readonly matchedAtMs: number }

export type Batch = {
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
  readonly ports: SettlementPorts
  readonly held: Map<TradeId, Held>
  readonly queue: TradeId[]
  /** The takers of queued trades, in the order of their turns. */
  readonly turns: Set<Address>
  /** Batches to be sent by themselves, before the queue: the halves of one that reverts. */
  readonly groups: TradeId[][]
  readonly batches: Map<string, Batch>
  /** Trades that have ended lately: the database may not have heard yet. */
  readonly ended: Map<TradeId, Ended>
  /** What was matched before may have ended and been forgotten, here or before a restart. */
  trustedFromMs: number
  /** Whose markets have still to say what they know of them: nothing is done for them before that. */
  readonly doubted: Set<TradeId>
  /** When a market was last asked for the first time. */
  doubtedMs: number
  /** Trades in the place `owed`. */
  readonly owed: Set<TradeId>
  /** Trades that are decided, and how, for those in the place `owed`. */
  readonly decided: Map<TradeId, Decided>
  /** Markets that the chain does not know yet, and when to look again. */
  readonly unknownMarkets: Map<MarketId, number>
  /** Until when they were known to be missing: until then their trades could not have settled. */
  readonly missingUntilMs: Map<MarketId, number>
  readonly usedPermits: Set<OrderHash>
  readonly busy: Set<Step>
  /** Trades that came into a block while a submission was under way. */
  readonly minedSince: Map<TradeId, TradeToSettle>
  /** By step: not before this time, after a failure. */
  readonly pauses: Map<Step, { untilMs: number; failures: number; why: string }>
  recovered: boolean
  /** How long after its expiration an order can settle; unknown, and so endless, at first. */
  graceSec: number
  lastReadMs: number
  readFull: boolean
  /** How often it was told of new trades, and how often by the time of the last read. */
  writtenTold: number
  writtenRead: number
  lastPollMs: number
  /** Time for which the chain was reachable since the start. */
  reachableMs: number
  /** When a transaction was last sent. */
  sentAtMs: number
  headNumber: number
  reporting: number
  behind: boolean
  lagMs: number
  /** Age of the oldest trade that has not settled, whatever it waits for. */
  oldestMs: number
  /** Batches that a reorg removed, and whose trades are still to be told so. */
  readonly vanishing: OpenSettlement[]
  /** What the sender complains of; empty when it does not. */
  trouble: string
  /** What is wrong with the settings; empty when nothing is. */
  misfit: string
  /** Why batches do not go out although the chain answers; empty when they do. */
  stopped: string
}

export type SettlementContext = Context<SettlementProtocol, SettlementEvent>

export type Step = 'recover' | 'read' | 'submit' | 'poll' | 'vanished' | 'acknowledge'
