/**
 * Amounts of money, as integers with six decimals. Every multiplication and division of money in Sibyl is here, and the
 * name of each function states its rounding. No function here returns a fraction or loses a unit.
 *
 * Prices and the sizes of single orders are safe integers (`number`), because they are keys of price levels and are
 * used in every match. Sums over many orders or trades can exceed the safe range, so they are `bigint`.
 */

declare const priceBrand: unique symbol
declare const sharesBrand: unique symbol

/** One whole unit: one dollar of collateral, one share, a probability of one. */
export const ONE = 1_000_000

export const PRICE_MIN = 1
export const PRICE_MAX = 999_999

/** Maximum size of an order: the largest safe integer. */
export const SIZE_MAX = Number.MAX_SAFE_INTEGER

/** Price per share in collateral, 6 decimals, 1 to 999999. */
export type Price = number & { readonly [priceBrand]: true }

/** Outcome shares of an order or fill, 6 decimals, 1 to 2^53 − 1. */
export type Shares = number & { readonly [sharesBrand]: true }

export function isPrice(value: number): value is Price {
  return Number.isInteger(value) && value >= PRICE_MIN && value <= PRICE_MAX
}

export function isShares(value: number): value is Shares {
  return Number.isSafeInteger(value) && value > 0
}

/**
 * Returns the cost of a fill in collateral, rounded up to the next unit, so that a seller never receives less than the
 * price. The settlement contract computes the same amount.
 *
 * The product can reach 9 × 10^21, so the size is split at ONE: both partial products are exact.
 */
export function costCeil(price: Price, size: Shares): number {
  const whole = Math.floor(size / ONE)
  const rest = size - whole * ONE
  return price * whole + Math.ceil((price * rest) / ONE)
}

/** Returns the price of the other outcome. Both prices add up to one dollar. */
export function complementOf(price: Price): Price {
  return (ONE - price) as Price
}

/**
 * Returns the collateral that the taker pays in a mint, or receives in a merge, for `size` shares at the maker's price.
 * The maker's amount is `costCeil(price, size)`, as in any fill. Both amounts together are exactly `size` units of
 * collateral.
 *
 * Example: 3 units at 0.40. The maker's amount is 1.2, rounded up to 2, and the taker's amount is 1.
 */
export function complementCost(price: Price, size: Shares): number {
  return size - costCeil(price, size)
}

/**
 * Returns the value of `size` at `price`, rounded down. Comparing the rounded value with an integer minimum gives the
 * same result as comparing the exact product.
 */
export function notionalFloor(price: Price, size: Shares): number {
  const whole = Math.floor(size / ONE)
  const rest = size - whole * ONE
  return price * whole + Math.floor((price * rest) / ONE)
}

/** Returns `amount × part / whole`, rounded down. Used for the cost of shares that leave a position. */
export function proportionFloor(amount: bigint, part: bigint, whole: bigint): bigint {
  if (whole <= 0n || part < 0n || part > whole) {
    throw new RangeError('proportionFloor needs 0 <= part <= whole and whole > 0')
  }
  return (amount * part) / whole
}

/** Splits `amount` into two halves, the first rounded up. The halves are the costs of the two sides of a split. */
export function halvesCeil(amount: bigint): readonly [bigint, bigint] {
  const larger = (amount + 1n) / 2n
  return [larger, amount - larger]
}
