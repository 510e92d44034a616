import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Book } from '#book/book.ts'
import { MatchResult, type MatchRules, match } from '#book/match.ts'
import { ONE, type Shares } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import { buy, nameOf, type OrderBuilder, sell } from '../support/orders.ts'

const NOW_SEC = 1_000

/** Places orders one after the other, as a market does, and returns the fills of the last one. */
function place(book: Book, orders: readonly OrderBuilder[], rules: Partial<MatchRules> = {}) {
  const result = new MatchResult()
  for (const order of orders) {
    const resting = order.resting()
    match(book, resting, { nowSec: NOW_SEC, selfTrade: 'allow', makersMax: 100, ...rules }, result)
    if (result.left === 0 || result.limited) continue
    assert.ok(book.rest(resting, result.left as Shares, result.fills.length))
  }
  return result
}

/** Returns each fill as text: maker, size, price and what is left of the maker's order. */
function fillsOf({ fills }: MatchResult): string[] {
  return Array.from({ length: fills.length }, (_, index) => {
    const [taken, price] = [fills.taken(index) / ONE, fills.price(index) / ONE]
    return `${nameOf(fills.orderHash(index))} ${taken} @${price} (${fills.remaining(index) / ONE} left)`
  })
}

/** Returns a book as a small table: one line per level, best first, with its orders by time. */
function tableOf(book: Book): string[] {
  const lines: string[] = []
  for (const side of [SELL, BUY] as const) {
    const levels = new Map<number, string[]>()
    for (const order of book.orders(side)) {
      const names = levels.get(order.price) ?? []
      levels.set(order.price, names)
      names.push(`${nameOf(order.orderHash)} ${order.remaining / ONE}`)
    }
    const word = side === BUY ? 'buy ' : 'sell'
    for (const [price, names] of levels) lines.push(`${word} ${price / ONE}: ${names.join(', ')}`)
  }
  return lines
}

function newBook(): Book {
  return new Book({ ordersMax: 1_000 })
}

const asks = [
  sell('YES').at(0.42).size(5).named('b').until(NOW_SEC),
  sell('YES').at(0.45).size(50).named('d'),
  sell('YES').at(0.42).size(20).named('c'),
  sell('YES').at(0.41).size(10).named('a'),
]

test('the match example in the documentation produces the documented fills and remaining orders', () => {
  const book = newBook()
  place(book, asks)
  const result = place(book, [buy('YES').at(0.43).size(40).named('t')])
  assert.deepEqual(fillsOf(result), ['a 10 @0.41 (0 left)', 'c 20 @0.42 (0 left)'])
  assert.equal(nameOf(result.expired.orderHash(0)), 'b')
  assert.equal(result.left, 10 * ONE)
  assert.deepEqual(tableOf(book), ['sell 0.45: d 50', 'buy  0.43: t 10'])
  assert.equal(book.find(buy('YES').named('t').resting().orderHash)?.matches, 2)
})

test("the taker pays the maker's price", () => {
  const book = newBook()
  place(book, [sell('YES').at(0.3).size(1).named('a')])
  const result = place(book, [buy('YES').at(0.9).size(1).named('t')])
  assert.deepEqual(fillsOf(result), ['a 1 @0.3 (0 left)'])

  place(book, [buy('YES').at(0.7).size(1).named('b')])
  const sale = place(book, [sell('YES').at(0.1).size(1).named('u')])
  assert.deepEqual(fillsOf(sale), ['b 1 @0.7 (0 left)'])
  assert.deepEqual(tableOf(book), [])
})

test('the older of two orders at one price is matched first', () => {
  const book = newBook()
  place(book, [
    buy('YES').at(0.5).size(3).named('a'),
    buy('YES').at(0.5).size(3).named('b'),
    buy('YES').at(0.5).size(3).named('c'),
  ])
  const result = place(book, [sell('YES').at(0.5).size(4).named('t')])
  assert.deepEqual(fillsOf(result), ['a 3 @0.5 (0 left)', 'b 1 @0.5 (2 left)'])
  assert.deepEqual(tableOf(book), ['buy  0.5: b 2, c 3'])
})

