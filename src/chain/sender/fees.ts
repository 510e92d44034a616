/** Fees offered for inclusion in a block. Fees are `bigint` in wei, because gas prices have no upper bound. */

export const WEI_PER_GWEI = 1_000_000_000n

export type Fees = {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
}

/**
 * Returns fees that stay high enough until the base fee has doubled. After that, the transaction must be signed again.
 */
export function freshFees(baseFee: bigint, tip: bigint): Fees {
  return { maxFeePerGas: 2n * baseFee + tip, maxPriorityFeePerGas: tip }
}

/**
 * Returns the fees for the replacement of a transaction that offered the fees `before`. Raises both fields by at least
 * an eighth, which the strictest nodes require. Raises them to the current fees `now` if these are higher and
 * `maxFeeCap` allows it. Returns undefined if even an increase by an eighth exceeds `maxFeeCap`.
 */
export function bumpedFees(before: Fees, now: Fees, maxFeeCap: bigint): Fees | undefined {
  const bumped = {
    maxFeePerGas: larger(byAnEighth(before.maxFeePerGas), now.maxFeePerGas),
    maxPriorityFeePerGas: larger(byAnEighth(before.maxPriorityFeePerGas), now.maxPriorityFeePerGas),
  }
  const maxFeePerGas = larger(bumped.maxFeePerGas, bumped.maxPriorityFeePerGas)
  if (maxFeePerGas <= maxFeeCap) return { ...bumped, maxFeePerGas }
  // `bumped` exceeds the cap. If the fees `before` plus an eighth do not exceed it, offer the cap as the maximum fee.
  const least = byAnEighth(before.maxFeePerGas)
  const tip = byAnEighth(before.maxPriorityFeePerGas)
  if (least > maxFeeCap || tip > maxFeeCap) return undefined
  return { maxFeePerGas: maxFeeCap, maxPriorityFeePerGas: tip }
}

/**
 * Limits fees to the cap. While the base fee exceeds the cap, no block includes the transaction: waiting is better than
 * paying any price.
 */
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
