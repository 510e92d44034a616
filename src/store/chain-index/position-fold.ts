/**
 * Computes a holder's shares of a market, their cost, and the realised profit. Shares follow the chain's token
 * movements in chain order. Cost follows trades: a buy adds its price. When shares leave (by sale, transfer, merge or
 * redemption), their proportion of the cost leaves with them. In a split, the shares of each outcome cost half of the
 * collateral. Shares received in a transfer cost nothing. All amounts are integers, and no cost remains when the last
 * share is gone.
 *
 * The realised profit is the proceeds of shares that left, minus their cost. Proceeds are the price of a sale, the
 * collateral of a merge or redemption, and zero for a transfer. So profit is always all money out of the market, minus
 * all money in, plus the cost of the shares still held. A rounding difference in the cost of one sale stays in the cost
 * of the next, so nothing is lost.
 *
 * Example: Ann buys 4 YES for 2.20 and 2 YES for 1.40, so 6 shares cost 3.60. She sells 1 for 0.75. Its cost of 3.60 ×
 * 1/6 = 0.60 leaves; 5 shares remain with a cost of 3.00, and her profit is 0.15. YES loses, and she redeems the 5
 * shares for nothing. Her profit is 0.15 − 3.00 = −2.85, which is 0.75 − 2.20 − 1.40.
 */

import type { ConversionKind, MoveKind } from '#domain/chain-event.ts'
import { type Address, ZERO_ADDRESS } from '#domain/ids.ts'
import { halvesCeil, proportionFloor } from '#domain/money.ts'
import { type Outcome, YES } from '#domain/order.ts'

/** Shares of one outcome and their cost, both with six decimals. */
export type Holding = { shares: bigint; cost: bigint }

/** A holder's shares of both outcomes of a market. `profit` covers both outcomes together. */
export type Stake = { readonly sides: readonly [yes: Holding, no: Holding]; profit: bigint }

/** The fields of a token movement from which positions are computed. */
export type Move = {
  readonly outcome: Outcome
  readonly from: Address
  readonly to: Address
  readonly amount: bigint
  readonly kind: MoveKind
  readonly txHash: string
  readonly logIndex: number
}

/** A trade that the settlement contract settled. */
export type SettledTrade = {
  readonly txHash: string
  readonly logIndex: number
  readonly buyer: Address
  readonly seller: Address
  readonly outcome: Outcome
  readonly size: bigint
  readonly cost: bigint
}

function receive(holding: Holding, amount: bigint, cost: bigint): void {
  holding.shares += amount
  holding.cost += cost
}

/** Removes shares from a holding, and returns the part of the cost that leaves with them. */
function give(holding: Holding, amount: bigint): bigint {
  const { shares, cost } = holding
  // On the chain, no holder can send more shares than it has. So a position can have too few shares only if `correct`
  // has lowered its shares before.
  const part = amount < shares ? amount : shares
  holding.shares -= part
  const left = holding.shares === 0n ? cost : proportionFloor(cost, part, shares)
  holding.cost -= left
  return left
}

/** Sets the number of shares. If the number falls, the removed shares take their part of the cost with them. */
export function correct(holding: Holding, shares: bigint): void {
  if (shares < holding.shares) give(holding, holding.shares - shares)
  else holding.shares = shares
}

/** Applies one movement. `stakeOf` returns the holder's stake in the market. */
export function applyMove(
  move: Move,
  costOf: (move: Move) => bigint,
  stakeOf: (holder: Address) => Stake,
): void {
  const { from, to, amount, outcome } = move
  const cost = costOf(move)
  // The sender is handled first, so that a trade with oneself is a sale and then a purchase.
  if (from !== ZERO_ADDRESS) {
    const stake = stakeOf(from)
    stake.profit -= give(stake.sides[outcome], amount)
    // The seller's proceeds are the price that the buyer pays.
    if (move.kind === 'trade') stake.profit += cost
  }
  if (to !== ZERO_ADDRESS) receive(stakeOf(to).sides[outcome], amount, cost)
}

/**
 * Adds the collateral that a holder received for tokens to the holder's profit. Ignores a split, because its collateral
 * becomes the cost of its tokens.
 */
export function applyConversion(
  { kind, amount }: { readonly kind: ConversionKind; readonly amount: bigint },
  stake: Stake,
): void {
  if (kind !== 'split') stake.profit += amount
}

/**
 * Returns a function that computes what the receiver of a token movement paid: the price of a trade, half of a split's
 * collateral, otherwise 0. The contract emits the report of a trade right after it moves the trade's tokens. So a
 * movement belongs to the first later report in its transaction with the same traders and the same size.
 *
 * In a mint or merge, tokens move between each trader and the settlement contract. The movement of the report's outcome
 * costs the report's `cost`. The movement of the other outcome costs the report's `size` minus `cost`. Each report is
 * used once per outcome.
 */
export function makeCostOf(trades: readonly SettledTrade[]): (move: Move) => bigint {
  const byTransaction = new Map<string, SettledTrade[]>()
  const used = new Map<SettledTrade, Set<Outcome>>()
  for (const trade of [...trades].sort((a, b) => a.logIndex - b.logIndex)) {
    const list = byTransaction.get(trade.txHash)
    if (list === undefined) byTransaction.set(trade.txHash, [trade])
    else list.push(trade)
  }
  return (move) => {
    if (move.kind === 'split') {
      const [larger, smaller] = halvesCeil(move.amount)
      return move.outcome === YES ? larger : smaller
    }
    if (move.kind !== 'trade') return 0n
    const reports = byTransaction.get(move.txHash) ?? []
    const trade = reports.find(
      (report) =>
        report.logIndex > move.logIndex &&
        report.size === move.amount &&
        !used.get(report)?.has(move.outcome) &&
        isOf(report, move),
    )
    if (trade === undefined) return 0n
    used.set(trade, (used.get(trade) ?? new Set()).add(move.outcome))
    return trade.outcome === move.outcome ? trade.cost : trade.size - trade.cost
  }
}

/**
 * Returns whether the movement belongs to a reported trade. An ordinary trade has one movement; a mint or merge has
 * two.
 */
function isOf({ buyer, seller, outcome }: SettledTrade, { from, to, ...move }: Move): boolean {
  if (outcome === move.outcome && buyer === to && seller === from) return true
  const isMint =
    to === (outcome === move.outcome ? buyer : seller) && from !== buyer && from !== seller
  const isMerge =
    from === (outcome === move.outcome ? seller : buyer) && to !== buyer && to !== seller
  return isMint || isMerge
}
