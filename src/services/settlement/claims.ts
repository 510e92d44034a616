/**
 * Claims: they protect a trade that was refused because a balance was too low. From its refusal until it is
 * sent, such a trade has first right to the balances of both its sides, and to the allowances of the sides
 * that pay dollars. A younger trade that takes from a claimed balance waits, unless the balance covers both
 * trades. Otherwise the younger trade could settle first, and actions of the trader in the meantime would
 * decide whether the older trade fails.
 *
 *     Ann has no YES   1. buys 5 YES, sent   2. sells 5 YES: refused, waits for 1
 *                      3. sells 1 YES: waits until 2 is sent
 *
 * A claim delays only younger trades, and a trade waits only for older ones, so trades cannot wait for each
 * other in a ring. The order of permit nonces could still create such a ring, so a claim ends after a minute.
 */

import type { TradeToSettle } from '#domain/trade.ts'
import { changeOf, unminedTrades } from './balance-changes.ts'
import { isPermitBefore } from './permit-turns.ts'
import type { MissingSide, PendingSettlement, SettlementState } from './state.ts'
import { byAge } from './turns.ts'

/**
 * Maximum duration of a claim. On a chain that is not stuck, a trade waits only for a few blocks, which take
 * less time than this.
 */
const CLAIM_MS = 60_000

type Claim = {
  readonly trade: TradeToSettle
  readonly side: MissingSide
  /** Part of the balance that younger trades may take. */
  spare: bigint
}

/**
 * Returns the waiting trades, except trades that would take more from a claimed balance than the claim leaves
 * for younger trades.
 */
export function withoutClaimed(
  state: SettlementState,
  waiting: readonly TradeToSettle[],
  nowMs: number,
): readonly TradeToSettle[] {
  const claims = Map.groupBy(claimsOf(state, nowMs), ({ side }) => side.trader)
  if (claims.size === 0) return waiting
  return [...waiting].sort(byAge).filter((trade) => {
    const met = [...new Set([trade.buyer, trade.seller])]
      .flatMap((trader) => claims.get(trader) ?? [])
      .filter((claim) => isYounger(state, trade, claim))
      .map((claim) => ({ claim, change: changeOf(trade, claim.side.trader, claim.side.token) }))
      .filter(({ change }) => change < 0n)
    if (met.some(({ claim, change }) => claim.spare + change < 0n)) return false
    for (const { claim, change } of met) claim.spare += change
    return true
  })
}

/** True if the trade has to settle after the trade with the claim. */
function isYounger(state: SettlementState, trade: TradeToSettle, claim: Claim): boolean {
  if (byAge(claim.trade, trade) >= 0 || claim.side.changes.has(trade.tradeId)) return false
  return !isPermitBefore(state, trade, claim.trade)
}

function claimsOf(state: SettlementState, nowMs: number): Claim[] {
  const claiming = [...state.trades.values()].filter((pending) => hasClaim(pending, nowMs))
  if (claiming.length === 0) return []
  const sent = unminedTrades(state)
  return claiming.flatMap(({ trade, missing }) =>
    (missing?.sides ?? []).map((side): Claim => {
      const { trader, token, changes } = side
      const others = sent
        .filter(({ tradeId }) => !changes.has(tradeId))
        .map((other) => changeOf(other, trader, token))
      const taken = [...changes.values(), ...others].filter((change) => change < 0n)
      const spare = taken.reduce((sum, change) => sum + change, side.has - side.needs)
      return { trade, side, spare }
    }),
  )
}

/**
 * Returns whether the trade has a claim. A trade that is being retried has no claim, because its retries may take long.
 */
function hasClaim(
  { missing, stage, retries, submitFailures }: PendingSettlement,
  nowMs: number,
): boolean {
  if (missing === undefined || retries > 0 || submitFailures > 0) return false
  if (nowMs - missing.sinceMs >= CLAIM_MS) return false
  return stage === 'awaitingOlder' || stage === 'queued'
}
