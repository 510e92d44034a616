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
 * Returns the condition under which an approval or permit may be sent; undefined if no order or trade needs protection.
 * Every permit uses up the owner's next nonce, whatever its spender and value. This makes permits of open orders with
 * that nonce invalid. So the allowance must cover the owner's buys without these permits.
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
 * Returns the condition under which a proposal may be sent. The bond lowers the proposer's balance. The bond's permit
 * uses up a nonce, which makes permits of open orders invalid. So the balance after the bond must cover the proposer's
 * open and unsettled buys, and so must the allowance.
 */
export function bondGuard({ balance, bond }: MarketFacts, allowance: bigint): RelayGuard {
  const left = balance - bond
  return { holds: 'buys', field: 'proposer', buysMax: left < allowance ? left : allowance }
}
