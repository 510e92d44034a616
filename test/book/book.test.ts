import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Book } from '#book/book.ts'
import { OrderList } from '#book/order-list.ts'
import type { RestingOrder } from '#book/order-record.ts'
import { ONE, PRICE_MAX, PRICE_MIN, type Price, type Shares, SIZE_MAX } from '#domain/money.ts'
import { BUY, SELL } from '#domain/order.ts'
import { buy, hashNamed, nameOf, type OrderBuilder, sell, traderNamed } from '../support/orders.ts'

function rest(book: Book, ...orders: OrderBuilder[]): void {
  for (const order of orders) {
    const { remaining, matches, ...terms } = order.resting()
    assert.ok(book.rest(terms, remaining, matches))
  }
}

function bookOf(...orders: OrderBuilder[]): Book {
  const book = new Book({ ordersMax: 100 })
  rest(book, ...orders)
  return book
}

test('an empty book has no prices, no levels and no orders', () => {
  const book = bookOf()
  assert.deepEqual([book.count, book.bestBid, book.bestAsk], [0, 0, 0])
  assert.deepEqual(book.depth(BUY), [])
  assert.deepEqual([...book.orders(SELL)], [])
  assert.equal(book.nextExpirySec, undefined)
  assert.equal(book.cancel(hashNamed('nobody')), undefined)
})

test('every field of an order in the book can be read back', () => {
  const order = sell('NO').at(0.123456).size(7).remaining(3).by('ann').named('a').until(1e10)
  const book = bookOf(order)
  assert.deepEqual(book.find(hashNamed('a')), order.resting())
  assert.deepEqual([...book.orders(SELL)], [order.resting()])
  assert.deepEqual(book.ordersOf(traderNamed('ann')), [order.resting()])
  assert.deepEqual(book.cancel(hashNamed('a')), order.resting())
  assert.equal(book.find(hashNamed('a')), undefined)
})

test('a book accepts the lowest and the highest price', () => {
  const lowest = buy('YES')
    .at(PRICE_MIN / ONE)
    .named('a')
  const highest = sell('YES')
    .at(PRICE_MAX / ONE)
    .named('b')
  const book = bookOf(lowest, highest)
  assert.deepEqual([book.bestBid, book.bestAsk], [PRICE_MIN, PRICE_MAX])
  book.cancel(hashNamed('a'))
  book.cancel(hashNamed('b'))
  assert.deepEqual([book.bestBid, book.bestAsk], [0, 0])
})

test('the levels of a book are listed best first with their total sizes', () => {
  const book = bookOf(
    buy('YES').at(0.1).size(1).named('a'),
    buy('YES').at(0.3).size(2).named('b'),
    buy('YES').at(0.2).size(4).named('c'),
    buy('YES').at(0.3).size(8).named('d'),
  )
  assert.deepEqual(book.depth(BUY, 2), [
    { price: 300_000, size: 10_000_000n, orders: 2 },
    { price: 200_000, size: 4_000_000n, orders: 1 },
  ])
  assert.equal(book.levelSize(BUY, 300_000 as Price), 10_000_000n)
  assert.equal(book.levelSize(BUY, 400_000 as Price), 0n)
})

test('the total of a price level is exact far beyond 2^53', () => {
  const book = bookOf()
  const price = 500_000 as Price
  let total = 0n
  for (let each = 0; each < 50; each++) {
    const size = SIZE_MAX - (each % 3)
    rest(book, buy('YES').exactly(size).named(`${each}`))
    total += BigInt(size)
    assert.equal(book.levelSize(BUY, price), total)
  }
  for (let each = 0; each < 50; each += 2) {
    total -= BigInt(book.cancel(hashNamed(`${each}`))?.remaining ?? 0)
    assert.equal(book.levelSize(BUY, price), total)
  }
  book.take(book.locate(hashNamed('1')), SIZE_MAX - 7)
  total -= BigInt(SIZE_MAX - 7)
  assert.equal(book.levelSize(BUY, price), total)
  assert.equal(book.grow(hashNamed('1'), 3 as Shares), 9)
  assert.equal(book.levelSize(BUY, price), total + 3n)
})

test('an order keeps its place in the queue when the quantity of a failed trade returns to it', () => {
  const first = sell('YES').size(5).remaining(1).named('a')
  const book = bookOf(first, sell('YES').size(5).named('b'))
  assert.equal(book.grow(hashNamed('a'), ONE as Shares), 2 * ONE)
  assert.equal(nameOf(book.read(book.bestOrder(SELL)).orderHash), 'a')
  assert.equal(book.grow(hashNamed('gone'), ONE as Shares), undefined)
  assert.throws(
    () => book.grow(hashNamed('a'), (3 * ONE + 1) as Shares),
    /from 1 to \d+, the filled quantity of the order/,
  )
})

test('the orders of a trader are listed in the order in which they were placed', () => {
  const book = bookOf(
    buy('YES').at(0.2).by('ann').named('a'),
    sell('YES').at(0.7).by('ann').named('b'),
    buy('YES').at(0.3).by('bob').named('c'),
    buy('YES').at(0.1).by('ann').named('d'),
  )
  book.cancel(hashNamed('b'))
  rest(book, sell('YES').at(0.6).by('ann').named('e'))
  const names = book.ordersOf(traderNamed('ann')).map((order) => nameOf(order.orderHash))
  assert.deepEqual(names, ['a', 'd', 'e'])
  assert.equal(book.countOf(traderNamed('ann')), 3)
  assert.equal(book.ordersOf(traderNamed('ann'), 2).length, 2)
  assert.equal(book.countOf(traderNamed('zoe')), 0)
})

