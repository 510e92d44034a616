/**
 * Funds that orders and trades need, and funds that traders have on a chain. A need is the amount of one token that an
 * order or trade takes. A buy takes the stablecoin. A sell takes the token of its outcome. Sums are `bigint`.
 *
 * Each fill of a buy costs price × size, rounded up. So each fill may cost up to one unit (a millionth of a dollar)
 * more than its price × size. On arrival, an order matches at most `MAKERS_PER_ORDER_MAX` resting orders. So the need
 * of an order includes one unit for each of these fills. While the order rests in the book, an attacker could give it
 * even more fills, each of a millionth of a share. The need ignores these fills, because each one costs the attacker
 * money and must settle. A share costs less than a dollar, so the need of a buy is at most its size.
 *
 * Worked example: BUY 10 shares at 0.42 needs 4,200,000 + 10,000 = 4,210,000 units. BUY 3 millionths of a share at any
 * price needs 3 units. SELL 10 shares needs 10 shares.
 */

import type { Address, MarketId, OrderHash, Uint64 } from './ids.ts'
import { MAKERS_PER_ORDER_MAX } from './limits.ts'
import { costCeil, type Price, type Shares } from './money.ts'
import { BUY, type Outcome, type Side } from './order.ts'
import type { Trade } from './trade.ts'

export const STABLECOIN = 'stablecoin'

/** The stablecoin of a chain, or the token of an outcome of a market on the chain. */
export type FundsToken = typeof STABLECOIN | `${MarketId}/${Outcome}`

export function outcomeToken(marketId: MarketId, outcome: Outcome): FundsToken {
  return `${marketId}/${outcome}`
}

type Needy = { readonly side: Side; readonly price: Price }

/**
 * Returns the largest amount of the token that an order with the open size `remaining` can take in up to
 * `MAKERS_PER_ORDER_MAX` fills.
 */
export function needOf({ side, price }: Needy, remaining: Shares): number {
  if (side !== BUY) return remaining
  return Math.min(remaining, costCeil(price, remaining) + MAKERS_PER_ORDER_MAX)
}

/**
 * Returns the smallest amount of the token that an order or trade can take: the amount for a single fill of the whole
 * size. A trade is always a single fill.
 */
export function needMinOf({ side, price }: Needy, remaining: Shares): number {
  return side === BUY ? costCeil(price, remaining) : remaining
}

/** A market whose orders and trades need funds; a closed market has only trades. */
export type NeedsMarket = {
  readonly marketId: MarketId
  readonly chainId: number
  readonly closed: boolean
}

/** The fields of an open order that determine the token and the amount that the order needs. */
export type NeedsOrder = {
  readonly orderHash: OrderHash
  readonly marketId: MarketId
  readonly trader: Address
  readonly side: Side
  readonly outcome: Outcome
  readonly price: Price
  readonly remaining: Shares
  /** Nonce of the order's permit. */
  readonly permit: Uint64 | undefined
  readonly placedAtMs: number
}

/** The fields of a trade that determine the amounts that the trade needs. */
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
  | 'kind'
> & {
  /** Nonce of the permit of the trade's buy order. */
  readonly permit: Uint64 | undefined
  /** Nonce of the permit of the trade's sell order; only for a mint, in which the seller pays too. */
  readonly sellPermit?: Uint64 | undefined
  /** True if the trade was already submitted when it was read. The chain may have settled it since then. */
  readonly sent?: boolean
}

/** A block by number and hash. The hash ensures that balances are read at exactly this block. */
export type BlockPlace = { readonly block: number; readonly blockHash: string }

/** An owner's funds at a block. */
export type ChainFunds = {
  readonly owner: Address
  readonly block: number
  /** Balance of the stablecoin. `allowance` is the stablecoin allowance of the settlement contract. */
  readonly balance: bigint
  readonly allowance: bigint
  /** Next nonce of a stablecoin permit. */
  readonly nonce: bigint
  /** True if the settlement contract may move the owner's outcome tokens. */
  readonly isApproved: boolean
  /** Balances of the requested outcome tokens. */
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

/** The newest block of a chain, and the changes since the last step. */
export type FundsStep = BlockPlace & {
  /** Every trade that settled in these blocks, of all owners. */
  readonly settled: readonly SettledTrade[]
  /** Watched owners whose funds may have changed. */
  readonly touched: readonly Address[]
  /**
   * Set after a reorg: data that was read at this block or at a later block is invalid. 0 means that the changes since
   * the last step are unknown. The caller must then treat this step as its first.
   */
  readonly rewoundTo?: number
}

/** Interface for funds on a chain. Each method throws a fault if the chain cannot be read. */
export type FundsChain = {
  readonly chainId: number
  /**
   * Returns the newest block and the changes since the last call; the first call returns only the block. Do not call
   * `step` before the previous call has resolved. A call does not report an owner who was added to `watched` during the
   * call. If that owner's funds were read at an earlier block than the returned one, read them again.
   */
  step(watched: ReadonlySet<Address>): Promise<FundsStep>
  /**
   * Returns the funds of owners at the block of a step, in the order of `questions`. The fault `CHAIN_BLOCK_GONE` means
   * that a reorg replaced the block, or that the Ethereum node does not have it yet. In both cases, retry with the
   * block of the next step.
   */
  read(questions: readonly FundsQuestion[], at: BlockPlace): Promise<ChainFunds[]>
}
