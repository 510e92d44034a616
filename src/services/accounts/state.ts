/** Messages, events and state of accounts. */

import type {
  BlockPlace,
  ChainFunds,
  FundsChain,
  FundsStep,
  FundsToken,
  NeedsMarket,
  NeedsOrder,
  NeedsTrade,
  SettledTrade,
} from '#domain/funds.ts'
import type { Address, MarketId, OrderHash, Sequence, TradeId, Uint64 } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { Price } from '#domain/money.ts'
import type { Side } from '#domain/order.ts'
import type { RejectionCode } from '#domain/rejection.ts'
import type { AccountsRequests, ReserveOrder } from '#protocol/accounts.ts'
import type { Context, Deferred } from '#runtime/actor.ts'

export type AccountsProtocol = AccountsRequests & {
  /**
   * Compares the state with a state computed anew from `loaded` and `events`. The events begin after the checkpoints of
   * `loaded` and end with the last `Logged`. Sent only by tests.
   */
  Audit: {
    takes: { loaded: LoadedAccounts; events: readonly MarketEvent[] }
    answers: AccountsDifference[]
  }
  /** Sent by the timer: starts due work. The first `Tick` starts the load from the database. */
  Tick: { takes: object; answers: undefined }
  Loaded: { takes: { loaded: LoadedAccounts }; answers: undefined }
  LoadFailed: { takes: { why: string }; answers: undefined }
  /**
   * The next events of a partition, in order. If `caughtUpAtMs` is set, `toOffset` was the end of the log at that time,
   * and `events` may be empty.
   */
  Logged: {
    takes: {
      partition: number
      events: readonly MarketEvent[]
      toOffset: number
      caughtUpAtMs?: number
    }
    answers: undefined
  }
  Stepped: { takes: { chainId: number; step: FundsStep; begunAtMs: number }; answers: undefined }
  StepFailed: { takes: { chainId: number; why: string }; answers: undefined }
  FundsRead: {
    takes: {
      chainId: number
      epoch: number
      owners: readonly Address[]
      read: readonly ChainFunds[]
    }
    answers: undefined
  }
  FundsUnread: {
    takes: { chainId: number; epoch: number; owners: readonly Address[]; why: string }
    answers: undefined
  }
  /** Reports for each trade whether it was settled at the block `at`. */
  SettledRead: {
    takes: {
      chainId: number
      epoch: number
      at: BlockPlace
      tradeIds: readonly TradeId[]
      settled: readonly boolean[]
    }
    answers: undefined
  }
  SettledUnread: { takes: { chainId: number; epoch: number; why: string }; answers: undefined }
  /** Details of trades that a reorg reverted. */
  TradesRead: {
    takes: { tradeIds: readonly TradeId[]; trades: readonly NeedsTrade[] }
    answers: undefined
  }
  TradesUnread: { takes: { why: string }; answers: undefined }
  /** Continues to remove the orders of closed markets, which may take several steps. */
  Continue: { takes: object; answers: undefined }
}

export type AccountsStatus = {
  /** Why the service is not ready; empty if it is. */
  readonly why: string
  readonly accounts: number
  readonly orders: number
  readonly trades: number
  readonly promises: number
  readonly waiting: number
  /** Reason why orders cannot be checked on some chain at present; empty if they can be checked on all chains. */
  readonly chainWhy: string
}

export type AccountsDifference = {
  readonly what: string
  readonly kept: string
  readonly expected: string
}

/** Events from which the thread makes metrics, log lines and commands. */
export type AccountsEvent =
  /** The needs of the traders were loaded from the database. The logs must be read from the `checkpoints` on. */
  | {
      readonly type: 'CheckpointsLoaded'
      readonly checkpoints: readonly { readonly partition: number; readonly offset: number }[]
    }
  /**
   * The orders are no longer covered and must be cancelled as `unfunded`. The event is repeated until the orders are no
   * longer open.
   */
  | {
      readonly type: 'Withdrawn'
      readonly chainId: number
      readonly marketId: MarketId
      readonly trader: Address
      readonly orderHashes: readonly OrderHash[]
      /** True if the orders were emitted before. */
      readonly again: boolean
    }
  | { readonly type: 'FundsChanged'; readonly chainId: number; readonly trader: Address }
  | { readonly type: 'Refused'; readonly code: RejectionCode }
  | { readonly type: 'Trouble'; readonly what: string; readonly why: string }

