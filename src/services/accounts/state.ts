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
  Status: { takes: object; answers: AccountsStatus }
  /**
   * Compares the state with a fresh load and the events after its checkpoints, up to the last `Logged`; for `npm run
   * audit`.
   */
  Audit: {
    takes: { loaded: LoadedAccounts; events: readonly MarketEvent[] }
    answers: AccountsDifference[]
  }
  /** Timer: starts due work. The first one loads. */
  Tick: { takes: object; answers: undefined }
  Loaded: { takes: { loaded: LoadedAccounts }; answers: undefined }
  LoadFailed: { takes: { why: string }; answers: undefined }
  /**
   * Events of a partition, in order, after the checkpoint in `CheckpointsLoaded`. `caughtUpAtMs` is set if `toOffset`
   * was the end of the log at that time; it is also sent without new events.
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
  /** Reports for each trade whether it was settled at that block. */
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
  /** Continues work that is too long for one turn: orders of closed markets. */
  Continue: { takes: object; answers: undefined }
}

export type AccountsStatus = {
  /** True if the logs are read to an end, so that needs are known. */
  readonly ready: boolean
  /** Why it is not ready; empty if it is. */
  readonly why: string
  readonly accounts: number
  readonly orders: number
  readonly trades: number
  readonly promises: number
  readonly waiting: number
  readonly chains: readonly {
    readonly chainId: number
    readonly blockNumber: number
    readonly steppedAtMs: number
    /** Why its funds cannot be judged now; empty if they can. */
    readonly why: string
  }[]
}

export type AccountsDifference = {
  readonly what: string
  readonly kept: string
  readonly expected: string
}

/** Events from which the thread makes metrics, log lines and commands. */
export type AccountsEvent =
  /** Needs are loaded from the database; the logs must be read from these offsets. */
  | {
      readonly type: 'CheckpointsLoaded'
      readonly checkpoints: readonly { readonly partition: number; readonly offset: number }[]
    }
  /** These orders are no longer covered and must be cancelled as `unfunded`. Repeated until they are gone. */
  | {
      readonly type: 'Withdrawn'
      readonly chainId: number
      readonly marketId: MarketId
      readonly trader: Address
      readonly orderHashes: readonly OrderHash[]
      /** True if they were emitted before. */
      readonly again: boolean
    }
  | { readonly type: 'FundsChanged'; readonly chainId: number; readonly trader: Address }
  | { readonly type: 'Refused'; readonly code: RejectionCode }
  | { readonly type: 'Trouble'; readonly what: string; readonly why: string }

/** Content of the database, in one consistent read. */
export type LoadedAccounts = {
  /** Every partition of the log, with the position of the database. */
  readonly checkpoints: readonly { readonly partition: number; readonly offset: number }[]
  readonly markets: readonly NeedsMarket[]
  readonly orders: readonly NeedsOrder[]
  /** Matched, submitted and reverted trades. */
  readonly trades: readonly NeedsTrade[]
}

/** Functions that accounts need from outside. Each promise fails with a fault. */
export type AccountsPorts = {
  readonly load: () => Promise<LoadedAccounts>
  readonly chains: readonly FundsChain[]
  /** Returns a trade's id on chain; computed for the few trades that may match a report of the chain. */
  readonly tradeKeyOf: (chainId: number, trade: NeedsTrade) => string
  /** Returns whether trades were settled at a block: for trades that no step reported. */
  readonly areSettled: (
    chainId: number,
    trades: readonly (NeedsTrade & { readonly tradeKey: string })[],
    at: BlockPlace,
  ) => Promise<readonly boolean[]>
  /** Returns the trades that the database has, in any status. */
  readonly readTrades: (tradeIds: readonly TradeId[]) => Promise<readonly NeedsTrade[]>
}

