/**
 * Rules of a relayed operation that need neither the chain nor a signature: the contracts that the operation names, and
 * its deadline. These rules are checked first, so that bad requests are rejected cheaply.
 */

import { type Address, ZERO_ADDRESS } from './ids.ts'
import { DELEGATE_MARKETS_MAX, RELAYED_CANCELLATIONS_MAX } from './limits.ts'
import { isPrice, isShares } from './money.ts'
import { type Rejection, reject } from './rejection.ts'
import type {
  CancelOrders,
  Redemption,
  RelayOperation,
  SetDelegate,
  SignedPermit,
} from './relay.ts'

/** Contracts of a chain, and the relayer's limits. */
export type RelayTerms = {
  readonly role: 'main' | 'test'
  readonly settlement: Address
  readonly conditionalTokens: Address
  readonly stablecoin: Address
  /** Maximum time from now to a deadline, in seconds. */
  readonly deadlineAheadSecMax: number
  /** Maximum number of redemptions per batch. */
  readonly redemptionsMax: number
}

const NO_COLLECTION = `0x${'0'.repeat(64)}`
/**
 * Index sets of the outcomes YES and NO. If a redemption contains both index sets, it redeems all tokens of the holder.
 */
const INDEX_SETS: readonly string[] = ['1', '2']

export function relayFlaw(
  operation: RelayOperation,
  terms: RelayTerms,
  nowSec: number,
): Rejection | undefined {
  if (operation.owner === ZERO_ADDRESS)
    return invalid(signerField(operation), 'must not be the zero address')
  switch (operation.kind) {
    case 'ctf-approval':
      if (operation.operator !== terms.settlement) {
        return invalid('operator', 'must be the address of the settlement contract')
      }
      return deadlineFlaw(operation, terms, nowSec, 'deadline')
    case 'stablecoin-permit':
      // The spender of a permit may also be the outcome token contract, which takes a trader's collateral when the
      // trader splits it.
      if (operation.spender !== terms.settlement && operation.spender !== terms.conditionalTokens) {
        return invalid(
          'spender',
          'must be the address of the settlement contract or of the conditional tokens contract',
        )
      }
      return deadlineFlaw(operation, terms, nowSec, 'deadline')
    case 'ctf-redemption':
      return redemptionFlaw(operation, terms, nowSec, '')
    case 'batch-ctf-redemption':
      return batchFlaw(operation.redemptions, terms, nowSec)
    case 'propose-resolution':
      if (operation.bond === undefined && terms.role === 'main') {
        const why = 'is required, because on this chain the proposer pays the bond with a permit'
        return reject('MISSING_FIELD', 'bondPermitDeadline', `bondPermitDeadline ${why}`)
      }
      return (
        deadlineFlaw(operation, terms, nowSec, 'deadline') ??
        (operation.bond === undefined
          ? undefined
          : deadlineFlaw(operation.bond, terms, nowSec, 'bondPermitDeadline'))
      )
    case 'settle-market':
    case 'cancel-all-before':
      return deadlineFlaw(operation, terms, nowSec, 'deadline')
    case 'cancel-orders':
      return cancellationFlaw(operation) ?? deadlineFlaw(operation, terms, nowSec, 'deadline')
    case 'set-delegate':
      return delegationFlaw(operation, nowSec) ?? deadlineFlaw(operation, terms, nowSec, 'deadline')
  }
}

/** Returns the request's field name for the signer. */
function signerField({ kind }: Pick<RelayOperation, 'kind'>): string {
  if (kind === 'propose-resolution') return 'proposer'
  return kind === 'settle-market' ? 'settler' : 'owner'
}

