/**
 * What the indexer takes from a chain, as plain data: where it stands, what happened in a range of
 * blocks, and what it tells those who follow it. Amounts are `bigint`, hex is lower case.
 */

import type { Address, MarketId, OrderHash, Uint64 } from './ids.ts'
import type { Market } from './market.ts'
import type { Outcome } from './order.ts'
import type { FaultySide } from './trade.ts'

/** One block, by number and hash: what a reorg is recognised by. */
export type BlockMark = {
  readonly number: number
  readonly hash: string
  /** Unix seconds. */
  readonly atSec: number
}

type At = {
  readonly blockNumber: number
  readonly logIndex: number
  readonly txHash: string
  /** The block's time, Unix seconds. */
  readonly atSec: number
}

/**
 * What a contract of ours told and the exchange cannot take: it cannot be understood, says what cannot
 * be, or the database refuses it. It is written down with its transaction, and counts for nothing.
 */
export type SetAside = At & { readonly event: string; readonly why: string }

/** The price side of a quick market; prices are USD with eight decimals. */
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
  /** The ids of its outcome tokens, YES and NO. */
  readonly positions: readonly [yes: string, no: string]
  readonly quick?: QuickStart
}

/** By price; a `MarketResolved` of the same transaction follows. */
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
  /** Who paid the bond. */
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
  /** Empty when a quick market was resolved by price. */
  readonly assertionId: string
  readonly winningOutcome: Outcome
}

/** Who settled it by signature, or by calling the market himself. */
type MarketSettled = At & {
  readonly type: 'MarketSettled'
  readonly marketId: MarketId
  readonly settler: Address
  readonly winningOutcome: Outcome
}

/** What the condition pays per outcome, from here on redemptions are possible. */
type ConditionResolved = At & {
  readonly type: 'ConditionResolved'
  readonly marketId: MarketId
  readonly payouts: readonly bigint[]
}

/**
 * Why tokens moved. `trade` is a settlement's doing; `split`, `merge` and `redeem` make and burn;
 * `mint` and `burn` are those that none of these explains, by nested positions.
 */
const MOVE_KINDS = ['transfer', 'trade', 'split', 'merge', 'redeem', 'mint', 'burn'] as const
export type MoveKind = (typeof MOVE_KINDS)[number]

/** One movement of one token. A batch of the contract is several, told apart by `part`. */
export type TokensMoved = At & {
  readonly type: 'TokensMoved'
  readonly part: number
  readonly positionId: string
  /** The zero address when the tokens were made. */
  readonly from: Address
  /** The zero address when they were burnt. */
  readonly to: Address
  readonly amount: bigint
  readonly kind: MoveKind
}

export type ConversionKind = 'split' | 'merge' | 'redeem'

/** Collateral became a full set or the other way round, or tokens were redeemed. */
export type TokensConverted = At & {
  readonly type: 'TokensConverted'
  readonly kind: ConversionKind
  readonly holder: Address
  readonly marketId: MarketId
  /** Of a redemption: the payout. */
  readonly amount: bigint
  /** Of a redemption: what was redeemed, 1 for YES, 2 for NO. */
  readonly indexSets: readonly bigint[]
}

export type TradeOnChain = At & {
  readonly type: 'TradeSettled'
  /** The trade's id on chain. */
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

type TradeRefused = At & {
  readonly type: 'TradeRejected'
  readonly tradeKey: string
  readonly buyHash: OrderHash
  readonly sellHash: OrderHash
  readonly fault: FaultySide
  readonly reason: string
}

/** A trader withdrew his order on chain; trades matched before that still settle for a while. */
type OrderWithdrawn = At & {
  readonly type: 'OrderWithdrawn'
  readonly orderHash: OrderHash
  readonly trader: Address
  readonly effectiveAtSec: number
}

/** A trader withdrew all his orders with a lower nonce, those that he has yet to sign among them. */
type OrdersWithdrawn = At & {
  readonly type: 'OrdersWithdrawn'
  readonly trader: Address
  readonly beforeNonce: Uint64
  readonly effectiveAtSec: number
}

export type ChainEvent =
  | MarketCreated
  | QuickMarketResolved
  | ResolutionProposed
  | ResolutionStep
  | MarketResolved
  | MarketSettled
  | ConditionResolved
  | TokensMoved
  | TokensConverted
  | TradeOnChain
  | TradeRefused
  | OrderWithdrawn
  | OrdersWithdrawn
