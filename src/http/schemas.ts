/**
 * The scalars of the API as TypeBox schemas. Each one validates its input, describes the expected value in words, and
 * normalises the input to Sibyl's internal form. Its static type is the type of the normalised value. `validate.ts`
 * applies the scalars.
 */

import Type, { type TSchema, type TUnsafe } from 'typebox'
import {
  type Address,
  type MarketId,
  parseUint64,
  parseUint256,
  UINT64_MAX,
  UINT256_PATTERN,
  type Uint64,
  type Uint256,
} from '#domain/ids.ts'

/** Behaviour of a scalar, attached to its schema. The property is not enumerable, so it does not appear in JSON. */
type Scalar = {
  readonly check: (value: unknown) => boolean
  readonly normalise: (value: never) => unknown
  readonly expects: string
  /** The whole error message, if the API contract fixes it. */
  readonly sentence?: string
  /** Schema of the scalar in the OpenAPI document, for values in JSON. */
  readonly inBody: TSchema
  /** Schema of the scalar for values as text, in a path or a query. */
  readonly inText: TSchema
}

const SCALAR = '~scalar'

/** Returns the scalar of a schema, even if the schema is wrapped in `Type.Optional`. */
export function scalarOf(schema: TSchema): Scalar | undefined {
  return (schema as { [SCALAR]?: Scalar })[SCALAR]
}

export type ScalarOptions = {
  readonly description?: string
  readonly examples?: readonly unknown[]
  readonly default?: unknown
}

function scalar<T>(
  check: (value: unknown) => boolean,
  meaning: {
    readonly normalise: (value: never) => T
    readonly expects: string
    readonly inBody: TSchema
    readonly inText?: TSchema
  },
  options: ScalarOptions,
): TUnsafe<T> {
  const schema = Type.Refine(Type.Unsafe<T>({ ...options }), check)
  const value: Scalar = { check, ...meaning, inText: meaning.inText ?? meaning.inBody }
  // The property is not enumerable, so that it stays out of the document, and configurable, so that TypeBox can copy
  // it.
  Object.defineProperty(schema, SCALAR, { value, configurable: true, writable: true })
  return schema
}

/** Sets a fixed error sentence for the scalar of a schema, in place. Returns the schema. */
export function saying<T>(sentence: string, schema: TUnsafe<T>): TUnsafe<T> {
  const value = { ...scalarOf(schema), sentence }
  return Object.defineProperty(schema, SCALAR, { value, configurable: true, writable: true })
}

const ADDRESS_PATTERN = '^0x[0-9a-fA-F]{40}$'
const BYTES32_PATTERN = '^0x[0-9a-fA-F]{64}$'
const DECIMAL_PATTERN = '^(0|[1-9][0-9]{0,19})$'
const DECIMAL = new RegExp(DECIMAL_PATTERN)
const SIGNED_DECIMAL = /^-?(0|[1-9][0-9]{0,19})$/

/**
 * Returns the schema of hex with a fixed number of bytes. Upper case is accepted and normalised to lower
 * case.
 */
function hex<T extends string>(
  pattern: string,
  expects: string,
  format: string,
  options: ScalarOptions,
): TUnsafe<T> {
  const expression = new RegExp(pattern)
  return scalar<T>(
    (value) => typeof value === 'string' && expression.test(value),
    {
      normalise: (value: string) => value.toLowerCase() as T,
      expects,
      inBody: { type: 'string', format, pattern },
    },
    options,
  )
}

/** 20 bytes of hex. */
export function address(options: ScalarOptions = {}): TUnsafe<Address> {
  return hex<Address>(ADDRESS_PATTERN, 'must be 0x and 40 hex digits', 'address', options)
}

/**
 * Returns the schema of an address (20 bytes of hex) whose letter case is kept, because a signature covers the text.
 */
export function addressKeepingCase(options: ScalarOptions = {}): TUnsafe<string> {
  const expression = new RegExp(ADDRESS_PATTERN)
  return scalar<string>(
    (value) => typeof value === 'string' && expression.test(value),
    {
      normalise: (value: string) => value,
      expects: 'must be 0x and 40 hex digits',
      inBody: { type: 'string', format: 'address', pattern: ADDRESS_PATTERN },
    },
    options,
  )
}

/** Returns the schema of 32 bytes of hex: a market id, an order hash, a transaction hash. */
export function bytes32<T extends string = string>(options: ScalarOptions = {}): TUnsafe<T> {
  return hex<T>(BYTES32_PATTERN, 'must be 0x and 64 hex digits', 'bytes32', options)
}

/** Returns the schema of a market's id, or of the address of its contract. */
export function marketName(
  options: ScalarOptions = {},
): TUnsafe<{ readonly marketId: MarketId } | { readonly contractAddress: Address }> {
  const pattern = '^0x(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})$'
  const expression = new RegExp(pattern)
  return scalar(
    (value) => typeof value === 'string' && expression.test(value),
    {
      normalise: (value: string) => {
        const name = value.toLowerCase()
        return name.length === 42
          ? { contractAddress: name as Address }
          : { marketId: name as MarketId }
      },
      expects: 'must be 0x and 40 hex digits (an address) or 64 hex digits (a market id)',
      inBody: { type: 'string', pattern },
    },
    options,
  )
}

