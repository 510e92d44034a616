/**
 * Conditions that protect open orders and unsettled trades from relayed operations of their own owner (`guards.ts`).
 */

import type { Address } from '#domain/ids.ts'
import type { CtfApproval, StablecoinPermit } from '#domain/relay.ts'
import type { RelayGuard } from './relay-examination.ts'
import type { MarketFacts } from './relay-facts.ts'

/** An allowance so large that buys cannot use it up: the supply of a token with six decimals is far smaller. */
const COVERS_ALL = 2n ** 128n

/**
 * Returns the guard of an approval or permit; undefined if no order or trade needs protection. Every permit uses up a
 * nonce, whatever its spender and value. The permits of open orders with the same nonce then become invalid, so the
 * allowance alone has to cover the buys.
 */
export function grantGuard(
  operation: CtfApproval | StablecoinPermit,
  settlement: Address,
  allowance: bigint,
): RelayGuard | undefined {
  if (operation.kind === 'ctf-approval') {
    return operation.approved ? undefined : { holds: 'sells', field: 'approved', buysMax: 0n }
  }
  const isForTrades = operation.spender === settlement
  const left = isForTrades ? BigInt(operation.value) : allowance
  if (left >= COVERS_ALL) return undefined
  const holds = left < allowance ? 'buys' : 'permit-buys'
  return { holds, field: isForTrades ? 'value' : 'spender', buysMax: left }
}

/**
 * Returns the guard of a proposal. Its bond leaves the proposer's balance, and the permit for the bond uses
 * up a nonce. So the buys must not need more than the remaining balance, nor more than the allowance.
 */
export function bondGuard({ balance, bond }: MarketFacts, allowance: bigint): RelayGuard {
  const left = balance - bond
  return { holds: 'buys', field: 'proposer', buysMax: left < allowance ? left : allowance }
}
