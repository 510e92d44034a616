/** The effect of relayed operations on their owner's open orders and unsettled trades. */

import type { Address } from '#domain/ids.ts'
import type { CtfApproval, StablecoinPermit } from '#domain/relay.ts'
import type { RelayGuard } from './relay-examination.ts'
import type { MarketFacts } from './relay-facts.ts'

/** An allowance that orders cannot use up: the supply of a token with six decimals is far smaller. */
const COVERS_ALL = 2n ** 128n

/**
 * A permit uses the nonce that the permits of open orders are signed for, with any value and spender: from then on the
 * settlement contract's allowance alone has to cover the buys.
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

/** A bond leaves the proposer's balance, and its permit uses up a nonce. */
export function bondGuard({ balance, bond }: MarketFacts, allowance: bigint): RelayGuard {
  const left = balance - bond
  return { holds: 'buys', field: 'proposer', buysMax: left < allowance ? left : allowance }
}