/** Content of the database, read in one snapshot. */
export type LoadedAccounts = {
  /** Every partition of the log, with the last offset that the database contains. */
  readonly checkpoints: readonly { readonly partition: number; readonly offset: number }[]
  readonly markets: readonly NeedsMarket[]
  readonly orders: readonly NeedsOrder[]
  /** Matched, submitted and reverted trades. */
  readonly trades: readonly NeedsTrade[]
}

/** Functions that the accounts service needs from outside. A function that fails rejects with a `Fault`. */
export type AccountsPorts = {
  readonly load: () => Promise<LoadedAccounts>
  readonly chains: readonly FundsChain[]
  /**
   * Returns a trade's id on the chain. The id is a hash, so it is computed only when the trade is compared with data of
   * the chain.
   */
  readonly tradeKeyOf: (chainId: number, trade: NeedsTrade) => string
  /**
   * Returns for each trade whether the chain had settled it at block `at`. Used for trades that no step (poll of the
   * chain) reported.
   */
  readonly areSettled: (
    chainId: number,
    trades: readonly (NeedsTrade & { readonly tradeKey: string })[],
    at: BlockPlace,
  ) => Promise<readonly boolean[]>
  /** Returns the given trades that are in the database, in any status. */
  readonly readTrades: (tradeIds: readonly TradeId[]) => Promise<readonly NeedsTrade[]>
}

export type AccountsRules = {
  /** Returns whether this thread serves the trader. The thread ignores orders of other traders. */
  readonly isMine: (trader: Address) => boolean
  /** Time between two steps of the chain. */
  readonly stepEveryMs: number
  /**
   * Maximum age of a chain's last successful step (poll of the chain). If the step is older, requests for funds on that
   * chain are rejected.
   */
  readonly staleMs: number
  /**
   * Time within which the funds of every account in use are read from the chain again, even if no step reports a
   * change.
   */
  readonly sweepMs: number
  /**
   * After the deadline of an order's request, the order's reservation (promise) is kept for this long, because an
   * append of the order may still be in progress.
   */
  readonly graceMs: number
  /**
   * Time after the start in which no funds are granted. Orders that the previous instance of this thread granted may
   * not be in the log yet. 0 if there was no previous instance.
   */
  readonly quietMs: number
  /** Interval at which `Withdrawn` is emitted again for an uncovered order that is still in its book. */
  readonly nameAgainMs: number
  /** A closed market is remembered for this long after its last event: a reorg may revert its trades. */
  readonly closedMs: number
  /**
   * Maximum number, per chain, of unused accounts (without open orders, trades or reservations) whose funds are cached.
   */
  readonly idleMax: number
  readonly promisesMax: number
  /** Maximum number of requests that wait for funds, in total and per owner. */
  readonly waitingMax: number
  readonly waitingPerOwnerMax: number
}

/** Sums of an account’s needs for one token. */
export type Sums = {
  /**
   * Amount that open orders need. For a buy, the amount includes one extra unit for each possible fill, because the
   * cost of each fill is rounded up.
   */
  open: bigint
  /** Amount that open orders need without extra units for rounding. */
  openMin: bigint
  pending: bigint
  promised: bigint
}

/** Needs of an account for one outcome token. `held` is the balance of the token; undefined before the first read. */
export type Holding = Sums & { readonly token: FundsToken; held: bigint | undefined }