/**
 * Returns the schema of an unsigned 64-bit integer, as a JSON integer or decimal text; normalised to decimal
 * text.
 */
export function uint64(options: ScalarOptions = {}): TUnsafe<Uint64> {
  const text = { type: 'string', pattern: DECIMAL_PATTERN }
  return scalar<Uint64>(
    (value) => {
      if (typeof value === 'number') return Number.isSafeInteger(value) && value >= 0
      if (typeof value === 'bigint') return value >= 0n && value <= UINT64_MAX
      return typeof value === 'string' && parseUint64(value) !== undefined
    },
    {
      normalise: (value: number | bigint | string) => String(value) as Uint64,
      expects: 'must be an integer from 0 to 18446744073709551615, as a number or a decimal string',
      inBody: { anyOf: [{ type: 'integer', format: 'uint64', minimum: 0 }, text] },
      inText: { type: 'integer', format: 'uint64', minimum: 0 },
    },
    options,
  )
}

/** Returns the schema of an unsigned 256-bit integer, as decimal text: the only form that the API accepts. */
export function uint256(options: ScalarOptions = {}): TUnsafe<Uint256> {
  return scalar<Uint256>(
    (value) => typeof value === 'string' && parseUint256(value) !== undefined,
    {
      normalise: (value: Uint256) => value,
      expects: 'must be an integer from 0 to 2^256 - 1, as a decimal string',
      inBody: { type: 'string', pattern: UINT256_PATTERN },
    },
    options,
  )
}

/** Returns the schema of one of two integers. */
export function oneOfTwo<const First extends number, const Second extends number>(
  first: First,
  second: Second,
  options: ScalarOptions = {},
): TUnsafe<First | Second> {
  return scalar<First | Second>(
    (value) => value === first || value === second,
    {
      normalise: (value: First | Second) => value,
      expects: `must be ${first} or ${second}`,
      inBody: { type: 'integer', enum: [first, second] },
    },
    options,
  )
}

/** Returns the schema of a safe integer, as a JSON number or decimal text; normalised to a number. */
export function safeInteger(
  options: ScalarOptions & { readonly min?: number; readonly max?: number } = {},
): TUnsafe<number> {
  const { min = 0, max = Number.MAX_SAFE_INTEGER, ...rest } = options
  const integer = { type: 'integer', minimum: min, maximum: max }
  return scalar<number>(
    (value) => {
      if (typeof value === 'string') {
        if (!DECIMAL.test(value)) return false
      } else if (typeof value !== 'number') return false
      const number = Number(value)
      return Number.isSafeInteger(number) && number >= min && number <= max
    },
    {
      normalise: (value: number | string) => Number(value),
      expects: `must be an integer from ${min} to ${max}`,
      inBody: { anyOf: [integer, { type: 'string', pattern: DECIMAL_PATTERN }] },
      inText: integer,
    },
    rest,
  )
}

/**
 * Returns the schema of an integer whose range is checked elsewhere, with an error code of its own. The schema accepts
 * any safe integer, but the OpenAPI document shows the range.
 */
export function ruledInteger(
  range: { readonly min: number; readonly max: number },
  options: ScalarOptions = {},
): TUnsafe<number> {
  const integer = { type: 'integer', minimum: range.min, maximum: range.max }
  return scalar<number>(
    (value) =>
      typeof value === 'string'
        ? SIGNED_DECIMAL.test(value) && Number.isSafeInteger(Number(value))
        : Number.isSafeInteger(value),
    {
      // Adding 0 turns the negative zero of '-0' into 0.
      normalise: (value: number | string) => Number(value) + 0,
      expects: `must be an integer from ${range.min} to ${range.max}`,
      inBody: { anyOf: [integer, { type: 'string', pattern: DECIMAL_PATTERN }] },
      inText: integer,
    },
    options,
  )
}

/** Returns the schema of a boolean; in a query it is the text `true` or `false`. */
export function flag(options: ScalarOptions = {}): TUnsafe<boolean> {
  return scalar<boolean>(
    (value) => typeof value === 'boolean' || value === 'true' || value === 'false',
    {
      normalise: (value: boolean | string) => value === true || value === 'true',
      expects: 'must be true or false',
      inBody: { type: 'boolean' },
    },
    options,
  )
}

/** Returns the schema of one of the given words. */
export function oneOf<const Words extends readonly string[]>(
  words: Words,
  options: ScalarOptions = {},
): TUnsafe<Words[number]> {
  return scalar<Words[number]>(
    (value) => typeof value === 'string' && words.includes(value),
    {
      normalise: (value: Words[number]) => value,
      expects: `must be one of ${words.join(', ')}`,
      inBody: { type: 'string', enum: words },
    },
    options,
  )
}
