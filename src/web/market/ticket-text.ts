/** What is typed into the ticket, as integers: exact, and in words where it is none. */

import { isPrice, isShares } from '#domain/money.ts'

type Read = { readonly value: number } | { readonly error: string }

const DECIMAL = /^([0-9]{1,12})(?:[.,]([0-9]*))?$/
const DECIMALS = 6

/** Digits are joined and never multiplied: `42.3` with four decimals is 42 and 3000. */
function scaled(text: string, decimals: number): number | undefined {
  const [, whole, fraction = ''] = DECIMAL.exec(text.trim().replace(/^[.,]/, '0.')) ?? []
  if (whole === undefined || /[1-9]/.test(fraction.slice(decimals))) return undefined
  const value = Number(whole + fraction.slice(0, decimals).padEnd(decimals, '0'))
  return Number.isSafeInteger(value) ? value : undefined
}

/** Cents of one share: `42.3` is 423000. */
export function readCents(text: string): Read {
  if (text.trim() === '') return { error: 'Enter a price.' }
  const value = scaled(text, DECIMALS - 2)
  if (value === undefined) return { error: 'The price is not a number of cents like 42.3.' }
  if (!isPrice(value)) return { error: 'The price has to be between 0 and 100 cents.' }
  return { value }
}

export function readShares(text: string): Read {
  if (text.trim() === '') return { error: 'Enter how many shares.' }
  const value = scaled(text, DECIMALS)
  if (value === undefined) return { error: 'The number of shares is not one like 10 or 2.5.' }
  if (!isShares(value)) return { error: 'The number of shares has to be above zero.' }
  return { value }
}

/** Dollars: `12.50` is 12500000. */
export function readDollars(text: string): Read {
  const value = scaled(text, DECIMALS)
  if (value === undefined || value === 0) return { error: 'The amount is not one like 12.50.' }
  return { value }
}

/** As it is typed: no groups, no zeros at the end. */
export function plainText(value: number, decimals = DECIMALS): string {
  const digits = String(value).padStart(decimals + 1, '0')
  const whole = digits.slice(0, -decimals)
  const fraction = digits.slice(-decimals).replace(/0+$/, '')
  return fraction === '' ? whole : `${whole}.${fraction}`
}

/** 423000 is `42.3`. */
export function centsText(price: number): string {
  return plainText(price, DECIMALS - 2)
}
