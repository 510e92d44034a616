/**
 * What a holder has of a market, what it has cost him, and what he has made of it. Shares follow the chain's movements of
 * tokens, in the chain's order. Cost follows trades: a buy adds what was paid, and whatever leaves (a
 * sale, a transfer, a merge, a redemption) takes its proportion of the cost with it; a split costs
 * half per side; what came as a present cost nothing. All in integers, and nothing is left of the
 * cost when the last share is gone.
 *
 * The realised profit is what came in for what left (of a sale its price, of a merge and a redemption
 * the collateral, of a present nothing) less the cost that left with it. So it is always all money that
 * came out of the market, less all that went in, plus the cost of what is still held: what is rounded
 * off the cost of one sale is in the cost of the next, and nothing is lost.
 *
 * Ann buys 4 YES for 2.20 and 2 YES for 1.40: 6 shares, cost 3.60. She sells 1 for 0.75: 3.60 × 1/6 =
 * 0.60 leaves, 5 shares, cost 3.00, a profit of 0.15. They lose: she redeems 5 for nothing, and her
 * profit is 0.15 − 3.00 = −2.85, which is 0.75 − 2.20 − 1.40.
 */

import type { ConversionKind, MoveKind } from '#domain/chain-event.ts'
import { type Address, ZERO_ADDRESS } from '#domain/ids.ts'
import { halvesCeil, proportionFloor } from '#domain/money.ts'
import { type Outcome, YES } from '#domain/order.ts'

/** Shares of one outcome and their cost, both with six decimals. */
export type Holding = { shares: bigint; cost: bigint }

/** Both outcomes of a market in one hand. The profit is the holder's of both together. */
export type Stake = { readonly sides: readonly [yes: Holding, no: Holding]; profit: bigint }

/** A movement of an outcome token, as far as it concerns positions. */
export type Move = {
  readonly outcome: Outcome
  readonly from: Address
  readonly to: Address
  readonly amount: bigint
  readonly kind: MoveKind
  readonly txHash: string
  readonly logIndex: number
}

/** A trade that the settlement contract has settled. */
export type SettledTrade = {
  readonly txHash: string
  readonly logIndex: number
  readonly buyer: Address
  readonly seller: Address
  readonly size: bigint
  readonly cost: bigint
}

function receive(holding: Holding, amount: bigint, cost: bigint): void {
  holding.shares += amount
  holding.cost += cost
}

/** Takes shares away; the cost that leaves with them. */
function give(holding: Holding, amount: bigint): bigint {
  const { shares, cost } = holding
  // More than there is cannot leave a chain's balance, only a position that was corrected by hand.
  const part = amount < shares ? amount : shares
  holding.shares -= part
  const left = holding.shares === 0n ? cost : proportionFloor(cost, part, shares)
  holding.cost -= left
  return left
}

/** Overwrites the shares; the cost of those that are gone goes with them. */
export function correct(holding: Holding, shares: bigint): void {
  if (shares < holding.shares) give(holding, holding.shares - shares)
  else holding.shares = shares
}

/** Applies one movement; `stakeOf` finds what a holder has of the market. */
export function applyMove(
  move: Move,
  costOf: (move: Move) => bigint,
  stakeOf: (holder: Address) => Stake,
): void {
  const { from, to, amount, outcome } = move
  const cost = costOf(move)
  // The sender first, so that a trade with oneself is a sale and then a purchase.
  if (from !== ZERO_ADDRESS) {
    const stake = stakeOf(from)
    stake.profit -= give(stake.sides[outcome], amount)
    // What the buyer of a trade pays, the seller gets.
    if (move.kind === 'trade') stake.profit += cost
  }
  if (to !== ZERO_ADDRESS) receive(stakeOf(to).sides[outcome], amount, cost)
}

/** The collateral that came for tokens; that which went into a split is in the cost of its tokens. */
export function applyConversion(
  { kind, amount }: { readonly kind: ConversionKind; readonly amount: bigint },
  stake: Stake,
): void {
  if (kind !== 'split') stake.profit += amount
}

/**
 * What the receiver of a movement paid. The contract reports a trade right after it has moved the
 * tokens, so it is the first report behind the movement that tells of the same two and the same
 * size; each report explains one movement.
 */
export function makeCostOf(trades: readonly SettledTrade[]): (move: Move) => bigint {
  const byTransaction = new Map<string, SettledTrade[]>()
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
    const at = reports.findIndex(
      ({ logIndex, buyer, seller, size }) =>
        logIndex > move.logIndex &&
        buyer === move.to &&
        seller === move.from &&
        size === move.amount,
    )
    if (at < 0) return 0n
    const [trade] = reports.splice(at, 1)
    return trade?.cost ?? 0n
  }
}