test('an order in the book that is filled in part keeps its place', () => {
  const book = newBook()
  place(book, [sell('YES').at(0.5).size(3).named('a'), sell('YES').at(0.5).size(3).named('b')])
  place(book, [buy('YES').at(0.5).size(1).named('t')])
  place(book, [buy('YES').at(0.5).size(1).named('u')])
  assert.deepEqual(tableOf(book), ['sell 0.5: a 1, b 3'])
})

test('if the prices of two orders do not cross, both orders stay in the book', () => {
  const book = newBook()
  place(book, [sell('YES').at(0.51).size(1).named('a'), buy('YES').at(0.5).size(2).named('b')])
  assert.deepEqual(tableOf(book), ['sell 0.51: a 1', 'buy  0.5: b 2'])
  assert.deepEqual([book.bestBid, book.bestAsk], [500_000, 510_000])
})

test('an order can no longer match once its expiration time is reached', () => {
  const book = newBook()
  place(book, [
    sell('YES')
      .at(0.5)
      .size(1)
      .named('a')
      .until(NOW_SEC + 1),
  ])
  const taker = [buy('YES').at(0.5).size(1).named('t')]
  assert.equal(place(book, taker, { nowSec: NOW_SEC + 1 }).expired.length, 1)
  assert.deepEqual(tableOf(book), ['buy  0.5: t 1'])
})

test('if self trades are allowed, two orders of one trader can match', () => {
  const book = newBook()
  place(book, [sell('YES').at(0.5).size(1).named('a').by('ann')])
  const result = place(book, [buy('YES').at(0.5).size(1).named('t').by('ann')])
  assert.deepEqual(fillsOf(result), ['a 1 @0.5 (0 left)'])
})

test('with self-trade mode cancel-resting, a taker’s own resting orders are cancelled and the next order is matched', () => {
  const book = newBook()
  place(book, [
    sell('YES').at(0.4).size(1).named('a').by('ann'),
    sell('YES').at(0.4).size(2).named('b').by('bob'),
    sell('YES').at(0.5).size(3).named('c').by('ann'),
  ])
  const taker = [buy('YES').at(0.5).size(5).named('t').by('ann')]
  const result = place(book, taker, { selfTrade: 'cancel-resting' })
  assert.deepEqual(fillsOf(result), ['b 2 @0.4 (0 left)'])
  assert.deepEqual(
    [0, 1].map((index) => nameOf(result.selfTraded.orderHash(index))),
    ['a', 'c'],
  )
  assert.equal(result.selfTraded.remaining(1), 3 * ONE)
  assert.deepEqual(tableOf(book), ['buy  0.5: t 3'])
})

test('a match stops when it has reached the maximum number of maker orders, and reports this', () => {
  const book = newBook()
  place(book, asks)
  const taker = [buy('YES').at(0.9).size(80).named('t')]
  const result = place(book, taker, { makersMax: 2 })
  assert.deepEqual(fillsOf(result), ['a 10 @0.41 (0 left)'])
  assert.equal(result.expired.length, 1)
  assert.equal(result.limited, true)
  assert.equal(result.left, 70 * ONE)
  assert.throws(() => book.rest(buy('YES').at(0.9).resting(), ONE as Shares, 0), /crosses/)
})

test('a match with exactly the maximum number of makers is not reported as stopped by the limit', () => {
  const book = newBook()
  place(book, [sell('YES').at(0.5).size(1).named('a')])
  assert.equal(place(book, [buy('YES').at(0.5).size(1)], { makersMax: 1 }).limited, false)
})

test('the result of a match stays unchanged when the book changes later', () => {
  const book = newBook()
  place(book, [sell('YES').at(0.5).size(1).named('a').by('ann').placedAt(7_000)])
  const result = place(book, [buy('YES').at(0.5).size(1).named('t')])
  place(book, [sell('YES').at(0.6).size(9).named('z').by('zoe')])
  const expected = sell('YES').at(0.5).size(1).named('a').by('ann').placedAt(7_000)
  assert.deepEqual(result.fills.order(0), { ...expected.resting(), remaining: 0 })
})
