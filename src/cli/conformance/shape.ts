/** Shapes of answers: fields and their kinds. Additional fields are allowed. */

import { Mismatch } from './mismatch.ts'

type Kind = { readonly name: string; readonly fits: (value: unknown) => boolean }

export type Shape = Kind | readonly [Shape] | { readonly [field: string]: Shape }

const kind = (name: string, fits: (value: unknown) => boolean): Kind => ({ name, fits })
const matches = (name: string, pattern: RegExp): Kind =>
  kind(name, (value) => typeof value === 'string' && pattern.test(value))

export const PRESENT = kind('a field', (value) => value !== undefined)
export const TEXT = kind('text', (value) => typeof value === 'string')
export const BOOL = kind('true or false', (value) => typeof value === 'boolean')
export const NUMBER = kind('a number', (value) => typeof value === 'number')
export const INTEGER = kind('an integer', Number.isSafeInteger)
export const NATURAL = kind(
  'an integer from 0 on',
  (value) => Number.isSafeInteger(value) && (value as number) >= 0,
)
/** A non-negative integer; integers above 2^53 are parsed as text. */
export const SUM = kind('an integer from 0 on', (value) => /^\d+$/.test(String(value)))
export const BIT = kind('0 or 1', (value) => value === 0 || value === 1)
export const PRICE = kind(
  'an integer from 1 to 999999',
  (value) => Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 999_999,
)
export const BYTES32 = matches('0x and 64 hex digits', /^0x[0-9a-fA-F]{64}$/)
export const ADDRESS = matches('0x and 40 hex digits', /^0x[0-9a-fA-F]{40}$/)
/** A transaction hash; empty if no transaction has been sent yet. */
export const TX_HASH = matches('a transaction hash or empty', /^(0x[0-9a-fA-F]{64})?$/)
export const LIST = kind('a list', Array.isArray)
export const CATEGORY = matches('a category', /^(defi|protocol|stablecoin|general)$/)
export const exactly = (wanted: unknown): Kind =>
  kind(JSON.stringify(wanted), (value) => value === wanted)

export function demandShape(what: string, value: unknown, shape: Shape): void {
  const wrong = wrongIn(value, shape, what)
  if (wrong !== undefined) throw new Mismatch(`${wrong.at} to be ${wrong.kind}`, wrong.seen)
}

type Wrong = { readonly at: string; readonly kind: string; readonly seen: unknown }

function wrongIn(value: unknown, shape: Shape, at: string): Wrong | undefined {
  if (isKind(shape)) return shape.fits(value) ? undefined : { at, kind: shape.name, seen: value }
  if (isList(shape)) {
    if (!Array.isArray(value)) return { at, kind: 'a list', seen: value }
    return firstOf(value, (each, index) => wrongIn(each, shape[0], `${at}[${index}]`))
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { at, kind: 'an object', seen: value }
  }
  return firstOf(Object.entries(shape), ([field, inner]) =>
    wrongIn((value as Record<string, unknown>)[field], inner as Shape, `${at}.${field}`),
  )
}

function firstOf<T>(
  items: readonly T[],
  wrong: (item: T, index: number) => Wrong | undefined,
): Wrong | undefined {
  for (const [index, item] of items.entries()) {
    const found = wrong(item, index)
    if (found !== undefined) return found
  }
  return undefined
}

function isKind(shape: Shape): shape is Kind {
  return typeof (shape as Kind).fits === 'function'
}

function isList(shape: Shape): shape is readonly [Shape] {
  return Array.isArray(shape)
}
