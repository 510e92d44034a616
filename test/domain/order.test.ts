import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import { type Address, type MarketId, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import { ORDER_EXPIRATION_AHEAD_SEC_MIN } from '#domain/limits.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, expiresAtSec, type Order, orderFlaws, YES } from '#domain/order.ts'
import { isRejection, reject } from '#domain/rejection.ts'

const NOW_SEC = 1_800_000_000
const order: Order = {
  marketId: `0x${'1'.repeat(64)}` as MarketId,
  trader: `0x${'2'.repeat(40)}` as Address,
  side: BUY,
  outcome: YES,
  price: 420_000 as Price,
  size: 10_000_000 as Shares,
  nonce: '1' as Uint64,
  expiration: String(NOW_SEC + ORDER_EXPIRATION_AHEAD_SEC_MIN) as Uint64,
  makerFeeRecipient: ZERO_ADDRESS,
}

test('validation reports no error for a correct order', () => {
  assert.deepEqual(orderFlaws(order, NOW_SEC), [])
})

const FLAWED: [string, Partial<Record<keyof Order, unknown>>, string, string][] = [
  ['a price of 0', { price: 0 }, 'PRICE_OUT_OF_RANGE', 'order.price'],
  ['a price of one', { price: 1_000_000 }, 'PRICE_OUT_OF_RANGE', 'order.price'],
  ['a price with a fraction', { price: 1.5 }, 'PRICE_OUT_OF_RANGE', 'order.price'],
  ['a size of 0', { size: 0 }, 'SIZE_NOT_POSITIVE', 'order.size'],
  ['a size beyond the safe range', { size: 2 ** 53 }, 'INVALID_FIELD', 'order.size'],
  [
    'an expiration one second too early',
    { expiration: String(NOW_SEC + ORDER_EXPIRATION_AHEAD_SEC_MIN - 1) },
    'EXPIRATION_TOO_SOON',
    'order.expiration',
  ],
  [
    'a fee recipient',
    { makerFeeRecipient: `0x${'3'.repeat(40)}` },
    'INVALID_FIELD',
    'order.makerFeeRecipient',
  ],
]

for (const [what, change, code, field] of FLAWED) {
  test(`validation of an order reports ${what} and the name of the wrong field`, () => {
    const flaws = orderFlaws({ ...order, ...change } as Order, NOW_SEC)
    assert.deepEqual(
      flaws.map(({ rejected, field }) => [rejected, field]),
      [[code, field]],
    )
  })
}

test('an order may expire at the maximum lifetime, and not one second later', () => {
  const until = (sec: number) => ({ ...order, expiration: String(sec) as Uint64 })
  const last = NOW_SEC + 30 * 86_400
  assert.deepEqual(orderFlaws(until(last), NOW_SEC, 30), [])
  assert.deepEqual(orderFlaws(until(last + 1), NOW_SEC, 30), [
    reject(
      'EXPIRATION_TOO_FAR',
      'order.expiration',
      'expiration must be at most 30 days in the future',
    ),
  ])
  assert.equal(orderFlaws(until(2 ** 60), NOW_SEC, 36_500).length, 1)
})

test('if an order has several errors, validation reports all of them at once', () => {
  const flaws = orderFlaws({ ...order, price: 0 as Price, size: 0 as Shares }, NOW_SEC)
  assert.deepEqual(
    flaws.map((flaw) => flaw.rejected),
    ['PRICE_OUT_OF_RANGE', 'SIZE_NOT_POSITIVE'],
  )
})

test('an expiration above 2^53 is treated as the largest exact integer, and is valid', () => {
  assert.equal(expiresAtSec('18446744073709551615' as Uint64), Number.MAX_SAFE_INTEGER)
  assert.equal(expiresAtSec('9007199254740991' as Uint64), Number.MAX_SAFE_INTEGER)
  assert.equal(expiresAtSec('1800000060' as Uint64), 1_800_000_060)
  assert.deepEqual(
    orderFlaws({ ...order, expiration: '18446744073709551615' as Uint64 }, NOW_SEC),
    [],
  )
})

test('reject() returns a value that isRejection() recognises, and Fault is an Error with a code', () => {
  assert.deepEqual(reject('NOT_FOUND'), { rejected: 'NOT_FOUND' })
  assert(isRejection(reject('INVALID_FIELD', 'order.price', 'no')))
  assert(!isRejection({ status: 'accepted' }) && !isRejection(null) && !isRejection('rejected'))
  const cause = new Error('ECONNREFUSED')
  const fault = new Fault('STORE_UNAVAILABLE', 'the database is away', { retryable: true, cause })
  assert(fault instanceof Error)
  assert.equal(fault.code, 'STORE_UNAVAILABLE')
  assert.equal(fault.retryable, true)
  assert.equal(fault.cause, cause)
})
