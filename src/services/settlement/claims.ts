/**
 * A claim protects a trade that was refused because a balance was too low. The claim lasts from the refusal until the
 * trade is sent. It gives the trade the first right to the balances of both its sides, and to the allowances of the
 * sides that pay dollars. A younger trade that would take from a claimed balance waits, unless the balance covers both
 * trades. Without the claim, the younger trade could settle first, and the trader's actions in the meantime would
 * decide whether the older trade fails.
 *
 *     Ann has no YES   1. buys 5 YES, sent   2. sells 5 YES: refused, waits for 1
 *                      3. sells 1 YES: waits until 2 is sent
 *
 * A claim delays only younger trades, and a trade waits only for older trades. So claims alone cannot make trades wait
 * for each other in a circle. Together with the order of permit nonces, they could create such a circle. So a claim
 * ends after `CLAIM_MS`.
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
  /** Amount of the claimed balance that younger trades may still take. */
  spare: bigint
}

/**
 * Returns the trades of `waiting` that no claim holds back. Leaves out a trade if an older trade has a claim on a
 * balance that does not cover both trades.
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

/** Returns whether the trade must settle after the trade that has the claim. */
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
 * Returns whether the trade has a claim to the balances of its sides. A trade that is being retried has none: its
 * retries may take long, and younger trades would have to wait for it.
 */
function hasClaim(
  { missing, stage, retries, submitFailures }: PendingSettlement,
  nowMs: number,
): boolean {
  if (missing === undefined || retries > 0 || submitFailures > 0) return false
  if (nowMs - missing.sinceMs >= CLAIM_MS) return false
  return stage === 'awaitingOlder' || stage === 'queued'
}
