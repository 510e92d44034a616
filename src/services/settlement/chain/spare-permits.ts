/**
 * Finds the earlier permits that a permit in a batch needs. The stablecoin accepts an owner's permits only in the order
 * of their nonces, so an unused permit blocks all later permits. A permit is unused if its order still rests, was
 * cancelled, or matched a seller without shares. Such a permit is read from the database and sent just before the
 * permit that needs it.
 *
 *     Example: the owner's next nonce on chain is 4, and an order with permit 6 settles. Permits 4 and 5 are sent too.
 *
 * At most 32 earlier permits of an owner are sent. If an owner needs more, the trade fails for lack of allowance, with
 * the owner's side at fault.
 */

import { Fault } from '#domain/fault.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import type { PermitSignature } from '#domain/order.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import { type EarlierPermits, isCarriable, payersOf, unusedPermit } from './settlement-batch.ts'

const OF_OWNER_MAX = 32
/** Above every nonce. */
const NO_NONCE = 2n ** 256n
/**
 * Maximum number of permits in one transaction, because nodes limit the size of a transaction. Counts both the permits
 * of the batch's own orders and the earlier permits.
 */
const OF_BATCH_MAX = 96

type StoredPermit = { readonly owner: Address; readonly permit: PermitSignature }

type SparePermitsOptions = {
  /**
   * Returns the stored permits of these owners' orders. If several permits have the same nonce, only the first is sent.
   */
  readonly stored: (owners: readonly Address[]) => Promise<readonly StoredPermit[]>
  /** The next nonce of an owner on chain. */
  readonly nonceOf: (owner: Address) => Promise<bigint>
}

export type SparePermits = (
  trades: readonly TradeToSettle[],
  usedPermits: ReadonlySet<OrderHash>,
) => Promise<{
  readonly earlier: EarlierPermits
  /** The trades, except those of owners whose permits do not fit into the transaction. */
  readonly fitting: readonly TradeToSettle[]
}>

export function makeSparePermits({ stored, nonceOf }: SparePermitsOptions): SparePermits {
  return async (trades, usedPermits) => {
    const own = new Map<Address, PermitSignature[]>()
    for (const order of trades.flatMap(payersOf)) {
      const permit = unusedPermit(order, usedPermits)
      if (permit === undefined) continue
      own.set(order.trader, [...(own.get(order.trader) ?? []), permit])
    }
    if (own.size === 0) return { earlier: new Map(), fitting: trades }
    const owners = [...own.keys()]
    const next = new Map<Address, bigint>()
    await Promise.all(owners.map(async (owner) => next.set(owner, await nextNonce(nonceOf, owner))))
    const missing = owners.filter((owner) => hasGap(own.get(owner) ?? [], next.get(owner) ?? 0n))
    for (const { owner, permit } of missing.length === 0 ? [] : await stored(missing)) {
      own.get(owner)?.push(permit)
    }
    const earlier = new Map<Address, PermitSignature[]>()
    for (const [owner, permits] of own) earlier.set(owner, inTurn(permits, next.get(owner) ?? 0n))
    return { earlier, fitting: fittingOf(trades, earlier) }
  }
}

/**
 * Returns true if the nonces of these permits, counted from `next`, have a gap. The stablecoin would reject the permits
 * after the gap.
 */
function hasGap(permits: readonly PermitSignature[], next: bigint): boolean {
  const nonces = new Set(permits.map(({ nonce }) => BigInt(nonce)).filter((nonce) => nonce >= next))
  return [...nonces].some((nonce) => nonce >= next + BigInt(nonces.size))
}

/**
 * Returns the next nonce of an owner. Returns `NO_NONCE` if the stablecoin has no function `nonces`, and therefore
 * accepts no permits. Throws if a node does not answer. The submission is then retried.
 */
async function nextNonce(nonceOf: SparePermitsOptions['nonceOf'], owner: Address): Promise<bigint> {
  try {
    return await nonceOf(owner)
  } catch (error) {
    if (error instanceof Fault && !error.retryable) return NO_NONCE
    throw error
  }
}

/** Returns the permits that the chain has not used, one per nonce, in the order of their nonces. */
function inTurn(permits: readonly PermitSignature[], next: bigint): PermitSignature[] {
  const byNonce = new Map<string, PermitSignature>()
  for (const permit of permits) {
    // Keeps the first permit of each nonce. A replaced order and its replacement have the same nonce, and the token
    // accepts only one of the two permits.
    if (isCarriable(permit) && !byNonce.has(permit.nonce)) byNonce.set(permit.nonce, permit)
  }
  return [...byNonce.values()]
    .filter(({ nonce }) => BigInt(nonce) >= next)
    .sort((a, b) => Number(BigInt(a.nonce) - BigInt(b.nonce)))
    .slice(0, OF_OWNER_MAX)
}

function fittingOf(
  trades: readonly TradeToSettle[],
  earlier: EarlierPermits,
): readonly TradeToSettle[] {
  let room = OF_BATCH_MAX
  const left = new Set<Address>()
  for (const [owner, { length }] of earlier) {
    if (length <= room) room -= length
    else left.add(owner)
  }
  if (left.size === 0) return trades
  return trades.filter((trade) => !payersOf(trade).some(({ trader }) => left.has(trader)))
}
