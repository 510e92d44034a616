/** The ticket: typed text, the initial price, and the value of a position. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SibylError } from '#client/sibyl-error.ts'
import { orderWords } from '#web/market/order-words.ts'
import { worthOf } from '#web/market/position-value.ts'
import { firstPrice, midOf, stepped, worstPrice } from '#web/market/ticket-price.ts'
import {
  centsText,
  hasGroups,
  meantCents,
  plainText,
  readCents,
  readDollars,
  readShares,
} from '#web/market/ticket-text.ts'

test('a new order ticket starts with the mid price, rounded to a price at which the order would rest', () => {
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

test('one price step in the order ticket moves to the next tenth of a cent, within range', () => {
  assert.equal(stepped(415_000, 1), 416_000)
  assert.equal(stepped(415_500, 1), 416_000)
  assert.equal(stepped(415_500, -1), 415_000)
  assert.equal(stepped(999_999, 1), 999_999)
  assert.equal(stepped(1_000, -1), 1)
})

test('the order ticket parses a typed number exactly, or refuses it with a sentence', () => {
  assert.deepEqual(readCents('42.3'), { value: 423_000 })
  assert.deepEqual(readCents('.5'), { value: 5_000 })
  assert.deepEqual(readShares('2.5'), { value: 2_500_000 })
  assert.deepEqual(readShares('10.'), { value: 10_000_000 })
  assert.deepEqual(readDollars('12.50'), { value: 12_500_000 })
  for (const text of ['', '0', '100', '-1', 'x', '1.23456', '1e3']) {
    assert.ok('error' in readCents(text), text)
  }
  for (const text of ['', '0', '0.0000001', '99999999999', '−1']) {
    assert.ok('error' in readShares(text), text)
  }
  assert.ok('error' in readDollars('0'))
})

test('the order ticket accepts grouped digits, and refuses an ambiguous comma', () => {
  assert.deepEqual(readShares('1,000'), { value: 1_000_000_000 })
  assert.deepEqual(readShares('1,234,567.5'), { value: 1_234_567_500_000 })
  assert.deepEqual(readShares('1 000'), { value: 1_000_000_000 })
  assert.deepEqual(readShares("10'000"), { value: 10_000_000_000 })
  assert.deepEqual(readDollars('100,000.00'), { value: 100_000_000_000 })
  assert.equal(hasGroups('1,000'), true)
  assert.equal(hasGroups('1000.5'), false)
  for (const text of [
    '1,5',
    '42,35',
    '0,500',
    '1,00',
    '1,0000',
    ',5',
    '1,000,5',
    '1.000,5',
    '1,,000',
  ]) {
    const read = readShares(text)
    assert.ok('error' in read, text)
    assert.match(read.error, /^A comma separates thousands/, text)
  }
})

test('the page asks for confirmation of a price in cents that looks like dollars, such as 0.42', () => {
  assert.equal(meantCents('0.42'), '42')
  assert.equal(meantCents(' .5 '), '50')
  assert.equal(meantCents('0.425'), '42.5')
  for (const text of ['42', '0', '0.0', '1.5', 'x', ''])
    assert.equal(meantCents(text), undefined, text)
})

test('the worst price of a market order is the best price plus or minus the slippage limit', () => {
  const best = { bid: 470_000, ask: 480_000 }
  assert.equal(worstPrice('buy', best, 20_000), 500_000)
  assert.equal(worstPrice('sell', best, 20_000), 450_000)
  assert.equal(worstPrice('buy', { bid: 0, ask: 999_000 }, 20_000), 999_999)
  assert.equal(worstPrice('sell', { bid: 5_000, ask: 0 }, 20_000), 1)
  assert.equal(worstPrice('buy', { bid: 470_000, ask: 0 }, 20_000), undefined)
})

test('the order ticket fills in numbers in the form in which a trader types them', () => {
  assert.equal(plainText(2_500_000), '2.5')
  assert.equal(plainText(10_000_000), '10')
  assert.equal(plainText(1), '0.000001')
  assert.equal(centsText(423_000), '42.3')
  assert.equal(centsText(500_000), '50')
})

test('the value of a position is its shares times the price, rounded down', () => {
  const held = { shares: 3_000_001, cost: 1_500_000 }
  const worth = { value: 1_290_000n, profit: -210_000n, averageCost: 500_000 }
  assert.deepEqual(worthOf(held, 430_000), worth)
  assert.equal(worthOf(held, 430_000.5)?.value, 1_290_000n)
  assert.equal(worthOf(held, undefined), undefined)
  assert.equal(worthOf({ shares: 0, cost: 0 }, 1)?.averageCost, undefined)
})

test('the order ticket shows the exchange’s refusals in cents and shares', () => {
  const refused = (code: string, message: string) => orderWords(new SibylError(code, message))
  const met = refused(
    'POST_ONLY_WOULD_MATCH',
    'the post-only order would match on arrival at the price 710000, so it was not placed',
  )
  assert.equal(met, 'Post only: the order would have traded on arrival, at 71.0¢.')
  const part = refused(
    'ORDER_NOT_FILLED',
    'only 2500000 of 1000000000 millionths of a share could be filled on arrival',
  )
  assert.equal(part, 'Only 2.50 of 1,000.00 shares could be filled on arrival.')
  const none = refused('ORDER_NOT_FILLED', 'no part of the order could be filled on arrival')
  assert.equal(none, 'No part of the order could be filled on arrival.')
  assert.equal(refused('MARKET_CLOSED', 'the market is closed'), 'The market is closed.')
  const buyer =
    'the order needs 500000000000 millionths of the stablecoin, but 400000000000 are missing: the trader has 100000000000, open orders reserve 0, and unsettled trades reserve 0'
  assert.equal(
    refused('INSUFFICIENT_FUNDS', buyer),
    'The order needs $500,000.00, but $400,000.00 are missing. Open orders and unsettled trades reserve funds, ' +
      'too.',
  )
  const seller =
    'the order needs 5000000 millionths of YES shares of this market, but 4000000 are missing: the trader has 1000000'
  assert.equal(
    refused('INSUFFICIENT_FUNDS', seller),
    'The order needs 5.00 YES, but 4.00 YES are missing. Open orders and unsettled trades reserve funds, too.',
  )
  assert.equal(orderWords({ code: 4001, message: 'x' }), 'You declined the request in the wallet.')
})
