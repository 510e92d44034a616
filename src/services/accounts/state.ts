/** What accounts hear, say and remember. */

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
   * What is kept against a fresh load, and the events behind its checkpoints up to what was given to
   * `Logged`; for `npm run audit` and the like.
   */
  Audit: {
    takes: { loaded: LoadedAccounts; events: readonly MarketEvent[] }
    answers: AccountsDifference[]
  }
  /** The thread's timer: looks whether anything is due. The first one loads. */
  Tick: { takes: object; answers: undefined }
  Loaded: { takes: { loaded: LoadedAccounts }; answers: undefined }
  LoadFailed: { takes: { why: string }; answers: undefined }
  /**
   * Events of a partition, in their order, from the checkpoint on that `CheckpointsLoaded` named.
   * `caughtUpAtMs` is there when `toOffset` was the end of the log at that time; it is told now and
   * then also when nothing is new.
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
  /** Whether each of the trades was settled at that block. */
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
  /** Details of trades that a reorg took back. */
  TradesRead: {
    takes: { tradeIds: readonly TradeId[]; trades: readonly NeedsTrade[] }
    answers: undefined
  }
  TradesUnread: { takes: { why: string }; answers: undefined }
  /** Goes on with what is too much for one turn: the orders of markets that have closed. */
  Continue: { takes: object; answers: undefined }
}

export type AccountsStatus = {
  /** Whether the logs have been read up to an end, so that needs are known. */
  readonly ready: boolean
  /** Why not; empty when it is. */
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
    /** Why its funds cannot be judged now; empty when they can. */
    readonly why: string
  }[]
}

export type AccountsDifference = {
  readonly what: string
  readonly kept: string
  readonly expected: string
}

/** What the thread makes metrics, log lines and commands of. */
export type AccountsEvent =
  /** Needs are as the database has them; the logs are to be read from behind these offsets. */
  | {
      readonly type: 'CheckpointsLoaded'
      readonly checkpoints: readonly { readonly partition: number; readonly offset: number }[]
    }
  /** These orders are not covered any more: to be cancelled as `unfunded`. Said again until they go. */
  | {
      readonly type: 'Withdrawn'
      readonly chainId: number
      readonly marketId: MarketId
      readonly trader: Address
      readonly orderHashes: readonly OrderHash[]
      /** Whether they have been named before. */
      readonly again: boolean
    }
  | { readonly type: 'FundsChanged'; readonly chainId: number; readonly trader: Address }
  | { readonly type: 'Refused'; readonly code: RejectionCode }
  | { readonly type: 'Trouble'; readonly what: string; readonly why: string }

/** What the database says, in one consistent read. */
export type LoadedAccounts = {
  /** Every partition of the log, and how far the database has come with it. */
  readonly checkpoints: readonly { readonly partition: number; readonly offset: number }[]
  readonly markets: readonly NeedsMarket[]
  readonly orders: readonly NeedsOrder[]
  /** Those that are matched, submitted or reverted. */
  readonly trades: readonly NeedsTrade[]
}

/** What accounts need of the outside. Each promise fails with a fault. */
export type AccountsPorts = {
  readonly load: () => Promise<LoadedAccounts>
  readonly chains: readonly FundsChain[]
  /** A trade's id on chain; computed, for the few that may be the one that a chain tells of. */
  readonly tradeKeyOf: (chainId: number, trade: NeedsTrade) => string
  /** Whether trades were settled at a block: for those whose settling no step has told. */
  readonly areSettled: (
    chainId: number,
    trades: readonly (NeedsTrade & { readonly tradeKey: string })[],
    at: BlockPlace,
  ) => Promise<readonly boolean[]>
  /** Those of the trades that the database has, whatever has become of them. */
  readonly readTrades: (tradeIds: readonly TradeId[]) => Promise<readonly NeedsTrade[]>
}

export type AccountsRules = {
  /** Whose accounts these are; the others' orders are passed over. */
  readonly isMine: (trader: Address) => boolean
  /** How often a chain is asked what has happened. */
  readonly stepEveryMs: number
  /** After how long without a step nothing is granted. */
  readonly staleMs: number
  /** Within how long all owners with something open are read again. */
  readonly sweepMs: number
  /** How long after its deadline a promise may still become an order. */
  readonly graceMs: number
  /**
   * How long after the start nothing is granted: longer than an order can be under way that another
   * of these, now gone, has granted. 0 when the whole exchange starts.
   */
  readonly quietMs: number
  /** After how long an order that was withdrawn and is still there is named again. */
  readonly nameAgainMs: number
  /** How long after its last event a closed market is kept in mind: a reorg may take its trades back. */
  readonly closedMs: number
  /** Owners without anything open whose funds are kept in mind, per chain. */
  readonly idleMax: number
  readonly promisesMax: number
  /** Callers who wait for funds to be read, in all and for one owner. */
  readonly waitingMax: number
  readonly waitingPerOwnerMax: number
}

/** Needs of one token. */
export type Sums = {
  /** Of open orders, with a unit for each fill that they can have. */
  open: bigint
  /** Of open orders at least. */
  openMin: bigint
  pending: bigint
  promised: bigint
}

/** One outcome token of an account; `held` is undefined while the chain has not been asked. */
export type Holding = Sums & { readonly token: FundsToken; held: bigint | undefined }