export type Account = {
  readonly trader: Address
  readonly chain: ChainAccounts
  readonly cash: Sums
  /**
   * The part of `cash` that the trader's allowance must cover. The needs of an order are left out while the stablecoin
   * would accept the order's permit.
   */
  readonly unpermitted: Sums
  /** The permits of the account's orders, by order and by nonce. */
  readonly permits: Map<OrderHash, PermitNeed>
  readonly nonces: Map<bigint, PermitNeed>
  /** The token would accept the permits with nonces from `permitsFrom` up to, but not including, `permitsEnd`. */
  permitsFrom: bigint
  permitsEnd: bigint
  readonly holdings: Map<FundsToken, Holding>
  /** Block at which the account’s balance, allowance, nonce and approval were read; -1 while unknown. */
  block: number
  balance: bigint
  allowance: bigint
  /** Next nonce of a stablecoin permit. */
  nonce: bigint
  isApproved: boolean
  /** Funds read at a block before this one are outdated. */
  wantBlock: number
  readonly orders: Set<OrderNeed>
  /**
   * Trades of the account that the chain has settled and that are still tracked. A trade is tracked until its market
   * has confirmed it, and the funds of both owners include it.
   */
  readonly settled: Set<TradeNeed>
  readonly waiting: Asker[]
  /** Number of orders, trades, promises and waiting requests that use the account; at 0 the account is idle. */
  uses: number
  reading: boolean
  /** True if the account is in the list of accounts that the current message changed. */
  changed: boolean
  /** Number of open sell orders. */
  sales: number
  /** Time of the last check that selected uncovered orders of the account for cancelling. */
  namedAtMs: number
}

/**
 * An order's permit, and the stablecoin amounts that the order, its trades and its reservation (promise)
 * need.
 */
export type PermitNeed = {
  readonly nonce: Uint64
  readonly orderHash: OrderHash
  readonly needs: Sums
  /**
   * Number of current uses of the permit: one for the order itself, one for each trade that counts as a need,
   * and one for the order's reservation (promise).
   */
  uses: number
  /**
   * True if the stablecoin would accept this permit after the permits with lower nonces. If false, the allowance must
   * cover the needs.
   */
  counts: boolean
}

export type OrderNeed = {
  readonly orderHash: OrderHash
  readonly account: Account
  readonly market: MarketNeeds
  readonly holding: Holding | undefined
  readonly side: Side
  readonly price: Price
  readonly permit: PermitNeed | undefined
  placedAtMs: number
  need: bigint
  needMin: bigint
  /** Time of the last `Withdrawn` event that named the order; 0 if no event named it. */
  namedAtMs: number
}

/** A settled trade that a step (a poll of the chain) reported, and the time of that report. */
export type ReportedTrade = SettledTrade & { readonly lastEventAtMs: number }

export type TradeNeed = {
  readonly trade: NeedsTrade
  readonly chain: ChainAccounts
  /**
   * The buyer's account; undefined if another thread serves the buyer. After the trade has ended, `buyer` and `seller`
   * are both undefined.
   */
  buyer: Account | undefined
  seller: Account | undefined
  /** The buy order's permit; undefined if it has none, or while the trade does not count as the buyer's need. */
  permit: PermitNeed | undefined
  /**
   * For a mint: the sell order's permit; undefined if it has none, or while the trade does not count as the seller's
   * need.
   */
  sellPermit: PermitNeed | undefined
  isBuyerCounted: boolean
  isSellerCounted: boolean
  /** Block in which the chain settled the trade. */
  settledBlock: number | undefined
  /** True if the market considers the trade settled. */
  confirmed: boolean
}

export type Promised = {
  readonly orderHash: OrderHash
  readonly account: Account
  readonly holding: Holding | undefined
  readonly need: bigint
  readonly permit: PermitNeed | undefined
  readonly permitValue: string | undefined
  /** Number of requests that share this reservation (promise) and have not released it. At 0, the reservation ends. */
  asked: number
  untilMs: number
}

/**
 * A request that waits until the account's funds are read. If `order` is set, the answer grants or rejects that order.
 * Otherwise, the answer is a view of the account's funds.
 */
export type Asker = {
  readonly ticket: Deferred
  readonly order: ReserveOrder | undefined
  readonly promises: boolean
  readonly deadlineAtMs: number
}

export type MarketNeeds = {
  readonly marketId: MarketId
  readonly chain: ChainAccounts
  seq: Sequence
  readonly orders: Set<OrderNeed>
  /** True after the market closed. The remaining `orders` are then removed in several steps. */
  closed: boolean
  /** Number of the market's trades in memory. */
  trades: number
  /** Time of the market's last event; before the first event, the time at which loading started. */
  lastEventAtMs: number
}

