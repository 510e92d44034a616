/** The ticket: what is typed, the price that it begins with, and what a position is worth. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SibylError } from '#client/sibyl-error.ts'
import { orderWords } from '#web/market/order-words.ts'
import { worthOf } from '#web/market/position-value.ts'
import { firstPrice, midOf, stepped } from '#web/market/ticket-price.ts'
import {
  centsText,
  plainText,
  readCents,
  readDollars,
  readShares,
} from '#web/market/ticket-text.ts'

test('the first price is the mid, rounded so that it crosses nothing', () => {
  assert.equal(firstPrice('buy', { bid: 410_000, ask: 420_000 }), 415_000)
  assert.equal(firstPrice('buy', { bid: 410_000, ask: 411_000 }), 410_000)
  assert.equal(firstPrice('sell', { bid: 410_000, ask: 411_000 }), 411_000)
  assert.equal(firstPrice('buy', { bid: 0, ask: 420_000 }), 420_000)
  assert.equal(firstPrice('sell', { bid: 0, ask: 0 }), 500_000)
  assert.equal(firstPrice('buy', { bid: 1, ask: 3 }), 1, 'below a step there is the least price')
  assert.equal(firstPrice('sell', { bid: 999_998, ask: 999_999 }), 999_999)
  assert.equal(midOf({ bid: 410_001, ask: 410_002 }), 410_001.5)
  assert.equal(midOf({ bid: 0, ask: 0 }), undefined)
})

test('a step leads to the next tenth of a cent and stays in range', () => {
  assert.equal(stepped(415_000, 1), 416_000)
  assert.equal(stepped(415_500, 1), 416_000)
  assert.equal(stepped(415_500, -1), 415_000)
  assert.equal(stepped(999_999, 1), 999_999)
  assert.equal(stepped(1_000, -1), 1)
})

test('what is typed is read exactly or refused in words', () => {
  assert.deepEqual(readCents('42.3'), { value: 423_000 })
  assert.deepEqual(readCents(' 42,35 '), { value: 423_500 })
  assert.deepEqual(readCents('.5'), { value: 5_000 })
  assert.deepEqual(readShares('2.5'), { value: 2_500_000 })
  assert.deepEqual(readShares('10.'), { value: 10_000_000 })
  assert.deepEqual(readDollars('12.50'), { value: 12_500_000 })
  for (const text of ['', '0', '100', '-1', 'x', '1.23456', '1e3']) {
    assert.ok('error' in readCents(text), text)
  }
  for (const text of ['', '0', '0.0000001', '99999999999', '1 000', '−1']) {
    assert.ok('error' in readShares(text), text)
  }
  assert.ok('error' in readDollars('0'))
})

test('numbers are written as they are typed', () => {
  assert.equal(plainText(2_500_000), '2.5')
  assert.equal(plainText(10_000_000), '10')
  assert.equal(plainText(1), '0.000001')
  assert.equal(centsText(423_000), '42.3')
  assert.equal(centsText(500_000), '50')
})

test('a position is worth its shares at the price, rounded down', () => {
  const held = { shares: 3_000_001, cost: 1_500_000 }
  const worth = { value: 1_290_000n, profit: -210_000n, averageCost: 500_000 }
  assert.deepEqual(worthOf(held, 430_000), worth)
  assert.equal(worthOf(held, 430_000.5)?.value, 1_290_000n)
  assert.equal(worthOf(held, undefined), undefined)
  assert.equal(worthOf({ shares: 0, cost: 0 }, 1)?.averageCost, undefined)
})

test('a refusal speaks of cents and shares', () => {
  const refused = (code: string, message: string) => orderWords(new SibylError(code, message))
  const met = refused('POST_ONLY_WOULD_MATCH', 'it would have been matched at once, at 710000')
  assert.equal(met, 'Post only: the order would have traded at once, at 71.0¢.')
  const part = refused('ORDER_NOT_FILLED', 'only 2500000 of 1000000000 could be filled at once')
  assert.equal(part, 'Only 2.50 of 1,000.00 shares could be filled at once.')
  const none = refused('ORDER_NOT_FILLED', 'nothing of it could be filled at once')
  assert.equal(none, 'Nothing of the order could be filled at once.')
  assert.equal(refused('MARKET_CLOSED', 'the market is closed'), 'The market is closed.')
  assert.equal(orderWords({ code: 4001, message: 'x' }), 'You declined in the wallet.')
})
