/** What is offered for a place in a block. In wei; `bigint`, because prices have no upper bound. */

export const WEI_PER_GWEI = 1_000_000_000n

export type Fees = {
  readonly maxFeePerGas: bigint
  readonly maxPriorityFeePerGas: bigint
}

/** Enough for the base fee to double before the transaction has to be signed again. */
export function freshFees(baseFee: bigint, tip: bigint): Fees {
  return { maxFeePerGas: 2n * baseFee + tip, maxPriorityFeePerGas: tip }
}

/**
 * Fees that replace a transaction which offered `before`: both fields by an eighth at least, since
 * that is what the strictest node wants, and never below what is asked for now. Undefined when that
 * is more than `maxFeeCap`.
 */
export function bumpedFees(before: Fees, now: Fees, maxFeeCap: bigint): Fees | undefined {
  const bumped = {
    maxFeePerGas: larger(byAnEighth(before.maxFeePerGas), now.maxFeePerGas),
    maxPriorityFeePerGas: larger(byAnEighth(before.maxPriorityFeePerGas), now.maxPriorityFeePerGas),
  }
  const maxFeePerGas = larger(bumped.maxFeePerGas, bumped.maxPriorityFeePerGas)
  if (maxFeePerGas <= maxFeeCap) return { ...bumped, maxFeePerGas }
  // What is asked for may be beyond the cap while an eighth more is not.
  const least = byAnEighth(before.maxFeePerGas)
  const tip = byAnEighth(before.maxPriorityFeePerGas)
  if (least > maxFeeCap || tip > maxFeeCap) return undefined
  return { maxFeePerGas: maxFeeCap, maxPriorityFeePerGas: tip }
}

/** At most the cap; a transaction that waits is better than one that ruins. */
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
