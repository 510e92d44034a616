import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { JSON_DEPTH_MAX, parseJson, writeJson } from '#http/json.ts'
import { sampleOf } from '../support/sample.ts'

const parse = (text: string) => parseJson(Buffer.from(text))

test('the server’s JSON parser returns the same values as JSON.parse for random integers, strings and objects', () => {
  const seed = Date.now()
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { maxDepth: 5 },
      fc.maxSafeInteger().map((value) => (Object.is(value, -0) ? 0 : value)),
      fc.string({ unit: 'binary' }),
      fc.boolean(),
      fc.constant(null),
      fc.array(tie('tree'), { maxLength: 4 }),
      fc.dictionary(fc.string({ unit: 'binary' }), tie('tree'), { maxKeys: 4 }),
    ),
  }))
  fc.assert(
    fc.property(tree, fc.nat(3), (value, spaces) => {
      const text = JSON.stringify(value, null, spaces)
      const parsed = parse(text)
      assert.equal(parsed.rejection, undefined, `refused ${text}`)
      assert.deepEqual(parsed.value, JSON.parse(text))
    }),
    { seed, numRuns: sampleOf(2_000, 4) },
  )
})

test('integers above 2^53 are parsed exactly', () => {
  for (const digits of ['9007199254740993', '18446744073709551615', '-9007199254740993']) {
    assert.deepEqual(parse(`{"a":[${digits}]}`).value, { a: [BigInt(digits)] })
  }
  assert.deepEqual(parse('{"a":9007199254740991}').value, { a: Number.MAX_SAFE_INTEGER })
  assert.deepEqual(parse('[1 , 22\n,333]').value, [1, 22, 333])
})

test('the JSON parser accepts only numbers that are written as exact integers', () => {
  for (const numeral of ['1.5', '1.0', '1e3', '1E3', '0.1', '-0', '1e999', '9'.repeat(30)]) {
    assert.deepEqual(parse(`{"a":${numeral}}`).value, { a: Number.NaN }, numeral)
  }
  assert.deepEqual(parse('[-7]').value, [-7])
})

test('a duplicate key is refused, also if it is escaped, and the error names it', () => {
  const cases: [string, string][] = [
    ['{"a":1,"a":1}', 'a'],
    ['{"a":1,"\\u0061":2}', 'a'],
    ['{"order":{"price":1,"size":2,"price":3}}', 'order.price'],
    ['{"o":[{"a":1},{"b":[{"c":1,"c":1}]}]}', 'o[1].b[0].c'],
    ['{"__proto__":1,"__proto__":2}', '__proto__'],
    ['{"a\\"b":1,"a\\"b":2}', 'a"b'],
  ]
  for (const [text, field] of cases) {
    const { rejection } = parse(text)
    assert.deepEqual([rejection?.rejected, rejection?.field], ['INVALID_FIELD', field], text)
  }
  assert.equal(parse('{"a":{"b":1},"c":{"b":1}}').rejection, undefined)
  assert.equal(parse('{"a":"a\\\\","b":"\\"a\\":1"}').rejection, undefined)
})

test('text that is not JSON is refused, and the error has the position', () => {
  for (const text of ['', '{', '{"a":}', "{'a':1}", '{"a":1}}', 'nul', '01', '"\u0001"', '{,}']) {
    assert.equal(parse(text).rejection?.rejected, 'INVALID_JSON', text)
  }
  assert.equal(
    parse('{"a":1,}').rejection?.detail,
    'the request body is not valid JSON at position 7',
  )
})

test('bytes that are not UTF-8 are refused', () => {
  for (const bytes of [
    [0x22, 0xff, 0x22],
    [0x22, 0xc3, 0x22],
    [0x22, 0xed, 0xa0, 0x80, 0x22],
  ]) {
    assert.equal(parseJson(Uint8Array.from(bytes)).rejection?.rejected, 'INVALID_JSON')
  }
})

test('JSON with too deep nesting is refused', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  assert.equal(parse(nested(JSON_DEPTH_MAX)).rejection, undefined)
  assert.equal(parse(nested(JSON_DEPTH_MAX + 1)).rejection?.rejected, 'INVALID_JSON')
  assert.equal(parse(nested(32_000)).rejection?.rejected, 'INVALID_JSON')
})

test('JSON text with too many values for its length is refused without being parsed', () => {
  const cases = [
    `{"orders":[${Array.from({ length: 20_000 }, () => '{}').join(',')}]}`,
    `[${Array.from({ length: 5_000 }, () => '1').join(',')}]`,
    `[${Array.from({ length: 5_000 }, () => '1.5').join(',')}]`,
    `{${Array.from({ length: 5_500 }, (_, at) => `"k${at}":1`).join(',')}}`,
    // This text is not JSON, but it is refused for its number of values before it is parsed.
    `[${','.repeat(5_000)}`,
  ]
  for (const text of cases) {
    const { rejection } = parse(text)
    assert.equal(rejection?.rejected, 'INVALID_JSON')
    assert.match(rejection.detail ?? '', /must have at most \d+ JSON values$/, text.slice(0, 40))
  }
  const long = parse(`{"a":[${Array.from({ length: 100 }, () => '9007199254740993').join(',')}]}`)
  assert.match(long.rejection?.detail ?? '', /at most 45 numbers that are long or not integers$/)
  // A large batch that must be accepted: 70 orders with permits, with all numbers in their longest form.
  const hex = (bytes: number) => `0x${'a'.repeat(bytes * 2)}`
  const numbers = { nonce: 2 ** 53 - 1, expiration: 1_900_000_000, price: 1, size: 1, side: 0 }
  const order = { marketId: hex(32), trader: hex(20), makerFeeRecipient: hex(20), ...numbers }
  const permit = {
    nonce: 2 ** 53 - 1,
    value: '1',
    deadline: 2 ** 53 - 1,
    v: 27,
    r: hex(32),
    s: hex(32),
  }
  const one = { order: { ...order, outcome: 0 }, signature: hex(65), permitSignature: permit }
  const orders = Array.from({ length: 70 }, () => ({ ...one, postOnly: true }))
  assert.equal(parse(JSON.stringify({ orders })).rejection, undefined)
})

test('JSON text that ends within a string is refused', () => {
  for (const text of ['"', '{"a', '{"a\\"', '["\\\\\\"']) {
    assert.equal(parse(text).rejection?.rejected, 'INVALID_JSON', text)
  }
})

test('__proto__ is an ordinary key and changes no prototype', () => {
  const { value } = parse('{"__proto__":{"polluted":12345678901234567890}}')
  assert.ok(Object.hasOwn(value as object, '__proto__'))
  assert.equal((value as { polluted?: unknown }).polluted, undefined)
  assert.equal(({} as { polluted?: unknown }).polluted, undefined)
})

test('a bigint is written to JSON as an integer', () => {
  assert.equal(writeJson({ a: 2n ** 64n - 1n, b: 1 }), '{"a":18446744073709551615,"b":1}')
})
