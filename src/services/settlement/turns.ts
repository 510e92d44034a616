/**
 * Takers take turns, so that a trader with thousands of trades does not delay the others. A trade belongs to the turn
 * of its taker, because the maker did not choose when to trade. Each round takes the oldest trade of every taker,
 * starting with the taker whose last turn was longest ago. The chosen trades are sent oldest first, because a trade may
 * need tokens that an older trade brings.
 *
 * Worked example with batches of four trades. Ann took a1 to a9, then Bob took b1, and Cid c1 and c2. The first batch
 * is a1, a2, b1 and c1. The next batch is a3, a4, a5 and c2, because Bob has no trades left.
 */

import type { Address } from '#domain/ids.ts'
import { SETTLEMENT_HELD_MAX } from '#domain/limits.ts'
import { BUY } from '#domain/order.ts'
import type { Trade, TradeToSettle } from '#domain/trade.ts'
import type { SettlementState } from './state.ts'

/** Maximum gas of a mint or merge, as a multiple of the gas of an ordinary trade (see contracts/README.md). */
const SET_WEIGHT = 2.5
/** Maximum number of takers that one read of the database excludes. */
const AT_QUOTA_MAX = 1_000

export function takerOf({ takerSide, buyer, seller }: Trade): Address {
  return takerSide === BUY ? buyer : seller
}

/** Compares two trades by age: negative if `a` is older, zero if neither is known to be older. */
export function byAge(a: Trade, b: Trade): number {
  return a.matchedAtMs - b.matchedAtMs || a.seq - b.seq || a.fillIndex - b.fillIndex
}

/**
 * Chooses trades by the turns of their takers, and returns the chosen trades oldest first. Their total gas is at most
 * that of `max` ordinary trades, except that at least one trade is always chosen.
 */
export function inTurns(
  trades: readonly TradeToSettle[],
  turns: ReadonlySet<Address>,
  max: number,
): TradeToSettle[] {
  const byTaker = new Map<Address, TradeToSettle[]>()
  for (const taker of turns) byTaker.set(taker, [])
  for (const trade of [...trades].sort(byAge)) {
    const own = byTaker.get(takerOf(trade))
    if (own === undefined) byTaker.set(takerOf(trade), [trade])
    else own.push(trade)
  }
  const chosen: TradeToSettle[] = []
  let room = max
  for (let round = 0; chosen.length < trades.length; round++) {
    for (const own of byTaker.values()) {
      const next = own[round]
      if (next === undefined) continue
      room -= next.kind === undefined ? 1 : SET_WEIGHT
      if (room < 0 && chosen.length > 0) return chosen.sort(byAge)
      chosen.push(next)
    }
  }
  return chosen.sort(byAge)
}

/** Moves the takers of the chosen trades to the end of the turn order. Removes takers without queued trades. */
export function endTurns(state: SettlementState, chosen: readonly TradeToSettle[]): void {
  const { queue, trades } = state
  const { turns, tradeIds } = queue
  for (const trade of chosen) {
    const taker = takerOf(trade)
    turns.delete(taker)
    turns.add(taker)
  }
  const queued = new Set<Address>()
  for (const tradeId of tradeIds) {
    const trade = trades.get(tradeId)?.trade
    if (trade !== undefined) queued.add(takerOf(trade))
  }
  for (const taker of turns) if (!queued.has(taker)) turns.delete(taker)
}

/**
 * Returns the takers that have reached the quota of queued trades. The quota is two full batches. If many takers have
 * queued trades, it is lower: half of `SETTLEMENT_HELD_MAX`, divided by the number of takers. Further trades of these
 * takers stay in the database, which leaves room for younger trades of other takers.
 */
export function takersAtQuota({ queue, trades, rules }: SettlementState): Address[] {
  const counts = new Map<Address, number>()
  for (const tradeId of queue.tradeIds) {
    const trade = trades.get(tradeId)?.trade
    if (trade === undefined) continue
    const taker = takerOf(trade)
    counts.set(taker, (counts.get(taker) ?? 0) + 1)
  }
  const share = Math.max(1, Math.floor(SETTLEMENT_HELD_MAX / 2 / Math.max(1, counts.size)))
  const enough = Math.min(2 * rules.batchMax, share)
  const atQuota: Address[] = []
  for (const [taker, count] of counts) {
    if (count >= enough && atQuota.length < AT_QUOTA_MAX) atQuota.push(taker)
  }
  return atQuota
}
