/** Common parts of the shapes in this folder, and the type of a shape for clients. */

import Type, { type Static, type TSchema, type TSchemaOptions, type TUnsafe } from 'typebox'

/** The type of a shape for clients. All fields are read-only, because clients only read answers. */
export type Answer<Shape extends TSchema> = Frozen<Static<Shape>>

type Frozen<T> = T extends object ? { readonly [K in keyof T]: Frozen<T[K]> } : T

const TYPED = '~typed'

/** Returns the schema that `typed` has set as the static type of `schema`; undefined if it has set none. */
export function typeSchemaOf(schema: TSchema): TSchema | undefined {
  return (schema as { [TYPED]?: TSchema })[TYPED]
}

/**
 * Returns `schema`, but with the static type of `type`. The published documents still contain `schema`. With `type` in
 * the documents, client generators would write different code.
 */
function typed<Type extends TSchema>(schema: TSchema, type: Type): TUnsafe<Static<Type>> {
  // Not enumerable, so that the property stays out of the documents. Configurable, so that TypeBox can copy the
  // property.
  const value = { value: type, configurable: true, writable: true }
  return Object.defineProperty(Type.Unsafe<Static<Type>>(schema), TYPED, value)
}

export const TRADE_ID =
  'Id of the trade: market id, sequence number of the match, and position of the trade in the match, joined by ' +
  '`-`'

const bit = (options: TSchemaOptions) => typed(Type.Integer(options), Type.Enum([0, 1]))

export const outcome = (options: TSchemaOptions = { description: 'Outcome: 0 = YES, 1 = NO' }) =>
  bit(options)

export const side = (description = 'Side: 0 = BUY, 1 = SELL') => bit({ description })

/** Returns a schema whose static type is one of these words. The published documents describe the value as text. */
export const word = <const Words extends readonly string[]>(words: Words, description?: string) =>
  typed(
    Type.String(description === undefined ? {} : { description }),
    Type.Unsafe<Words[number]>(Type.Enum([...words])),
  )

/**
 * Returns a schema that lists the known values of a text. Its static type is `string`, because later versions may add
 * values.
 */
export const growing = (words: readonly string[]) => typed(Type.Enum([...words]), Type.String())

/** Returns a schema for two values: one of YES and one of NO. */
export const ofBoth = <Schema extends TSchema>(schema: Schema, description: string) =>
  pair(schema, `Two values, YES first, then NO: ${description}`)

export const pair = <Schema extends TSchema>(schema: Schema, description: string) =>
  typed(Type.Array(schema, { minItems: 2, maxItems: 2, description }), Type.Tuple([schema, schema]))

/** Returns a schema for an object with known members. The published documents describe it as a map. */
export const map = <Members extends Record<string, TSchema>>(item: TSchema, members: Members) =>
  typed(Type.Record(Type.String(), item), Type.Object(members))

export const orNull = <Schema extends TSchema>(schema: Schema, options: TSchemaOptions = {}) =>
  Type.Union([schema, Type.Null()], options)

export const nextBefore = orNull(Type.String(), {
  description: 'Value of `before` for the next page; null on the last page',
})

export const nextCursor = orNull(Type.String(), {
  description: 'Value of `cursor` for the next page; null on the last page',
})
