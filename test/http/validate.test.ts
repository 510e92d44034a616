import assert from 'node:assert/strict'
import { test } from 'node:test'
import Type from 'typebox'
import { compileValidator } from '#http/validate.ts'
import { closed } from './front-fixture.ts'

const inner = Type.Object({ c: Type.Integer(), d: Type.Optional(Type.Integer()) }, closed)
const validator = compileValidator(
  Type.Object({ a: Type.Array(inner, { maxItems: 3 }), b: Type.Optional(inner) }, closed),
)
const keys = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 1]))
const told = (value: unknown) =>
  validator.flaws(value).map(({ rejected, field }) => `${rejected} ${field}`)

test('if an object has thousands of unknown keys, validation reports only the first one', () => {
  assert.deepEqual(told({ a: [], ...keys(5_500) }), ['INVALID_FIELD k0'])
  assert.deepEqual(told({ a: [], b: keys(5_500) }), ['INVALID_FIELD b.k0'])
  assert.deepEqual(told({ a: [{ c: 1 }, keys(5_500)] }), ['INVALID_FIELD a[1].k0'])
  assert.equal(validator.flaw({ a: [], b: keys(5_500) }).field, 'b.k0')
})

test('an array with too many items is refused before its items are checked', () => {
  const flaw = validator.flaw({ a: Array.from({ length: 20_000 }, () => ({})) })
  assert.deepEqual([flaw.rejected, flaw.field], ['INVALID_FIELD', 'a'])
  assert.equal(flaw.detail, 'a must have at most 3 items')
})

test('validation reports every flaw of a value of normal size', () => {
  assert.deepEqual(told({ a: [{}, { c: 'x' }], b: keys(3) }).toSorted(), [
    'INVALID_FIELD a[1].c',
    'INVALID_FIELD b.k0',
    'INVALID_FIELD b.k1',
    'INVALID_FIELD b.k2',
    'MISSING_FIELD a[0].c',
    'MISSING_FIELD b.c',
  ])
  assert.deepEqual(told({ a: [{ c: 1, d: 2 }] }), [])
})

test('validation reports at most 32 flaws of a value', () => {
  const wide = compileValidator(
    Type.Object(
      Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`k${at}`, Type.Integer()])),
      closed,
    ),
  )
  assert.equal(wide.flaws({}).length, 32)
})