export type ChainAccounts = {
  readonly chainId: number
  readonly port: FundsChain
  readonly accounts: Map<Address, Account>
  /** Owners with an entry in `accounts`; the chain must report changes of their funds. */
  readonly watched: Set<Address>
  /** Accounts in use: with open orders, unsettled trades, promises or waiting requests. */
  readonly busy: Set<Account>
  /** Accounts that are not in use, the least recently used first. */
  readonly idle: Set<Account>
  /**
   * Accounts created after the current step (poll of the chain) began. The step may not report changes of their funds,
   * so their funds are read again after the step.
   */
  readonly unseen: Set<Account>
  readonly toRead: Set<Account>
  /**
   * Accounts of this chain with waiting requests whose read has not started. They are read before the
   * accounts in `toRead`.
   */
  readonly asked: Set<Account>
  sweeping: IterableIterator<Account> | undefined
  reads: number
  /** Number of reorgs so far. Answers of the chain that were requested before the last reorg are ignored. */
  epoch: number
  place: BlockPlace | undefined
  /**
   * Time of the first step. A step is one poll of the chain. Later steps report only trades that settle after the first
   * step, so trades that settled before it are checked one by one. If a step cannot tell what changed since the previous
   * step, it counts as a new first step.
   */
  firstSteppedMs: number
  /** True once the thread has started to check all trades that may have settled before the first step. */
  hasAskedAll: boolean
  /** Start of the last successful step. */
  steppedAtMs: number
  stepping: boolean
  nextStepMs: number
  failures: number
  trouble: string
  /** Trades whose settlement is checked after the next step. */
  readonly toAsk: Set<TradeNeed>
  /** Trades whose settlement the current check must still read from the chain. The check reads them in parts. */
  asking: TradeNeed[]
  isAsking: boolean
  /**
   * True once it is known which trades the chain has settled. It is false after the start and after a reorg. While it
   * is false, this thread grants and cancels no order on the chain.
   */
  isOpen: boolean
  /** Accounts whose funds did not cover their orders at the last check. */
  readonly short: Set<Account>
  readonly settled: Set<TradeNeed>
  /**
   * Ended trades: settled, confirmed and included in the funds of both owners. A reorg may revert these trades, so the
   * latest ones are kept, in two maps (new and old).
   */
  over: Map<TradeId, TradeNeed>
  overBefore: Map<TradeId, TradeNeed>
  /**
   * Trades that a step reported as settled before the record of their match was read from the log. The key is the
   * trade's two orders.
   */
  readonly early: Map<string, ReportedTrade[]>
}

export type AccountsState = {
  readonly ports: AccountsPorts
  readonly rules: AccountsRules
  readonly chains: Map<number, ChainAccounts>
  readonly markets: Map<MarketId, MarketNeeds>
  readonly orders: Map<OrderHash, OrderNeed>
  readonly trades: Map<TradeId, TradeNeed>
  /** Trades that have not ended, keyed by their two orders. */
  readonly pairs: Map<string, TradeNeed[]>
  readonly promises: Map<OrderHash, Promised>
  /** Hashes of recently ended orders, in two sets (new and old), because clients may send such orders again. */
  ended: Set<OrderHash>
  endedBefore: Set<OrderHash>
  /**
   * Reverted trades that are no longer in memory and whose details are being read from the database. The value is true
   * if the trade was confirmed again in the meantime.
   */
  readonly reverted: Map<TradeId, boolean>
  readingTrades: boolean
  nextTradesMs: number
  phase: 'new' | 'loading' | 'loaded'
  nextLoadMs: number
  startedAtMs: number
  /** For each partition of the log, the last time at which this thread had read the log to its end; 0 if never. */
  readonly caughtUp: Map<number, number>
  caughtUpMs: number
  /** Closed markets whose orders are not all removed yet. */
  readonly closing: MarketNeeds[]
  /** Position of the scan that removes old closed markets from memory. If undefined, it starts at the first market. */
  looking: IterableIterator<MarketNeeds> | undefined
  waiting: number
  /** Accounts on any chain that have waiting requests. */
  readonly waitedFor: Set<Account>
  /** Accounts that the current message changed. */
  readonly changed: Account[]
  /**
   * Open orders and pending sales whose needs (amounts of tokens) the current message increased. `coverChanged` checks
   * whether the owner's outcome tokens still cover these needs.
   */
  readonly grown: Pick<OrderNeed, 'account' | 'holding' | 'need'>[]
  /** Reason why the last load from the database failed; otherwise empty. */
  trouble: string
}

export type AccountsContext = Context<AccountsProtocol, AccountsEvent>
