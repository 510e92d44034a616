/**
 * Parses text that the user types into the order ticket. The result is an exact integer, or a sentence about the error.
 */

import { isPrice, isShares } from '#domain/money.ts'
import { trimEnd } from '#domain/trim-end.ts'

export type Read = { readonly value: number } | { readonly error: string }

/** Matches a number with a point as the decimal separator. */
const PLAIN = /^([0-9]{1,15})(?:\.([0-9]*))?$/
/** Matches a number with grouped thousands, which is also the page's own format: `100,000.00`. */
const GROUPED = /^[1-9][0-9]{0,2}(?:[,' \u00a0\u202f][0-9]{3})+(?:\.[0-9]*)?$/
const SEPARATORS = /[,' \u00a0\u202f]/g
const DECIMALS = 6
const COMMA_WORDS =
  'A comma separates thousands, as in 1,000. Write decimals with a point, as in 1.5.'

/** Parses a number exactly, by joining digits instead of multiplying: `42.3` with four decimals becomes 423000. */
function scaled(text: string, decimals: number, example: string): Read {
  const typed = text.trim().replace(/^\./, '0.')
  const digits = GROUPED.test(typed) ? typed.replace(SEPARATORS, '') : typed
  const [, whole, fraction = ''] = PLAIN.exec(digits) ?? []
  if (whole === undefined) return { error: typed.includes(',') ? COMMA_WORDS : example }
  if (/[1-9]/.test(fraction.slice(decimals))) return { error: example }
  const value = Number(whole + fraction.slice(0, decimals).padEnd(decimals, '0'))
  return Number.isSafeInteger(value) ? { value } : { error: 'The number is too large.' }
}

/** Parses a price in cents to millionths of a dollar: `42.3` becomes 423000. */
export function readCents(text: string): Read {
  if (text.trim() === '') return { error: 'Enter a price.' }
  const read = scaled(text, DECIMALS - 2, 'The price must be a number of cents, such as 42.3.')
  if ('error' in read || isPrice(read.value)) return read
  return { error: 'The price must be between 0 and 100 cents.' }
}

/**
 * Returns the price in cents that the trader probably meant, if the typed text looks like a price in dollars. The API
 * writes 42 cents as `0.42`, but in this field `0.42` means 0.42 cents. Returns undefined for any other text.
 */
export function meantCents(text: string): string | undefined {
  const typed = text.trim()
  if (!/^0?\.[0-9]+$/.test(typed)) return undefined
  const read = readCents(typed)
  return 'value' in read && isPrice(read.value * 100) ? centsText(read.value * 100) : undefined
}

export function readShares(text: string): Read {
  if (text.trim() === '') return { error: 'Enter the number of shares.' }
  const read = scaled(text, DECIMALS, 'The number of shares must be a number such as 10 or 2.5.')
  if ('error' in read || isShares(read.value)) return read
  return { error: 'The number of shares must be greater than 0.' }
}

/** Parses dollars: `12.50` is 12500000. */
export function readDollars(text: string): Read {
  if (text.trim() === '') return { error: 'Enter an amount.' }
  const read = scaled(text, DECIMALS, 'The amount must be a number such as 12.50.')
  if ('error' in read || read.value > 0) return read
  return { error: 'The amount must be greater than 0.' }
}

/** Returns whether the typed number has grouped thousands. In that case the page also shows the parsed number. */
export function hasGroups(text: string): boolean {
  return GROUPED.test(text.trim())
}

/** Formats a number as a user would type it: without grouped thousands and without trailing zeros. */
export function plainText(value: number, decimals = DECIMALS): string {
  const digits = String(value).padStart(decimals + 1, '0')
  const whole = digits.slice(0, -decimals)
  const fraction = trimEnd(digits.slice(-decimals), '0')
  return fraction === '' ? whole : `${whole}.${fraction}`
}

/** Formats a price as cents: 423000 is `42.3`. */
export function centsText(price: number): string {
  return plainText(price, DECIMALS - 2)
}