export type Account = {
  readonly trader: Address
  readonly chain: ChainAccounts
  readonly cash: Sums
  /** The part of `cash` that needs an allowance: all but the needs of orders whose permit counts. */
  readonly unpermitted: Sums
  /** The permits of its orders, and which of them holds a nonce. */
  readonly permits: Map<OrderHash, PermitNeed>
  readonly nonces: Map<bigint, PermitNeed>
  /** The first nonce that counts, and the first after those that count. */
  permitsFrom: bigint
  permitsEnd: bigint
  readonly holdings: Map<FundsToken, Holding>
  /** The block of what follows; -1 while nothing is known. */
  block: number
  balance: bigint
  allowance: bigint
  /** The next nonce of a permit of the stablecoin. */
  nonce: bigint
  isApproved: boolean
  /** Funds of an earlier block are not believed any more. */
  wantBlock: number
  readonly orders: Set<OrderNeed>
  /** Its trades that the chain has settled and that are not over yet. */
  readonly settled: Set<TradeNeed>
  readonly waiting: Asker[]
  /** Orders, trades, promises, askers and reads that hold it. */
  uses: number
  reading: boolean
  /** Whether it is in the list of those that were changed by the message under way. */
  changed: boolean
  /** Open orders that sell. */
  sales: number
  /** When orders of it were last named to be withdrawn. */
  namedAtMs: number
}

/** An order's permit, and the stablecoin that the order, its trades and its promise need. */
export type PermitNeed = {
  readonly nonce: Uint64
  readonly orderHash: OrderHash
  readonly needs: Sums
  /** Number of uses: the order, its trades and its promise. */
  uses: number
  /** True while the token would accept it in its turn; otherwise the allowance must cover the needs. */
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
  /** When it was named to be withdrawn; 0 for never. */
  namedAtMs: number
}

/** A trade that a step told of, and when. */
export type HeardTrade = SettledTrade & { readonly heardAtMs: number }

export type TradeNeed = {
  readonly trade: NeedsTrade
  readonly chain: ChainAccounts
  /** Undefined for a side that is not ours, and once the trade is over. */
  buyer: Account | undefined
  seller: Account | undefined
  /** The permit of the buy order, while the trade is counted for the buyer. */
  permit: PermitNeed | undefined
  isBuyerCounted: boolean
  isSellerCounted: boolean
  /** The block in which the chain settled it. */
  settledBlock: number | undefined
  /** Whether its market takes it for settled. */
  confirmed: boolean
}

export type Promised = {
  readonly orderHash: OrderHash
  readonly account: Account
  readonly holding: Holding | undefined
  readonly need: bigint
  readonly permit: PermitNeed | undefined
  /** How many askers were granted it. */
  asked: number
  untilMs: number
}

/** Who waits for an account's funds to be read; without an order, for its view. */
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
  /** It has closed; what is left of `orders` goes in steps. */
  closed: boolean
  /** How many of its trades are held. */
  trades: number
  /** When its last event was; of one that was loaded, when that was. */
  heardAtMs: number
}

export type ChainAccounts = {
  readonly chainId: number
  readonly port: FundsChain
  readonly accounts: Map<Address, Account>
  /** The owners of `accounts`: those whose changes the chain is to tell. */
  readonly watched: Set<Address>
  /** Those with something open, pending or promised. */
  readonly busy: Set<Account>
  /** The others, the least recently used first. */
  readonly idle: Set<Account>
  /** Accounts that are newer than the step under way: it may not have told of them. */
  readonly unseen: Set<Account>
  readonly toRead: Set<Account>
  /** Those that an order waits for. */
  readonly asked: Set<Account>
  sweeping: IterableIterator<Account> | undefined
  reads: number
  /** Counts the reorgs: what was asked before one is not believed. */
  epoch: number
  place: BlockPlace | undefined
  /** When the first step had been made; what is settled before it no step tells. */
  firstSteppedMs: number
  /** Whether all trades that may have settled before it are among those to ask about. */
  hasAskedAll: boolean
  /** When the last step began that succeeded. */
  steppedAtMs: number
  stepping: boolean
  nextStepMs: number
  failures: number
  trouble: string
  /** Trades of which it is to be asked after the next step whether they are settled. */
  readonly toAsk: Set<TradeNeed>
  /** Those of them that are being asked about, a part at a time. */
  asking: TradeNeed[]
  isAsking: boolean
  /** Whether all that were pending at the start, or were voided by a reorg, have been asked about. */
  isOpen: boolean
  /** Accounts that were not covered when they were last looked at. */
  readonly short: Set<Account>
  readonly settled: Set<TradeNeed>
  /** Settled, confirmed and counted no more: kept for a reorg, in two generations. */
  over: Map<TradeId, TradeNeed>
  overBefore: Map<TradeId, TradeNeed>
  /** Settled trades whose match has not been read yet, by their two orders. */
  readonly early: Map<string, HeardTrade[]>
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
  /** Orders that have ended lately, in two generations: they may be sent again. */
  ended: Set<OrderHash>
  endedBefore: Set<OrderHash>
  /** Trades that a reorg took back and whose details are being read; whether confirmed again since. */
  readonly reverted: Map<TradeId, boolean>
  readingTrades: boolean
  nextTradesMs: number
  phase: 'new' | 'loading' | 'loaded'
  nextLoadMs: number
  startedAtMs: number
  /** By partition: the latest time at which its end had been reached; 0 for never. */
  readonly caughtUp: Map<number, number>
  caughtUpMs: number
  /** Markets that have closed, and whose orders are still counted. */
  readonly closing: MarketNeeds[]
  /** Where the look for markets that are over stands; undefined when it begins anew. */
  looking: IterableIterator<MarketNeeds> | undefined
  waiting: number
  /** Accounts that an order waits for. */
  readonly waitedFor: Set<Account>
  /** Accounts that the message under way has changed. */
  readonly changed: Account[]
  /** Orders that it has opened, or let grow, and sales that are pending from now on. */
  readonly grown: Pick<OrderNeed, 'account' | 'holding' | 'need'>[]
  /** Why the last load failed; empty when it did not. */
  trouble: string
}

export type AccountsContext = Context<AccountsProtocol, AccountsEvent>
