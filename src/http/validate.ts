/**
 * Validates input against a schema and normalises it. No other file normalises input. A schema is compiled once, at its
 * first use, because compiling the schemas of all routes would take a tenth of a front's start time.
 */

import { strict as assert } from 'node:assert'
import type { TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import { Settings } from 'typebox/system'
import { type Rejection, reject } from '#domain/rejection.ts'
import { clipped, joined, pathOfPointer } from './field-path.ts'
import { scalarOf } from './schemas.ts'

// By default, the library reports too few flaws for a body in which every field is invalid.
Settings.Set({ maxErrors: 64 })

/** Maximum number of flaws in one report. Further flaws are left out. */
const FLAWS_MAX = 32
/**
 * Maximum number of unknown keys of one object that are reported one by one. If there are more, only the first is
 * reported.
 */
const UNKNOWN_KEYS_MAX = 8

export type Validator = {
  /** Returns whether the value is valid. */
  readonly fits: (value: unknown) => boolean
  /** Returns the first flaw; call it only with an invalid value. */
  readonly flaw: (value: unknown) => Rejection
  /** Returns every flaw, each field once; none if the value is valid. */
  readonly flaws: (value: unknown) => Rejection[]
  /** Normalises a valid value; objects are changed in place. */
  readonly normalise: ((value: unknown) => unknown) | undefined
}

/** JSON Schema, with the keywords that the functions in this folder read. */
export type SchemaNode = {
  readonly type?: string
  readonly properties?: Readonly<Record<string, TSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | TSchema
  readonly items?: TSchema
  readonly maxItems?: number
  readonly anyOf?: readonly TSchema[]
  readonly allOf?: readonly TSchema[]
  readonly oneOf?: readonly TSchema[]
}

/** Returns a function that compiles the schema when it is first called. */
function compiledAtFirstUse(schema: TSchema) {
  let compiled: ReturnType<typeof Compile> | undefined
  return () => (compiled ??= Compile(schema))
}

export function compileValidator(schema: TSchema): Validator {
  assertClosed(schema, '')
  const compiled = compiledAtFirstUse(schema)
  const errors = (value: unknown) => compiled().Errors(value) as readonly Flaw[]
  return {
    // `excess` is not needed here, because `Check` rejects oversized values at low cost: it skips the items of an array
    // that exceeds its `maxItems`, and rejects an object with unknown keys.
    fits: (value) => compiled().Check(value),
    flaw: (value) => excess(schema, value, '') ?? rejectionOf(schema, errors(value)),
    flaws(value) {
      const tooMuch = excess(schema, value, '')
      return tooMuch === undefined ? rejectionsOf(schema, errors(value)) : [tooMuch]
    },
    normalise: compileNormaliser(schema),
  }
}

/** One parameter of a path or a query. Parameters are validated one by one as they are read. */
export type Parameter = {
  readonly name: string
  readonly required: boolean
  readonly fits: (value: string) => boolean
  readonly flaw: (value: string) => Rejection
  readonly normalise: ((value: string) => unknown) | undefined
}

export function compileParameters(schema: TSchema | undefined): Parameter[] {
  if (schema === undefined) return []
  assertClosed(schema, '')
  const { properties = {}, required = [] } = schema as SchemaNode
  return Object.entries(properties).map(([name, part]) => {
    const compiled = compiledAtFirstUse(part)
    return {
      name,
      required: required.includes(name),
      fits: scalarOf(part)?.check ?? ((value) => compiled().Check(value)),
      flaw: (value) => {
        const expected = expectation(part, compiled().Errors(value) as readonly Flaw[])
        return reject('INVALID_FIELD', name, `${name} ${expected}`)
      },
      normalise: compileNormaliser(part),
    }
  })
}

/**
 * Throws unless every object of the schema forbids unknown fields. Otherwise a request with a misspelt field would be
 * accepted.
 */
function assertClosed(schema: TSchema, path: string): void {
  const node = schema as SchemaNode
  if (node.properties !== undefined) {
    assert.equal(
      node.additionalProperties,
      false,
      `the schema of the input object ${path || 'at the top'} must have additionalProperties: false`,
    )
    for (const [key, part] of Object.entries(node.properties)) assertClosed(part, joined(path, key))
  }
  if (node.items !== undefined) assertClosed(node.items, `${path}[]`)
  for (const part of [...(node.anyOf ?? []), ...(node.allOf ?? []), ...(node.oneOf ?? [])]) {
    assertClosed(part, path)
    assert.equal(
      compileNormaliser(part),
      undefined,
      `a union must not contain a scalar of schemas.ts: ${path}`,
    )
  }
}

function compileNormaliser(schema: TSchema): ((value: unknown) => unknown) | undefined {
  const scalar = scalarOf(schema)
  if (scalar !== undefined) return scalar.normalise as (value: unknown) => unknown
  const node = schema as SchemaNode
  if (node.properties !== undefined) {
    const steps: { key: string; normalise: (value: unknown) => unknown }[] = []
    for (const [key, part] of Object.entries(node.properties)) {
      const normalise = compileNormaliser(part)
      if (normalise !== undefined) steps.push({ key, normalise })
    }
    if (steps.length === 0) return undefined
    return (value) => {
      const object = value as Record<string, unknown>
      for (const { key, normalise } of steps) {
        const part = object[key]
        if (part !== undefined) object[key] = normalise(part)
      }
      return object
    }
  }
  if (node.items !== undefined) {
    const normalise = compileNormaliser(node.items)
    if (normalise === undefined) return undefined
    return (value) => (value as unknown[]).map(normalise)
  }
  return undefined
}

/**
 * Returns a rejection if an array exceeds its `maxItems`, or if an object has over `UNKNOWN_KEYS_MAX` more keys than
 * its schema has properties. Listing all flaws of such a value would cost a thousand times as much as validating a
 * valid value.
 */
function excess(schema: TSchema, value: unknown, path: string): Rejection | undefined {
  const { properties, items, maxItems } = schema as SchemaNode
  if (typeof value !== 'object' || value === null) return undefined
  if (Array.isArray(value)) {
    if (maxItems !== undefined && value.length > maxItems) {
      const name = path === '' ? 'the request body' : path
      return reject('INVALID_FIELD', path, `${name} must have at most ${maxItems} items`)
    }
    return items === undefined
      ? undefined
      : first(value, (item, at) => excess(items, item, joined(path, at)))
  }
  if (properties === undefined) return undefined
  const keys = Object.keys(value)
  if (keys.length > Object.keys(properties).length + UNKNOWN_KEYS_MAX) {
    const name = clipped(joined(path, keys.find((key) => !Object.hasOwn(properties, key)) ?? ''))
    return reject('INVALID_FIELD', name, `${name} is not a field of this request`)
  }
  return first(keys, (key) => {
    const part = Object.hasOwn(properties, key) ? properties[key] : undefined
    const inner = (value as Record<string, unknown>)[key]
    return part === undefined ? undefined : excess(part, inner, joined(path, key))
  })
}

/** Returns the first rejection of an item. */
function first<T>(
  items: readonly T[],
  flawOf: (item: T, at: number) => Rejection | undefined,
): Rejection | undefined {
  for (const [at, item] of items.entries()) {
    const flaw = flawOf(item, at)
    if (flaw !== undefined) return flaw
  }
  return undefined
}

type Flaw = {
  readonly keyword: string
  readonly schemaPath: string
  readonly instancePath: string
  readonly message: string
  readonly params: {
    readonly requiredProperties?: readonly string[]
    readonly additionalProperties?: readonly string[]
    readonly allowedValue?: unknown
    readonly type?: string | readonly string[]
  }
}

function rejectionOf(schema: TSchema, flaws: readonly Flaw[]): Rejection {
  const flaw = flaws[0]
  assert.ok(flaw !== undefined, 'the validator must give a reason for every value that it rejects')
  const path = pathOfPointer(flaw.instancePath)
  if (flaw.keyword === 'required') {
    const name = joined(path, flaw.params.requiredProperties?.[0] ?? '')
    return reject('MISSING_FIELD', name, `${name} is required`)
  }
  if (flaw.keyword === 'additionalProperties' || flaw.schemaPath.endsWith('additionalProperties')) {
    const name = clipped(
      flaw.keyword === 'additionalProperties'
        ? joined(path, flaw.params.additionalProperties?.[0] ?? '')
        : path,
    )
    return reject('INVALID_FIELD', name, `${name} is not a field of this request`)
  }
  const sentence = scalarAt(schema, flaw.instancePath)?.sentence
  if (sentence !== undefined) return reject('INVALID_FIELD', path, sentence)
  const expected = expectation(schema, flaws)
  if (path === '') return reject('INVALID_FIELD', undefined, `the request body ${expected}`)
  return reject('INVALID_FIELD', path, `${path} ${expected}`)
}

function rejectionsOf(schema: TSchema, flaws: readonly Flaw[]): Rejection[] {
  const byField = new Map<string | undefined, Rejection>()
  for (const [at, flaw] of flaws.entries()) {
    // The library reports all missing properties of an object as one flaw, and all unknown properties as another. Split
    // each of these flaws into one flaw per property.
    const { requiredProperties, additionalProperties } = flaw.params
    const each = [
      ...(requiredProperties ?? []).map((name) => ({ requiredProperties: [name] })),
      ...(additionalProperties ?? []).map((name) => ({ additionalProperties: [name] })),
    ]
    for (const params of each.length === 0 ? [flaw.params] : each) {
      if (byField.size >= FLAWS_MAX) return [...byField.values()]
      const rejection = rejectionOf(schema, [{ ...flaw, params }, ...flaws.slice(at + 1)])
      if (!byField.has(rejection.field)) byField.set(rejection.field, rejection)
    }
  }
  return [...byField.values()]
}

/**
 * Returns the requirement that the value violates, such as `must be a string`, for the end of an error message. The
 * first flaw decides which requirement it is.
 */
function expectation(schema: TSchema, flaws: readonly Flaw[]): string {
  const flaw = flaws[0]
  assert.ok(flaw !== undefined, 'the validator must give a reason for every value that it rejects')
  if (flaw.keyword === '~refine') {
    const scalar = scalarAt(schema, flaw.instancePath)
    if (scalar !== undefined) return scalar.expects
  }
  const constants = flaws
    .filter((one) => one.keyword === 'const' && one.instancePath === flaw.instancePath)
    .map((one) => String(one.params.allowedValue))
  if (constants.length > 0) return `must be one of ${constants.join(', ')}`
  if (flaw.keyword === 'type') return `must be ${withArticle(String(flaw.params.type))}`
  return flaw.message
}

function withArticle(type: string): string {
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`
}

/** Returns the scalar type of the field at a JSON pointer; undefined if that field has none. */
function scalarAt(schema: TSchema, pointer: string): ReturnType<typeof scalarOf> {
  let at: TSchema | undefined = schema
  for (const step of pointer.split('/').slice(1)) {
    const node: SchemaNode | undefined = at
    at = node?.items ?? node?.properties?.[step]
  }
  return at === undefined ? undefined : scalarOf(at)
}
