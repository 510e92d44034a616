/**
 * Data of the indexer: its position on a chain, the events of a range of blocks, and the updates that it publishes.
 * Amounts are `bigint`, hex is lower case.
 */

import type { Delegation } from './delegate.ts'
import type { EventInfo } from './event-info.ts'
import type { Address, MarketId, OrderHash, Uint64 } from './ids.ts'
import type { Market } from './market.ts'
import type { Outcome } from './order.ts'
import type { FaultySide } from './trade.ts'

/** A block by number and hash; reorgs are detected by the hash. */
export type BlockMark = {
  readonly number: number
  readonly hash: string
  /** Unix seconds. */
  readonly atSec: number
}

/** Block, transaction and position of an event on the chain. */
export type At = {
  readonly blockNumber: number
  readonly logIndex: number
  readonly txHash: string
  /** The block's time in Unix seconds. */
  readonly atSec: number
}

/** An event of the chain that was not indexed, because it could not be decoded or stored. `why` is the reason. */
export type SetAside = At & { readonly event: string; readonly why: string }

/** Price terms of a quick market; prices are USD with eight decimals. */
type QuickStart = {
  readonly asset: string
  readonly startSec: number
  readonly endSec: number
  readonly startPrice: bigint
  readonly source: string
}

export type MarketCreated = At & {
  readonly type: 'MarketCreated'
  readonly market: Market
  /** Ids of the market's outcome tokens, YES and NO. */
  readonly positions: readonly [yes: string, no: string]
  readonly quick?: QuickStart
}

/**
 * A market was added to an event (a group of markets). The market's `MarketCreated` comes earlier in the same
 * transaction.
 */
export type EventMarketCreated = At & {
  readonly type: 'EventMarketCreated'
  readonly marketId: MarketId
  /** Hash of the event's metadata, which the contract stores. */
  readonly eventHash: string
  /** Operator who signed the metadata for this market. The contract has checked the signature. */
  readonly signer: Address
  readonly info: EventInfo
}

/** A quick market was resolved by price. The market's `MarketResolved` follows in the same transaction. */
type QuickMarketResolved = At & {
  readonly type: 'QuickMarketResolved'
  readonly marketId: MarketId
  readonly winningOutcome: Outcome
  readonly startPrice: bigint
  readonly endPrice: bigint
  readonly source: string
}

export type ResolutionProposed = At & {
  readonly type: 'ResolutionProposed'
  readonly marketId: MarketId
  readonly assertionId: string
  readonly proposer: Address
  /** Account that paid the bond. */
  readonly asserter: Address
  readonly outcome: Outcome
  readonly bond: bigint
  readonly assertedAtSec: number
  readonly windowEndsAtSec: number
}

type ResolutionStep = At & {
  readonly type: 'ResolutionDisputed' | 'ResolutionOverturned' | 'ResolutionAbandoned'
  readonly marketId: MarketId
  readonly assertionId: string
}

type MarketResolved = At & {
  readonly type: 'MarketResolved'
  readonly marketId: MarketId
  /** Id of the assertion; empty if a quick market was resolved by price. */
  readonly assertionId: string
  readonly winningOutcome: Outcome
}

/**
 * An account settled the market. It either called the market, or signed a settlement that another account submitted.
 */
type MarketSettled = At & {
  readonly type: 'MarketSettled'
  readonly marketId: MarketId
  readonly settler: Address
  readonly winningOutcome: Outcome
}

/** The market's payouts per outcome were reported to the token contract; redemptions are possible from now on. */
type ConditionResolved = At & {
  readonly type: 'ConditionResolved'
  readonly marketId: MarketId
  readonly payouts: readonly bigint[]
}

/**
 * Cause of a token movement. `trade`: the settlement contract moved the tokens. `split` mints tokens; `merge` and
 * `redeem` burn them. `mint` and `burn`: tokens were created or removed in any other way. This happens only for nested
 * positions, whose collateral is another outcome token.
 */
const MOVE_KINDS = ['transfer', 'trade', 'split', 'merge', 'redeem', 'mint', 'burn'] as const
export type MoveKind = (typeof MOVE_KINDS)[number]

/** One movement of one token. A batch transfer of the contract consists of several movements, numbered by `part`. */
export type TokensMoved = At & {
  readonly type: 'TokensMoved'
  readonly part: number
  readonly positionId: string
  /** Sender of the tokens; the zero address if the tokens were minted. */
  readonly from: Address
  /** Receiver of the tokens; the zero address if the tokens were burnt. */
  readonly to: Address
  readonly amount: bigint
  readonly kind: MoveKind
}

export type ConversionKind = 'split' | 'merge' | 'redeem'

/** A split or merge of complete sets, or a redemption. */
export type TokensConverted = At & {
  readonly type: 'TokensConverted'
  readonly kind: ConversionKind
  /**
   * Account whose tokens were split, merged or redeemed. If the settlement contract split or merged them for two
   * traders, this is the zero address.
   */
  readonly holder: Address
  readonly marketId: MarketId
  /** Amount that was split or merged; for a redemption, the payout. */
  readonly amount: bigint
  /** The converted outcomes, each as its index set: 1 for YES, 2 for NO. */
  readonly indexSets: readonly bigint[]
}

/** Events of the settlement contract that the indexer records, without their place on the chain. */
export type SettlementChainEvent =
  | {
      readonly type: 'TradeSettled'
      /** Id of the trade on chain. */
      readonly tradeKey: string
      readonly marketId: MarketId
      readonly buyer: Address
      readonly seller: Address
      readonly buyHash: OrderHash
      readonly sellHash: OrderHash
      readonly outcome: Outcome
      readonly price: number
      readonly size: bigint
      readonly cost: bigint
    }
  | {
      readonly type: 'TradeRejected'
      readonly tradeKey: string
      readonly buyHash: OrderHash
      readonly sellHash: OrderHash
      readonly fault: FaultySide
      readonly reason: string
    }
  /**
   * A trader cancelled an order on the chain. Until `effectiveAtSec`, the contract still settles the order's trades
   * that were matched before.
   */
  | {
      readonly type: 'OrderWithdrawn'
      readonly orderHash: OrderHash
      readonly trader: Address
      readonly effectiveAtSec: number
    }
  /**
   * A trader cancelled on chain all orders with a nonce below `beforeNonce`, including orders that are placed
   * after the cancel.
   */
  | {
      readonly type: 'OrdersWithdrawn'
      readonly trader: Address
      readonly beforeNonce: Uint64
      readonly effectiveAtSec: number
    }

export type TradeOnChain = At & SettlementChainEvent & { readonly type: 'TradeSettled' }

/** An account appointed a key that may sign its orders, changed the limits of the key, or revoked the key. */
type DelegateSet = At & Delegation & { readonly type: 'DelegateSet' }

export type ChainEvent =
  | MarketCreated
  | EventMarketCreated
  | QuickMarketResolved
  | ResolutionProposed
  | ResolutionStep
  | MarketResolved
  | MarketSettled
  | ConditionResolved
  | TokensMoved
  | TokensConverted
  | (At & SettlementChainEvent)
  | DelegateSet
