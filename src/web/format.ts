/** Formats numbers, times and addresses for users. Amounts stay integers, so formatting causes no rounding errors. */

/** One dollar or one share, in millionths. */
export const UNIT = 1_000_000n
const DECIMALS = 6
const MINUTE_SEC = 60
const HOUR_SEC = 3_600
const DAY_SEC = 86_400
/** Text shown instead of a missing number; as wide as a digit. */
export const NOTHING = '–'

/** Formats an integer with six implied decimals, truncated to `places` decimals: 1234567 → `1.23`. */
export function decimal(amount: bigint | number, places: number): string {
  const value = BigInt(amount)
  const size = value < 0n ? -value : value
  const whole = (size / UNIT).toLocaleString('en-US')
  const part = (size % UNIT).toString().padStart(DECIMALS, '0').slice(0, places)
  // A number truncated to zero has no sign.
  const isZero = size / UNIT === 0n && /^0*$/.test(part)
  const sign = value < 0n && !isZero ? '−' : ''
  return `${sign}${whole}${places === 0 ? '' : `.${part}`}`
}

/** Formats an integer with six implied decimals exactly. Shows at least `placesMin` decimals, and more if needed. */
export function exactDecimal(amount: bigint | number, placesMin: number): string {
  const text = decimal(amount, DECIMALS)
  const least = text.length - DECIMALS + placesMin
  let end = text.length
  while (end > least && text[end - 1] === '0') end--
  return text.slice(0, text[end - 1] === '.' ? end - 1 : end)
}

/** Stablecoin: `$1,234.56`. */
export function money(amount: bigint | number, places = 2): string {
  const text = decimal(amount, places)
  return text.startsWith('−') ? `−$${text.slice(1)}` : `$${text}`
}

/** Formats profit or loss, always with a sign. */
export function signedMoney(amount: bigint | number): string {
  const text = money(amount)
  return text.startsWith('−') || /^\$[0.]*$/.test(text) ? text : `+${text}`
}

/** Formats large sums for a narrow column: `$43.1K`. */
export function shortMoney(amount: bigint | number): string {
  const value = BigInt(amount)
  for (const [letter, size] of [
    ['B', 1_000_000_000n],
    ['M', 1_000_000n],
    ['K', 1_000n],
  ] as const) {
    if (value >= size * UNIT) return `$${decimal(value / size, 1)}${letter}`
  }
  return money(value, value >= 100n * UNIT ? 0 : 2)
}

/** Formats shares with at least two places, more if necessary. */
export function shares(amount: bigint | number): string {
  return exactDecimal(amount, 2)
}

/** Formats a price in cents: 423000 → `42.3¢`. */
export function cents(price: number): string {
  return `${exactDecimal(BigInt(price) * 100n, 1)}¢`
}

/** Formats an average price to a tenth of a cent. */
export function roundCents(price: number): string {
  return cents(Math.round(price / 1_000) * 1_000)
}

/** Formats a price change: `+2.0¢`. */
export function signedCents(change: number): string {
  return change > 0 ? `+${cents(change)}` : cents(change)
}

/** Formats a price as a probability: 423000 → `42.3%`. */
export function percent(price: number): string {
  return `${decimal(BigInt(Math.round(price)) * 100n, 1)}%`
}

/** Formats the price of an asset, an integer with eight implied decimals: 6415243000000 → `64,152.43`. */
export function assetPrice(price: number, places = 2): string {
  return decimal(BigInt(price) / 100n, places)
}

/** Formats the difference between an asset's price and its strike: `+12.40`. */
export function signedDifference(difference: number): string {
  const text = assetPrice(difference)
  return text.startsWith('−') || /^[0.]*$/.test(text) ? text : `+${text}`
}

/**
 * Formats the time left as days and hours, or as hours and minutes. In the last hour, formats it as minutes and
 * seconds.
 */
export function timeLeft(seconds: number): string {
  if (seconds <= 0) return 'ended'
  const left = Math.floor(seconds)
  if (left < HOUR_SEC) return countdown(left)
  const hours = Math.floor((left % DAY_SEC) / HOUR_SEC)
  if (left < DAY_SEC) return `${hours}h ${Math.floor((left % HOUR_SEC) / MINUTE_SEC)}m`
  return `${Math.floor(left / DAY_SEC)}d ${hours}h`
}

/** Formats seconds as minutes and seconds: `14:05`. Negative numbers become `00:00`. */
export function countdown(seconds: number): string {
  const left = Math.max(0, Math.floor(seconds))
  const two = (value: number) => String(value).padStart(2, '0')
  return `${two(Math.floor(left / MINUTE_SEC))}:${two(left % MINUTE_SEC)}`
}

/** Formats the time that has passed since an event: `5m ago`. */
export function ago(seconds: number): string {
  if (seconds < MINUTE_SEC) return 'now'
  if (seconds < HOUR_SEC) return `${Math.floor(seconds / MINUTE_SEC)}m ago`
  if (seconds < DAY_SEC) return `${Math.floor(seconds / HOUR_SEC)}h ago`
  return `${Math.floor(seconds / DAY_SEC)}d ago`
}

/** `0x1234…abcd`. */
export function shortAddress(address: string): string {
  return `${address.slice(0, 6)}…${address.slice(-4)}`
}
