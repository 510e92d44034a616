/** Converts the API's millionths to decimal text, which ccxt reads without rounding. */

/** Returns `'0.42'` for 420000. */
export function decimal(millionths: number | bigint | string): string {
  const value = BigInt(millionths)
  const digits = String(value < 0n ? -value : value).padStart(7, '0')
  const fraction = Number(`0.${digits.slice(-6)}`)
  const text = digits.slice(0, -6) + (fraction === 0 ? '' : String(fraction).slice(1))
  return value < 0n ? `-${text}` : text
}

/** Returns 420000 for `'0.42'` or 0.42. An amount with more decimals is rounded to a millionth. */
export function millionths(amount: number | string): number {
  return Math.round(Number(amount) * 1e6)
}