test('a full book refuses an order, and accepts the order after another order is cancelled', () => {
  const book = new Book({ ordersMax: 2 })
  rest(book, buy('YES').named('a'), buy('YES').named('b'))
  assert.equal(book.isFull, true)
  const third = buy('YES').named('c').resting()
  assert.equal(book.rest(third, third.remaining, 0), false)
  assert.equal(book.find(third.orderHash), undefined)
  book.cancel(hashNamed('a'))
  assert.equal(book.rest(third, third.remaining, 0), true)
})

test('adding an invalid, duplicate or crossing order to the book throws an assertion error', () => {
  const book = bookOf(sell('YES').at(0.5).named('a'))
  const refused: [OrderBuilder, RegExp][] = [
    [sell('YES').at(0.6).named('a'), /rests already/],
    [buy('YES').at(0.5).named('b'), /crosses/],
    [sell('YES').at(1).named('b'), /price must/],
    [sell('YES').at(0).named('b'), /price must/],
    [sell('YES').at(0.6).exactly(0).named('b'), /size must/],
    [sell('YES').at(0.6).exactly(0.5).named('b'), /size must/],
    [sell('YES').at(0.6).size(1).remaining(2).named('b'), /remaining must/],
    [sell('YES').at(0.6).until(-1).named('b'), /expiresAtSec must/],
    [sell('YES').at(0.6).placedAt(0.5).named('b'), /placedAtMs must/],
  ]
  for (const [order, message] of refused) {
    const { remaining } = order.resting()
    assert.throws(() => book.rest(order.resting(), remaining, 0), message)
  }
  assert.equal(book.count, 1)
  assert.throws(() => book.find('0x12' as never), /the key must have 32 bytes/)
})

test('removing expired orders from the book takes a bounded number of steps per call', () => {
  const book = new Book({ ordersMax: 1_000 })
  for (let each = 0; each < 300; each++) {
    rest(
      book,
      buy('YES')
        .named(`${each}`)
        .until(1_000_000 + 10 * each),
    )
  }
  rest(book, buy('YES').named('ever').until(SIZE_MAX))
  const gone = new OrderList()
  assert.equal(book.expire(999_999, 10_000, gone), true)
  assert.equal(gone.length, 0)
  assert.ok((book.nextExpirySec ?? 0) > 999_999)

  let calls = 1
  while (!book.expire(1_001_000, 7, gone)) {
    calls++
    assert.ok(gone.length <= 7 * calls)
  }
  assert.ok(calls > 10)
  assert.equal(gone.length, 101)
  for (let index = 0; index < gone.length; index++) {
    assert.ok(gone.expiresAtSec(index) <= 1_001_000)
  }
  assert.equal(book.count, 200)
  // `expire` also removes an order that had already expired when it was placed.
  rest(book, buy('YES').named('late').until(5))
  gone.clear()
  assert.equal(book.expire(1_001_000, 100, gone), true)
  assert.equal(nameOf(gone.orderHash(0)), 'late')
  gone.clear()
  while (!book.expire(SIZE_MAX - 1, 1_000, gone));
  assert.equal(book.count, 1)
})

test('a cleared book is empty and can be used again', () => {
  const book = bookOf(buy('YES').named('a').by('ann'), sell('YES').at(0.6).named('b'))
  book.clear()
  assert.deepEqual([book.count, book.bestBid, book.bestAsk], [0, 0, 0])
  assert.equal(book.stateHash(), bookOf().stateHash())
  rest(book, buy('YES').named('a').by('ann'))
  assert.equal(book.count, 1)
})

test('the state hash of a book depends on its orders and their queue positions, not on their places in memory', () => {
  const [a, b, c] = [buy('YES').named('a'), buy('YES').named('b'), buy('YES').named('c')]
  const hash = bookOf(a, b).stateHash()
  assert.notEqual(bookOf(b, a).stateHash(), hash)
  assert.notEqual(bookOf(a).stateHash(), hash)
  for (const other of [b.until(1), b.by('zoe'), b.at(0.41), b.size(77), b.named('d')]) {
    assert.notEqual(bookOf(a, other).stateHash(), hash)
  }
  const restedAs = (more: Partial<RestingOrder>, matches: number) => {
    const book = bookOf(a)
    const order = { ...b.resting(), ...more }
    book.rest(order, order.remaining, matches)
    return book.stateHash()
  }
  assert.equal(restedAs({}, 0), hash)
  assert.notEqual(restedAs({}, 1), hash)
  assert.notEqual(restedAs({ remaining: 1 as Shares }, 0), hash)
  assert.notEqual(restedAs({ placedAtMs: 1 }, 0), hash)
  const sold = bookOf(a, sell('YES').at(0.9).named('b')).stateHash()
  assert.notEqual(bookOf(a, sell('YES').at(0.8).named('b')).stateHash(), sold)
  const roundabout = bookOf(c, a, b)
  roundabout.cancel(hashNamed('c'))
  assert.equal(roundabout.stateHash(), hash)
  roundabout.expire(1_900_000_000, 100, new OrderList())
  assert.equal(roundabout.stateHash(), hash)
})
