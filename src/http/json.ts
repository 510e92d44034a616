/**
 * Parses and writes exact JSON. `JSON.parse` alone rounds long integers, keeps the last of two equal keys and allows
 * unlimited nesting. So the text is scanned first, and the parsed value is checked against the result of the scan. A
 * text with too many values for its length is not parsed.
 *
 * Integers beyond 2^53 are returned as `bigint`. A numeral with a fraction or an exponent is returned as NaN, even
 * `1.0` and `1e3`. No request of Sibyl has such numbers, so every schema rejects the NaN and names its field.
 */

import { type Rejection, reject } from '#domain/rejection.ts'
import { clipped, joined } from './field-path.ts'

/** Maximum depth of nesting: deeper than any request body of the API. */
export const JSON_DEPTH_MAX = 16

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const COMMA = 0x2c
const MINUS = 0x2d
const ZERO = 0x30
const NINE = 0x39
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/** An integer of at most this many characters is always below 2^53. */
const SAFE_NUMERAL_LENGTH = 15
/** Length of the longest useful numeral: the sign and digits of a 64-bit integer. */
const NUMERAL_LENGTH_MAX = 21

/**
 * A body may have `VALUES_FREE` values, and one more for each `BYTES_PER_VALUE` bytes of its length. In an order, each
 * value takes 35 bytes, so orders stay far below the limit.
 */
const VALUES_FREE = 256
const BYTES_PER_VALUE = 16
/**
 * A body may have `ODD_FREE` odd numerals, and one more for each `BYTES_PER_ODD` bytes of its length. Odd numerals
 * (long integers, fractions, exponents) need a second parse.
 */
const ODD_FREE = 32
const BYTES_PER_ODD = 128

const INTEGER = /^-?(?:0|[1-9][0-9]*)$/

const decoder = new TextDecoder('utf-8', { fatal: true })

type Parsed =
  | { readonly value: unknown; readonly rejection: undefined }
  | { readonly value: undefined; readonly rejection: Rejection }

export function parseJson(bytes: ArrayBuffer | Uint8Array): Parsed {
  let text: string
  try {
    text = decoder.decode(bytes)
  } catch {
    return refused(reject('INVALID_JSON', undefined, 'the request body must be valid UTF-8'))
  }
  const shape = readShape(text)
  const misshapen = shapeFlaw(shape, bytes.byteLength)
  if (misshapen !== undefined) return refused(reject('INVALID_JSON', undefined, misshapen))
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    return refused(reject('INVALID_JSON', undefined, whereItBroke(error)))
  }
  if (countKeys(value) !== shape.keys) {
    const field = firstDuplicate(text)
    return refused(reject('INVALID_FIELD', field, `${field} must not be given more than once`))
  }
  if (shape.odd > 0)
    value = JSON.parse(text, exactNumber as (key: string, value: unknown) => unknown)
  return { value, rejection: undefined }
}

function refused(rejection: Rejection): Parsed {
  return { value: undefined, rejection }
}

/** Serialises an answer. A bigint is written as a JSON integer. */
export function writeJson(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    return JSON.stringify(value, (_key, part) => (typeof part === 'bigint' ? rawJson(part) : part))
  }
}

/**
 * Returns a sum for an answer: a number if the sum is exact as a number, otherwise a bigint. `writeJson` writes both as
 * integers. The declared type is `number`, because the schemas have only one type of integer.
 */
export function exactInteger(value: bigint): number {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : (value as unknown as number)
}

/** TypeScript's library declares neither `JSON.rawJSON` nor the source text that a reviver receives. */
const { rawJSON } = JSON as unknown as { rawJSON: (text: string) => unknown }

function rawJson(value: bigint): unknown {
  return rawJSON(value.toString())
}

function exactNumber(_key: string, value: unknown, context: { source?: string }): unknown {
  if (typeof value !== 'number') return value
  const source = context.source ?? ''
  if (source.length > NUMERAL_LENGTH_MAX || source === '-0' || !INTEGER.test(source)) {
    return Number.NaN
  }
  return Number.isSafeInteger(value) ? value : BigInt(source)
}

type Shape = {
  readonly depth: number
  readonly values: number
  readonly keys: number
  readonly odd: number
}

