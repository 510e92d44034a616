import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  type MarketId,
  parseAddress,
  parseMarketId,
  parseTradeId,
  parseUint64,
  parseUint256,
  toAddress,
  tradeId,
} from '#domain/ids.ts'

test('hex digits are accepted in upper and lower case and stored in lower case', () => {
  const mixed = `0x${'aB'.repeat(20)}`
  assert.equal(parseAddress(mixed), mixed.toLowerCase())
  assert.equal(toAddress(mixed), mixed.toLowerCase())
  assert.equal(parseMarketId(`0x${'Ff'.repeat(32)}`), `0x${'ff'.repeat(32)}`)
})

test('a text that is not a wallet address is refused', () => {
  const wrong = [
    '',
    '0x',
    `0x${'a'.repeat(39)}`,
    `0x${'a'.repeat(41)}`,
    'a'.repeat(42),
    `0x${'g'.repeat(40)}`,
    ` 0x${'a'.repeat(40)}`,
    `0X${'a'.repeat(40)}`,
    `0x${'a'.repeat(40)}\n`,
  ]
  for (const text of wrong) assert.equal(parseAddress(text), undefined, JSON.stringify(text))
})

test('an unsigned 64-bit integer is read exactly', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (value) => {
      assert.equal(parseUint64(value.toString()), value.toString())
    }),
  )
  const wrong = [
    '',
    '-1',
    '+1',
    '01',
    '1.0',
    '1e3',
    ' 1',
    '0x1',
    '18446744073709551616',
    '99999999999999999999',
    '1'.repeat(21),
    '1\n',
  ]
  for (const text of wrong) assert.equal(parseUint64(text), undefined, JSON.stringify(text))
  assert.equal(parseUint64('18446744073709551615'), '18446744073709551615')
})

test('an unsigned 256-bit integer is read exactly', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }), (value) => {
      assert.equal(parseUint256(value.toString()), value.toString())
    }),
  )
  const max = String(2n ** 256n - 1n)
  assert.equal(parseUint256(max), max)
  const beyond = [String(2n ** 256n), '9'.repeat(78), '1'.repeat(79)]
  for (const text of ['', '-1', '+1', '01', '1.0', '1e3', ' 1', '0x1', '1\n', ...beyond]) {
    assert.equal(parseUint256(text), undefined, JSON.stringify(text))
  }
})

test('a trade id consists of its market id, sequence number and fill index', () => {
  const marketId = `0x${'1f'.repeat(32)}` as MarketId
  const id = tradeId(marketId, 42, 0)
  assert.equal(id, `${marketId}-42-0`)
  assert.deepEqual(parseTradeId(id), { marketId, sequence: 42, fillIndex: 0 })
  for (const text of [
    '',
    `${marketId}-0-0`,
    `${marketId}-1`,
    `${marketId}-01-0`,
    `${marketId}-1-0-0`,
    `${marketId}-9007199254740992-0`,
  ]) {
    assert.equal(parseTradeId(text), undefined, text)
  }
})
