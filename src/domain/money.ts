/**
 * Amounts of money, as integers with six decimals. Every multiplication and division of money in Sibyl is here, and the
 * name of each function states its rounding. No function here returns a fraction or loses a unit.
 *
 * Prices and the sizes of single orders are safe integers (`number`), because they are keys of price levels and are
 * used in every match. Sums over many orders or trades can exceed the safe range, so they are `bigint`.
 */

declare const priceBrand: unique symbol
declare const sharesBrand: unique symbol

/** One dollar of collateral, one share, or a probability of one, in millionths. */
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
 * Returns the cost of a fill in millionths of collateral, rounded up, so that a seller never receives less than price ×
 * size. The settlement contract computes the same amount.
 *
 * `price * size` can reach 9 × 10^21, which a `number` cannot represent exactly. So the whole shares and the rest of
 * the size are multiplied separately, and both products are exact.
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
 * The maker's amount is `costCeil(price, size)`, as in any fill. Both amounts add up to `size`, because one YES share
 * and one NO share together are worth one dollar.
 *
 * Example: 3 millionths of a share at 0.40. The maker's amount is 1.2 millionths of a dollar, rounded up to 2. The
 * taker's amount is the remaining 1.
 */
export function complementCost(price: Price, size: Shares): number {
  return size - costCeil(price, size)
}

/**
 * Returns the value of `size` at `price`, rounded down. The caller may compare it with an integer minimum, because the
 * rounding never changes the result of that comparison.
 */
export function notionalFloor(price: Price, size: Shares): number {
  const whole = Math.floor(size / ONE)
  const rest = size - whole * ONE
  return price * whole + Math.floor((price * rest) / ONE)
}

/**
 * Returns `amount × part / whole`, rounded down. If a position of `whole` shares cost `amount`, the result is the cost
 * of `part` of these shares.
 */
export function proportionFloor(amount: bigint, part: bigint, whole: bigint): bigint {
  if (whole <= 0n || part < 0n || part > whole) {
    throw new RangeError('proportionFloor needs 0 <= part <= whole and whole > 0')
  }
  return (amount * part) / whole
}

/**
 * Splits `amount` into two halves, the first rounded up. If collateral is split into YES and NO tokens, the halves are
 * the costs of the two outcomes.
 */
export function halvesCeil(amount: bigint): readonly [bigint, bigint] {
  const larger = (amount + 1n) / 2n
  return [larger, amount - larger]
}