function shapeFlaw({ depth, values, odd }: Shape, bytes: number): string | undefined {
  if (depth > JSON_DEPTH_MAX)
    return `the request body must not nest deeper than ${JSON_DEPTH_MAX} levels`
  const valuesMax = VALUES_FREE + Math.floor(bytes / BYTES_PER_VALUE)
  if (values > valuesMax)
    return `a request body of ${bytes} bytes must have at most ${valuesMax} JSON values`
  const oddMax = ODD_FREE + Math.floor(bytes / BYTES_PER_ODD)
  if (odd <= oddMax) return undefined
  return `a request body of ${bytes} bytes must have at most ${oddMax} numbers that are long or not integers`
}

/**
 * Counts the levels, values, keys and odd numerals of a JSON text. If the text is not valid JSON, the counts are
 * meaningless, but the scan still ends.
 */
function readShape(text: string): Shape {
  let depth = 0
  let depthMax = 0
  let values = 1
  let keys = 0
  let odd = 0
  const length = text.length
  for (let at = 0; at < length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = closingQuote(text, at)
    else if (code === COMMA) values++
    else if (code === COLON) keys++
    else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      depth++
      values++
      if (depth > depthMax) depthMax = depth
    } else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth--
    else if (code === MINUS || (code >= ZERO && code <= NINE)) {
      const start = at
      let plain = code !== MINUS
      for (at++; at < length; at++) {
        const next = text.charCodeAt(at)
        if (next >= ZERO && next <= NINE) continue
        if (next === COMMA || next === CLOSE_BRACE || next === CLOSE_BRACKET || next <= 0x20) break
        plain = false
      }
      if (!plain || at - start > SAFE_NUMERAL_LENGTH) odd++
      at--
    }
  }
  return { depth: depthMax, values, keys, odd }
}

/** Returns the index of the quote that ends a string; the end of the text if there is none. */
function closingQuote(text: string, opening: number): number {
  let quote = text.indexOf('"', opening + 1)
  while (text.charCodeAt(quote - 1) === BACKSLASH) {
    let slashes = 1
    while (text.charCodeAt(quote - 1 - slashes) === BACKSLASH) slashes++
    if (slashes % 2 === 0) break
    quote = text.indexOf('"', quote + 1)
  }
  return quote === -1 ? text.length : quote
}

/**
 * Counts the keys of a parsed value. Parsing merges equal keys of an object. So if the value has fewer keys than the
 * text, the text repeats a key.
 */
function countKeys(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) {
    for (const item of value) if (typeof item === 'object') count += countKeys(item)
    return count
  }
  for (const key of Object.keys(value)) {
    count++
    const part = (value as Record<string, unknown>)[key]
    if (typeof part === 'object') count += countKeys(part)
  }
  return count
}

/** An object or array around the current position. For an object, `keys` contains the keys seen so far. */
type Level = { readonly keys: Set<string> | undefined; step: string | number }

/** Returns the path of the first repeated key; call it only if there is one. */
function firstDuplicate(text: string): string {
  const levels: Level[] = []
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    const level = levels.at(-1)
    if (code === OPEN_BRACE) levels.push({ keys: new Set(), step: '' })
    else if (code === OPEN_BRACKET) levels.push({ keys: undefined, step: 0 })
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) levels.pop()
    else if (code === COMMA && typeof level?.step === 'number') level.step++
    else if (code === QUOTE) {
      const closing = closingQuote(text, at)
      let after = closing + 1
      while (text.charCodeAt(after) <= 0x20) after++
      if (text.charCodeAt(after) === COLON && level?.keys !== undefined) {
        const key = JSON.parse(text.slice(at, closing + 1)) as string
        level.step = key
        if (level.keys.has(key)) return pathOf(levels)
        level.keys.add(key)
      }
      at = closing
    }
  }
  return ''
}

function pathOf(levels: readonly Level[]): string {
  return clipped(levels.reduce((path, { step }) => joined(path, step), ''))
}

function whereItBroke(error: unknown): string {
  const position = error instanceof Error ? /position (\d+)/.exec(error.message)?.[1] : undefined
  return position === undefined
    ? 'the request body is not valid JSON'
    : `the request body is not valid JSON at position ${position}`
}
