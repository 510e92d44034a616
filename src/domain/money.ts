/**
 * Money, in integers of six decimals. Every multiplication and division of money in Sibyl is here,
 * with its rounding in its name. Nothing in this file ever produces a fraction or loses a unit.
 *
 * Prices and the sizes of single orders are safe integers (`number`), because they key levels and
 * are touched on every match. Sums over many orders or trades can leave the safe range: they are
 * `bigint`.
 */

declare const priceBrand: unique symbol
declare const sharesBrand: unique symbol

/** One whole unit: one dollar of collateral, one share, a probability of one. */
export const ONE = 1_000_000

export const PRICE_MIN = 1
export const PRICE_MAX = 999_999

/** The largest size of one order, the largest safe integer. */
export const SIZE_MAX = Number.MAX_SAFE_INTEGER

/** A price of one share in collateral, 6 decimals, 1 to 999999. */
export type Price = number & { readonly [priceBrand]: true }

/** An amount of outcome shares of one order or fill, 6 decimals, 1 to 2^53 − 1. */
export type Shares = number & { readonly [sharesBrand]: true }

export function isPrice(value: number): value is Price {
  return Number.isInteger(value) && value >= PRICE_MIN && value <= PRICE_MAX
}

export function isShares(value: number): value is Shares {
  return Number.isSafeInteger(value) && value > 0
}

/**
 * What a fill of `size` at `price` costs in collateral, rounded up to the next unit, so that a
 * seller is never paid less than the price. The settlement contract computes the same.
 *
 * The product can reach 9 × 10^21, so the size is split at ONE: both partial products are exact.
 */
export function costCeil(price: Price, size: Shares): number {
  const whole = Math.floor(size / ONE)
  const rest = size - whole * ONE
  return price * whole + Math.ceil((price * rest) / ONE)
}

/** What `size` at `price` is worth, rounded down: it is below a sum exactly when the product is. */
export function notionalFloor(price: Price, size: Shares): number {
  const whole = Math.floor(size / ONE)
  const rest = size - whole * ONE
  return price * whole + Math.floor((price * rest) / ONE)
}

/** The part `part / whole` of `amount`, rounded down: cost leaving a position with its shares. */
export function proportionFloor(amount: bigint, part: bigint, whole: bigint): bigint {
  if (whole <= 0n || part < 0n || part > whole) {
    throw new RangeError('proportionFloor needs 0 <= part <= whole and whole > 0')
  }
  return (amount * part) / whole
}

/** Half of `amount`, rounded up, and the other half: what each side of a split costs. */
export function halvesCeil(amount: bigint): readonly [bigint, bigint] {
  const larger = (amount + 1n) / 2n
  return [larger, amount - larger]
}