export type AccountsRules = {
  /** Returns whether this thread serves the trader; other traders' orders are skipped. */
  readonly isMine: (trader: Address) => boolean
  /** Interval of steps. */
  readonly stepEveryMs: number
  /** Nothing is granted after this long without a step. */
  readonly staleMs: number
  /** Every owner with open needs is read again within this time. */
  readonly sweepMs: number
  /** Time after its deadline in which a promise may still become an order. */
  readonly graceMs: number
  /**
   * For this long after the start nothing is granted: longer than orders granted by a predecessor can take to arrive. 0
   * if the whole exchange starts.
   */
  readonly quietMs: number
  /** A withdrawn order that is still there is emitted again after this time. */
  readonly nameAgainMs: number
  /** A closed market is remembered for this long after its last event: a reorg may revert its trades. */
  readonly closedMs: number
  /** Maximum number of idle owners (without open needs) with cached funds, per chain. */
  readonly idleMax: number
  readonly promisesMax: number
  /** Maximum number of requests that wait for funds, in total and per owner. */
  readonly waitingMax: number
  readonly waitingPerOwnerMax: number
}

/** Needs of one token. */
export type Sums = {
  /** Need of open orders, with a unit for each possible fill. */
  open: bigint
  /** Minimum need of open orders. */
  openMin: bigint
  pending: bigint
  promised: bigint
}

/** One outcome token of an account; `held` is undefined before the first read. */
export type Holding = Sums & { readonly token: FundsToken; held: bigint | undefined }

export type Account = {
  readonly trader: Address
  readonly chain: ChainAccounts
  readonly cash: Sums
  /** Part of `cash` that needs an allowance: all except the needs of orders whose permit counts. */
  readonly unpermitted: Sums
  /** Permits of its orders, and the order that holds each nonce. */
  readonly permits: Map<OrderHash, PermitNeed>
  readonly nonces: Map<bigint, PermitNeed>
  /** First nonce that counts, and the first nonce after the counting ones. */
  permitsFrom: bigint
  permitsEnd: bigint
  readonly holdings: Map<FundsToken, Holding>
  /** Block of the following values; -1 while unknown. */
  block: number
  balance: bigint
  allowance: bigint
  /** Next nonce of a stablecoin permit. */
  nonce: bigint
  isApproved: boolean
  /** True if funds of an earlier block are outdated. */
  wantBlock: number
  readonly orders: Set<OrderNeed>
  /** Trades of the account that the chain has settled and that have not ended yet. */
  readonly settled: Set<TradeNeed>
  readonly waiting: Asker[]
  /** Number of orders, trades, promises, requests and reads that hold it. */
  uses: number
  reading: boolean
  /** True if it is in the list of accounts that the current message changed. */
  changed: boolean
  /** Open orders that sell. */
  sales: number
  /** Time when its orders were last emitted for withdrawal. */
  namedAtMs: number
}

/** An order's permit, and the stablecoin that the order, its trades and its promise need. */
export type PermitNeed = {
  readonly nonce: Uint64
  readonly orderHash: OrderHash
  readonly needs: Sums
  /** Number of uses: the order, its trades and its promise. */
  uses: number
  /**
   * True while the token would accept the permit after those with lower nonces; otherwise the allowance must
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
  /** Time when it was emitted for withdrawal; 0 for never. */
  namedAtMs: number
}

/** Settled trade from a step, with its time. */
export type ReportedTrade = SettledTrade & { readonly heardAtMs: number }

export type TradeNeed = {
  readonly trade: NeedsTrade
  readonly chain: ChainAccounts
  /** Undefined for a trader of another thread, and after the trade has ended. */
  buyer: Account | undefined
  seller: Account | undefined
  /** Permit of the buy order, while the trade counts for the buyer. */
  permit: PermitNeed | undefined
  /** Permit of the sell order of a mint, while the trade counts for the seller. */
  sellPermit: PermitNeed | undefined
  isBuyerCounted: boolean
  isSellerCounted: boolean
  /** Block in which the chain settled it. */
  settledBlock: number | undefined
  /** True if its market considers it settled. */
  confirmed: boolean
}

export type Promised = {
  readonly orderHash: OrderHash
  readonly account: Account
  readonly holding: Holding | undefined
  readonly need: bigint
  readonly permit: PermitNeed | undefined
  /** Number of requests that were granted it. */
  asked: number
  untilMs: number
}

