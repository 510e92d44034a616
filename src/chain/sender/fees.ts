/** Fees offered for inclusion in a block. Fees are `bigint` in wei, because gas prices have no upper bound. */

export const WEI_PER_GWEI = 1_000_000_000n

export type Fees = {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
}

/** Returns fees that allow the base fee to double before the transaction must be signed again. */
export function freshFees(baseFee: bigint, tip: bigint): Fees {
  return { maxFeePerGas: 2n * baseFee + tip, maxPriorityFeePerGas: tip }
}

/**
 * Returns the fees for a replacement of a transaction that offered the fees `before`. Both fields are at least an
 * eighth higher, which the strictest nodes require. Both are also at least the current fees `now`, unless `maxFeeCap`
 * is too low for that. Returns undefined if even an increase by an eighth exceeds `maxFeeCap`.
 */
export function bumpedFees(before: Fees, now: Fees, maxFeeCap: bigint): Fees | undefined {
  const bumped = {
    maxFeePerGas: larger(byAnEighth(before.maxFeePerGas), now.maxFeePerGas),
    maxPriorityFeePerGas: larger(byAnEighth(before.maxPriorityFeePerGas), now.maxPriorityFeePerGas),
  }
  const maxFeePerGas = larger(bumped.maxFeePerGas, bumped.maxPriorityFeePerGas)
  if (maxFeePerGas <= maxFeeCap) return { ...bumped, maxFeePerGas }
  // The current fees exceed the cap, but an increase of the old fees by an eighth may still be within the cap.
  const least = byAnEighth(before.maxFeePerGas)
  const tip = byAnEighth(before.maxPriorityFeePerGas)
  if (least > maxFeeCap || tip > maxFeeCap) return undefined
  return { maxFeePerGas: maxFeeCap, maxPriorityFeePerGas: tip }
}

/** Limits fees to the cap: waiting is better than paying any price. */
export function cappedFees(fees: Fees, maxFeeCap: bigint): Fees {
  const maxFeePerGas = smaller(fees.maxFeePerGas, maxFeeCap)
  return { maxFeePerGas, maxPriorityFeePerGas: smaller(fees.maxPriorityFeePerGas, maxFeePerGas) }
}

function byAnEighth(fee: bigint): bigint {
  return fee + larger(1n, (fee + 7n) / 8n)
}

function larger(a: bigint, b: bigint): bigint {
  return a > b ? a : b
}

function smaller(a: bigint, b: bigint): bigint {
  return a < b ? a : b
}