function batchFlaw(
  redemptions: readonly Redemption[],
  terms: RelayTerms,
  nowSec: number,
): Rejection | undefined {
  if (redemptions.length === 0) return invalid('redemptions', 'must have at least one element')
  if (redemptions.length > terms.redemptionsMax) {
    return invalid('redemptions', `must have at most ${terms.redemptionsMax} elements`)
  }
  const seen = new Map<string, number>()
  for (const [at, redemption] of redemptions.entries()) {
    const path = `redemptions[${at}]`
    const flaw = redemptionFlaw(redemption, terms, nowSec, `${path}.`)
    if (flaw !== undefined) return flaw
    const other = seen.get(redemption.conditionId)
    if (other !== undefined) {
      return invalid(
        `${path}.conditionId`,
        `must differ from the conditionId of redemptions[${other}]`,
      )
    }
    seen.set(redemption.conditionId, at)
  }
  return undefined
}

function cancellationFlaw({ orders, owner }: CancelOrders): Rejection | undefined {
  if (orders.length === 0) return invalid('orders', 'must have at least one element')
  if (orders.length > RELAYED_CANCELLATIONS_MAX) {
    return invalid('orders', `must have at most ${RELAYED_CANCELLATIONS_MAX} elements`)
  }
  for (const [at, { trader, price, size }] of orders.entries()) {
    const path = `orders[${at}]`
    if (trader !== owner) return invalid(`${path}.trader`, 'must be the same address as owner')
    if (!isPrice(price))
      return invalid(`${path}.price`, 'must be from 1 to 999999 millionths of a dollar')
    if (!isShares(size)) return invalid(`${path}.size`, 'must be above zero')
  }
  return undefined
}

function delegationFlaw(
  { owner, delegate, until, markets }: SetDelegate,
  nowSec: number,
): Rejection | undefined {
  if (delegate === ZERO_ADDRESS || delegate === owner) {
    return invalid('delegate', 'must be neither the address in owner nor the zero address')
  }
  if (until !== '0' && BigInt(until) <= BigInt(nowSec)) {
    return invalid(
      'until',
      `must be 0 to revoke the delegate, or a time in Unix seconds after now (${nowSec})`,
    )
  }
  if (markets.length > DELEGATE_MARKETS_MAX) {
    return invalid('markets', `must have at most ${DELEGATE_MARKETS_MAX} elements`)
  }
  return undefined
}

function redemptionFlaw(
  redemption: Redemption,
  terms: RelayTerms,
  nowSec: number,
  path: string,
): Rejection | undefined {
  const { collateralToken, parentCollectionId, indexSets } = redemption
  if (collateralToken !== terms.stablecoin) {
    return invalid(`${path}collateralToken`, "must be the address of the exchange's stablecoin")
  }
  if (parentCollectionId !== NO_COLLECTION) {
    return invalid(
      `${path}parentCollectionId`,
      'must be 0x and 64 zeros, because nested positions are not supported',
    )
  }
  for (const [at, indexSet] of indexSets.entries()) {
    const field = `${path}indexSets[${at}]`
    if (!INDEX_SETS.includes(indexSet)) return invalid(field, 'must be 1 (YES) or 2 (NO)')
    if (indexSets.indexOf(indexSet) !== at)
      return invalid(field, 'must not repeat an earlier element')
  }
  return deadlineFlaw(redemption, terms, nowSec, `${path}deadline`)
}

function deadlineFlaw(
  { deadline }: SignedPermit,
  { deadlineAheadSecMax }: RelayTerms,
  nowSec: number,
  field: string,
): Rejection | undefined {
  const aheadSec = BigInt(deadline) - BigInt(nowSec)
  if (aheadSec <= 0n)
    return invalid(field, `must be after the current time, ${nowSec} (Unix seconds)`)
  if (aheadSec > BigInt(deadlineAheadSecMax)) {
    return invalid(
      field,
      `must be at most ${deadlineAheadSecMax} seconds after the current time, ${nowSec} (Unix seconds)`,
    )
  }
  return undefined
}

function invalid(field: string, what: string): Rejection {
  return reject('INVALID_FIELD', field, `${field} ${what}`)
}