/** Request that waits for an account's funds; without an order, for its view. */
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
  /** True after the market closed; the rest of `orders` is removed in steps. */
  closed: boolean
  /** Number of its trades in memory. */
  trades: number
  /** Time of its last event, or of the load. */
  heardAtMs: number
}

export type ChainAccounts = {
  readonly chainId: number
  readonly port: FundsChain
  readonly accounts: Map<Address, Account>
  /** Owners of `accounts`; the chain must report their changes. */
  readonly watched: Set<Address>
  /** Accounts with something open, pending or promised. */
  readonly busy: Set<Account>
  /** Other accounts, the least recently used first. */
  readonly idle: Set<Account>
  /** Accounts created after the current step began; the step may not report their changes. */
  readonly unseen: Set<Account>
  readonly toRead: Set<Account>
  /** Accounts that an order waits for. */
  readonly asked: Set<Account>
  sweeping: IterableIterator<Account> | undefined
  reads: number
  /** Number of reorgs: results of requests from before a reorg are outdated. */
  epoch: number
  place: BlockPlace | undefined
  /** Time of the first step; trades that settled before it are not reported. */
  firstSteppedMs: number
  /** True if all trades that may have settled before that step are among those to check. */
  hasAskedAll: boolean
  /** Start of the last successful step. */
  steppedAtMs: number
  stepping: boolean
  nextStepMs: number
  failures: number
  trouble: string
  /** Trades whose settlement is checked after the next step. */
  readonly toAsk: Set<TradeNeed>
  /** Trades being checked, in parts. */
  asking: TradeNeed[]
  isAsking: boolean
  /** True if all trades that were pending at the start, or reverted by a reorg, have been checked. */
  isOpen: boolean
  /** Accounts that were not covered at their last check. */
  readonly short: Set<Account>
  readonly settled: Set<TradeNeed>
  /** Settled, confirmed and no longer counted: kept for a reorg, in two generations. */
  over: Map<TradeId, TradeNeed>
  overBefore: Map<TradeId, TradeNeed>
  /** Settled trades whose match has not been read yet, keyed by their two orders. */
  readonly early: Map<string, ReportedTrade[]>
}

export type AccountsState = {
  readonly ports: AccountsPorts
  readonly rules: AccountsRules
  readonly chains: Map<number, ChainAccounts>
  readonly markets: Map<MarketId, MarketNeeds>
  readonly orders: Map<OrderHash, OrderNeed>
  readonly trades: Map<TradeId, TradeNeed>
  /** Pending trades by their two orders. */
  readonly pairs: Map<string, TradeNeed[]>
  readonly promises: Map<OrderHash, Promised>
  /** Recently ended orders, in two generations: they may be sent again. */
  ended: Set<OrderHash>
  endedBefore: Set<OrderHash>
  /** Reverted trades while their details are read; true if confirmed again since. */
  readonly reverted: Map<TradeId, boolean>
  readingTrades: boolean
  nextTradesMs: number
  phase: 'new' | 'loading' | 'loaded'
  nextLoadMs: number
  startedAtMs: number
  /** By partition: the latest time at which its end was reached; 0 for never. */
  readonly caughtUp: Map<number, number>
  caughtUpMs: number
  /** Closed markets with orders that still count. */
  readonly closing: MarketNeeds[]
  /** Position of the search for ended markets; undefined when it starts over. */
  looking: IterableIterator<MarketNeeds> | undefined
  waiting: number
  /** Accounts that an order waits for. */
  readonly waitedFor: Set<Account>
  /** Accounts that the current message changed. */
  readonly changed: Account[]
  /** Orders that the current message opened or increased, and new pending sales. */
  readonly grown: Pick<OrderNeed, 'account' | 'holding' | 'need'>[]
  /** Why the last load failed; empty if it did not. */
  trouble: string
}

export type AccountsContext = Context<AccountsProtocol, AccountsEvent>
