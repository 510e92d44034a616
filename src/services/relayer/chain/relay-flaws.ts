/**
 * Checks operations against facts that were read from the chain before. A failed check returns a rejection
 * with a text.
 */

import type { Outcome } from '#domain/order.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Claim, CtfApproval, Redemption, StablecoinPermit } from '#domain/relay.ts'
import type { ConditionFacts, GrantFacts, MarketFacts } from './relay-facts.ts'

/** Returns whether the chain already has the approval or allowance that the operation would set. */
export function isGranted(
  operation: CtfApproval | StablecoinPermit,
  { isApproved, allowance }: GrantFacts,
): boolean {
  return operation.kind === 'ctf-approval'
    ? isApproved === operation.approved
    : allowance === BigInt(operation.value)
}

/**
 * Returns whether nothing is left to redeem: the condition is resolved, and the owner holds none of the redemption's
 * tokens.
 */
export function isRedeemed(
  { indexSets }: Redemption,
  { denominator, balances }: ConditionFacts,
): boolean {
  return denominator > 0n && indexSets.every((one) => balances[one === '1' ? 0 : 1] === 0n)
}

export function payoutOf(
  redemption: Redemption,
  { denominator, numerators, balances }: ConditionFacts,
  path: string,
  redemptionMin: bigint,
): Pick<Claim, 'payout' | 'winningOutcome'> | Rejection {
  const field = `${path}conditionId`
  if (denominator === 0n) return wouldRevert(field, 'the market is not resolved yet')
  let payout = 0n
  for (const indexSet of redemption.indexSets) {
    const outcome = indexSet === '1' ? 0 : 1
    payout += (balances[outcome] * numerators[outcome]) / denominator
  }
  if (payout === 0n) {
    const held = redemption.indexSets.some((one) => balances[one === '1' ? 0 : 1] > 0n)
    const why = held
      ? 'the owner has only tokens of the losing outcome'
      : 'the owner has no tokens of the given outcomes'
    return wouldRevert(field, `the redemption would pay nothing: ${why}`)
  }
  if (payout < redemptionMin) {
    const detail =
      `the redemption of ${field} would pay ${payout} millionths of the stablecoin, but the minimum is ` +
      `${redemptionMin}`
    return reject('NOTIONAL_TOO_SMALL', field, detail)
  }
  if (payout > BigInt(Number.MAX_SAFE_INTEGER)) {
    return wouldRevert(
      field,
      'the payout is larger than this exchange can relay: redeem the tokens without the relayer',
    )
  }
  return { payout: Number(payout), winningOutcome: numerators[0] > 0n ? 0 : 1 }
}

export function proposalFlaw(market: MarketFacts): Rejection | undefined {
  const { winner, assertion, proposableFromSec, nowSec } = market
  if (winner !== undefined) {
    return wouldRevert('marketAddress', `the market is already resolved: ${nameOf(winner)} won`)
  }
  if (nowSec < proposableFromSec) {
    const when = `an outcome can be proposed from ${proposableFromSec} on, and the chain's time is ${nowSec} (Unix seconds)`
    return wouldRevert('marketAddress', `the market has not expired yet: ${when}`)
  }
  // An assertion is an earlier proposal. After its dispute window, the contract may replace an unsettled assertion with
  // the new proposal. The simulation shows whether the contract accepts this.
  if (assertion !== undefined && nowSec < assertion.windowEndsAtSec) {
    return wouldRevert(
      'marketAddress',
      'the market already has an open proposal: wait for the end of its dispute window',
    )
  }
  return undefined
}

export function settlementFlaw(
  market: MarketFacts,
  winningOutcome: Outcome,
): Rejection | undefined {
  const { assertion, nowSec } = market
  if (assertion === undefined) {
    return wouldRevert('marketAddress', 'the market has no proposal that could be settled')
  }
  if (winningOutcome !== (assertion.outcome ? 0 : 1)) {
    const proposed = nameOf(assertion.outcome ? 0 : 1)
    return wouldRevert(
      'winningOutcome',
      `winningOutcome must be the proposed outcome, which is ${proposed}`,
    )
  }
  if (!assertion.disputed && nowSec < assertion.windowEndsAtSec) {
    const until = `it ends at ${assertion.windowEndsAtSec}, and the chain's time is ${nowSec} (Unix seconds)`
    return wouldRevert('marketAddress', `the dispute window has not ended yet: ${until}`)
  }
  return undefined
}

export function nameOf(outcome: Outcome): string {
  return outcome === 0 ? 'YES' : 'NO'
}

export function wouldRevert(field: string | undefined, words: string): Rejection {
  return reject('WOULD_REVERT', field, words)
}

export function invalidSignature(field: string, words: string): Rejection {
  return reject('INVALID_SIGNATURE', field, `invalid signature: ${words}`)
}

export function unknownCondition(path: string): Rejection {
  const field = `${path}conditionId`
  return reject('INVALID_FIELD', field, `${field} must be a market of this exchange`)
}

export function unknownMarket(field = 'marketAddress'): Rejection {
  return reject('INVALID_FIELD', field, `${field} must be a market of this exchange`)
}
