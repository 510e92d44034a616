import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ASSET_PRICE_MAX, parseAsset, priceOfDecimal, priceOfScaled } from '#domain/asset-price.ts'

test('the decimal text of an asset price is parsed exactly', () => {
  assert.equal(priceOfDecimal('64152.43'), 6_415_243_000_000)
  assert.equal(priceOfDecimal('0.00000001'), 1)
  assert.equal(priceOfDecimal('1.999999999'), 199_999_999)
  assert.equal(priceOfDecimal('3200'), 320_000_000_000)
})

test('an asset price given as mantissa and exponent is converted to eight decimals', () => {
  assert.equal(priceOfScaled('6415243000000', -8), 6_415_243_000_000)
  assert.equal(priceOfScaled('6415243', -2), 6_415_243_000_000)
  assert.equal(priceOfScaled('64152430000001', -9), 6_415_243_000_000)
  assert.equal(priceOfScaled('3', 0), 300_000_000)
})

test('a text that is not an asset price is refused', () => {
  for (const text of ['', '0', '0.000000001', '-1', 'NaN', '1e9', '.5', '1.', ' 1', 'Infinity']) {
    assert.equal(priceOfDecimal(text), undefined, text)
  }
  for (const value of [undefined, null, 5, {}, String(ASSET_PRICE_MAX)]) {
    assert.equal(priceOfDecimal(value), undefined)
  }
  for (const [mantissa, exponent] of [
    ['0', -8],
    ['-5', -8],
    ['5', 19],
    ['5', 0.5],
    [5, -8],
    ['99999999999999999999', -8],
  ]) {
    assert.equal(priceOfScaled(mantissa, exponent), undefined, `${mantissa} ${exponent}`)
  }
})

test('an asset symbol is accepted in lower case and converted to upper case', () => {
  assert.equal(parseAsset('btc'), 'BTC')
  assert.equal(parseAsset('bT/c'), undefined)
  assert.equal(parseAsset(''), undefined)
  assert.equal(parseAsset('a'.repeat(17)), undefined)
})
