/**
 * What orders and trades need of their traders, and what a chain says that traders have. A need is of
 * one token: the stablecoin for a buy, the token of its outcome for a sell. Sums are `bigint`.
 *
 * Each fill of a buy costs price × size rounded up, so that an order with many fills costs more than its
 * price × size: up to one unit (a millionth of a dollar) for each fill. An order meets at most
 * `MAKERS_PER_ORDER_MAX` others when it arrives. One that rests may meet more, a unit of shares at a
 * time, but those who do that pay for nothing but the harm, and each of them must be settled; the same
 * number is taken for all of its fills. No fill costs more than its size, because a share costs less than
 * a dollar: so no order does.
 *
 * Worked example: BUY 10 shares at 0.42 needs 4.20 and 10,000 units: 4,210,000. BUY 3 units at any price
 * needs 3. SELL 10 shares needs 10 shares.
 */

import type { Address, MarketId, OrderHash, Uint64 } from './ids.ts'
import { MAKERS_PER_ORDER_MAX } from './limits.ts'
import { costCeil, type Price, type Shares } from './money.ts'
import { BUY, type Outcome, type Side } from './order.ts'
import type { Trade } from './trade.ts'

export const STABLECOIN = 'stablecoin'

/** The stablecoin of a chain, or the token of an outcome of a market there. */
export type FundsToken = typeof STABLECOIN | `${MarketId}/${Outcome}`

export function outcomeToken(marketId: MarketId, outcome: Outcome): FundsToken {
  return `${marketId}/${outcome}`
}

type Needy = { readonly side: Side; readonly price: Price }

/** What an order needs of its token while so much of it is open, however many fills it will have. */
export function needOf({ side, price }: Needy, remaining: Shares): number {
  if (side !== BUY) return remaining
  return Math.min(remaining, costCeil(price, remaining) + MAKERS_PER_ORDER_MAX)
}

/** What it needs at least: if one fill takes all of it. A trade needs this too. */
export function needMinOf({ side, price }: Needy, remaining: Shares): number {
  return side === BUY ? costCeil(price, remaining) : remaining
}

/** A market whose orders and trades need something; a closed one has trades only. */
export type NeedsMarket = {
  readonly marketId: MarketId
  readonly chainId: number
  readonly closed: boolean
}

/** An open order, as far as its need goes. */
export type NeedsOrder = {
  readonly orderHash: OrderHash
  readonly marketId: MarketId
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  readonly remaining: Shares
  /** The nonce of the permit that it travels with. */
  readonly permit: Uint64 | undefined
  readonly placedAtMs: number
}

/** A trade, as far as its needs go. */
export type NeedsTrade = Pick<
  Trade,
  | 'tradeId'
  | 'marketId'
  | 'outcome'
  | 'price'
  | 'size'
  | 'buyer'
  | 'seller'
  | 'buyOrderHash'
  | 'sellOrderHash'
> & {
  /** The nonce of the permit that its buy order travels with. */
  readonly permit: Uint64 | undefined
  /** Whether it was sent when it was read: then the chain may have settled it. */
  readonly sent?: boolean
}

/** A block by number and hash, so that a reader asks for that very block. */
export type BlockPlace = { readonly block: number; readonly blockHash: string }

/** What a chain says of an owner at a block. */
export type ChainFunds = {
  readonly owner: Address
  readonly block: number
  /** Stablecoin, and how much of it the settlement contract may take. */
  readonly balance: bigint
  readonly allowance: bigint
  /** Next nonce of a stablecoin permit. */
  readonly nonce: bigint
  /** Whether the settlement contract may move the owner's outcome tokens. */
  readonly isApproved: boolean
  /** Of the outcome tokens that were asked for. */
  readonly tokens: ReadonlyMap<FundsToken, bigint>
}

export type FundsQuestion = { readonly owner: Address; readonly tokens: readonly FundsToken[] }

/** A trade that a chain has settled. */
export type SettledTrade = {
  readonly tradeKey: string
  readonly block: number
  readonly buyer: Address
  readonly seller: Address
  readonly buyOrderHash: OrderHash
  readonly sellOrderHash: OrderHash
}

/** What happened on a chain between two looks at it. */
export type FundsStep = BlockPlace & {
  /** Every trade of these blocks, whichever owners are watched. */
  readonly settled: readonly SettledTrade[]
  /** Owners among the watched whose funds may have changed. */
  readonly touched: readonly Address[]
  /**
   * Set when blocks were replaced: whatever was read at this block or later is void. 0 when it is not known
   * what happened since the last step: it is as if this one were the first.
   */
  readonly rewoundTo?: number
}

/** How a chain is asked about funds. Each throws a fault when the chain cannot be read. */
export type FundsChain = {
  readonly chainId: number
  /**
   * The newest block, and what has happened up to it since the last step; the first has only the block. One
   * at a time. Who comes to be watched while it runs is not told of, so a read of him at an earlier block is
   * to be done again.
   */
  step(watched: ReadonlySet<Address>): Promise<FundsStep>
  /**
   * Funds of owners at a block of a step, in the order of the questions. The fault `CHAIN_BLOCK_GONE` says
   * that the block was replaced, or is not on this node yet: the next step has another.
   */
  read(questions: readonly FundsQuestion[], at: BlockPlace): Promise<ChainFunds[]>
}
