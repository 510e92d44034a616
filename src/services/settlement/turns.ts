/**
 * Traders take turns, so that one with thousands of trades does not keep the others waiting. A trade is
 * its taker's: he chose the moment, its maker did not. Each round takes the oldest trade of every taker, in
 * the order in which their last turns were; what was chosen then goes out by age, because a trade may
 * need what an older one brought.
 *
 * Worked example, with batches of four. Ann has taken a1 to a9, Bob then b1, Cid c1 and c2: the first
 * batch has a1, a2, b1 and c1, the next one, Bob having none left, a3, a4, a5 and c2.
 */

import type { Address } from '#domain/ids.ts'
import { SETTLEMENT_HELD_MAX } from '#domain/limits.ts'
import { BUY } from '#domain/order.ts'
import type { Trade, TradeToSettle } from '#domain/trade.ts'
import type { SettlementState } from './state.ts'

/** Takers that one read of the database passes over. */
const SATED_MAX = 1_000

export function takerOf({ takerSide, buyer, seller }: Trade): Address {
  return takerSide === BUY ? buyer : seller
}

/** Negative when the first is the older one; zero also for two of which that cannot be said. */
export function byAge(a: Trade, b: Trade): number {
  return a.matchedAtMs - b.matchedAtMs || a.seq - b.seq || a.fillIndex - b.fillIndex
}

/** The trades that go next, at most so many, the oldest first. */
export function inTurns(
  trades: readonly TradeToSettle[],
  turns: ReadonlySet<Address>,
  max: number,
): TradeToSettle[] {
  const aged = [...trades].sort(byAge)
  if (aged.length <= max) return aged
  const byTaker = new Map<Address, TradeToSettle[]>()
  for (const taker of turns) byTaker.set(taker, [])
  for (const trade of aged) {
    const own = byTaker.get(takerOf(trade))
    if (own === undefined) byTaker.set(takerOf(trade), [trade])
    else own.push(trade)
  }
  const chosen: TradeToSettle[] = []
  for (let round = 0; chosen.length < max; round++) {
    for (const own of byTaker.values()) {
      const next = own[round]
      if (next === undefined) continue
      chosen.push(next)
      if (chosen.length === max) break
    }
  }
  return chosen.sort(byAge)
}

/** They had their turn: their takers are behind all others, or leave if nothing of theirs is queued. */
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
 * Takers of whom there is enough in hand: half of what settlement holds, shared among all, and no more than
 * two batches each. Their other trades stay in the database until those have gone, and make room for
 * trades of others that are younger.
 */
export function satedTakers({ queue, trades, rules }: SettlementState): Address[] {
  const counts = new Map<Address, number>()
  for (const tradeId of queue.tradeIds) {
    const trade = trades.get(tradeId)?.trade
    if (trade === undefined) continue
    const taker = takerOf(trade)
    counts.set(taker, (counts.get(taker) ?? 0) + 1)
  }
  const share = Math.max(1, Math.floor(SETTLEMENT_HELD_MAX / 2 / Math.max(1, counts.size)))
  const enough = Math.min(2 * rules.batchMax, share)
  const sated: Address[] = []
  for (const [taker, count] of counts) {
    if (count >= enough && sated.length < SATED_MAX) sated.push(taker)
  }
  return sated
}
