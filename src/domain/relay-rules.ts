/**
 * The rules of a relayed operation that need neither the chain nor a signature: whose contracts it
 * names, and until when it is good. What breaks one of them costs nothing but this look.
 */

import { type Address, ZERO_ADDRESS } from './ids.ts'
import { RELAYED_CANCELLATIONS_MAX } from './limits.ts'
import { isPrice, isShares } from './money.ts'
import { type Rejection, reject } from './rejection.ts'
import type { CancelOrders, Redemption, RelayOperation, SignedPermit } from './relay.ts'

/** The contracts of a chain, and what the relayer asks of those that it works for. */
export type RelayTerms = {
  readonly role: 'main' | 'test'
  readonly settlement: Address
  readonly conditionalTokens: Address
  readonly stablecoin: Address
  /** How far ahead a deadline may lie. */
  readonly deadlineAheadSecMax: number
  /** Redemptions of one batch. */
  readonly redemptionsMax: number
}

const NO_COLLECTION = `0x${'0'.repeat(64)}`
/** The sets of one outcome each; both together are all that a holder can have. */
const INDEX_SETS: readonly string[] = ['1', '2']

export function relayFlaw(
  operation: RelayOperation,
  terms: RelayTerms,
  nowSec: number,
): Rejection | undefined {
  if (operation.owner === ZERO_ADDRESS) return invalid(signerField(operation), 'is nobody')
  switch (operation.kind) {
    case 'ctf-approval':
      if (operation.operator !== terms.settlement) {
        return invalid('operator', 'must be the settlement contract')
      }
      return deadlineFlaw(operation, terms, nowSec, 'deadline')
    case 'stablecoin-permit':
      // A split of collateral into outcome tokens is paid to the second.
      if (operation.spender !== terms.settlement && operation.spender !== terms.conditionalTokens) {
        return invalid('spender', 'must be the settlement or the conditional tokens contract')
      }
      return deadlineFlaw(operation, terms, nowSec, 'deadline')
    case 'ctf-redemption':
      return redemptionFlaw(operation, terms, nowSec, '')
    case 'batch-ctf-redemption':
      return batchFlaw(operation.redemptions, terms, nowSec)
    case 'propose-resolution':
      if (operation.bond === undefined && terms.role === 'main') {
        const why = 'is required: on this chain the proposer posts the bond by a permit'
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
  }
}

/** What the request calls the one who signs. */
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
      return invalid(`${path}.conditionId`, `is that of redemptions[${other}] again`)
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
    if (trader !== owner) return invalid(`${path}.trader`, 'must be the owner')
    if (!isPrice(price)) return invalid(`${path}.price`, 'must be from 1 to 999999')
    if (!isShares(size)) return invalid(`${path}.size`, 'must be above zero')
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
    return invalid(`${path}collateralToken`, "must be the exchange's stablecoin")
  }
  if (parentCollectionId !== NO_COLLECTION) {
    return invalid(`${path}parentCollectionId`, 'must be zero: markets stand at the top level')
  }
  for (const [at, indexSet] of indexSets.entries()) {
    const field = `${path}indexSets[${at}]`
    if (!INDEX_SETS.includes(indexSet)) return invalid(field, 'must be 1 (YES) or 2 (NO)')
    if (indexSets.indexOf(indexSet) !== at) return invalid(field, 'is there more than once')
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
  if (aheadSec <= 0n) return invalid(field, `has passed: it is ${nowSec}`)
  if (aheadSec > BigInt(deadlineAheadSecMax)) {
    return invalid(field, `must be at most ${deadlineAheadSecMax} seconds ahead: it is ${nowSec}`)
  }
  return undefined
}

function invalid(field: string, what: string): Rejection {
  return reject('INVALID_FIELD', field, `${field} ${what}`)
}
