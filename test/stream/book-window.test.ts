import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BOOK_LEVELS_SHOWN_MAX } from '#domain/limits.ts'
import { BUY, SELL, type Side } from '#domain/order.ts'
import { LevelBook } from '#live/level-book.ts'
import { type Edges, edgesOf, shownChanges } from '#stream/book-window.ts'
import { randomFrom } from '../support/random.ts'

test('a client that applies every change of a deep book always has the book’s best levels', () => {
  const random = randomFrom(Number(process.env.TEST_SEED ?? 11))
  const book = new LevelBook()
  const reader: [Map<number, unknown>, Map<number, unknown>] = [new Map(), new Map()]
  let edges: Edges = edgesOf(book)
  const bestOf = (side: Side) => book.levels(side, BOOK_LEVELS_SHOWN_MAX)
  const readerHas = (side: Side) =>
    [...reader[side]].sort(([a], [b]) => (side === BUY ? b - a : a - b))
  let crossings = 0
  for (let step = 0; step < 4_000; step++) {
    // The book repeatedly grows beyond the shown levels and shrinks below them.
    const grows = step % 2_000 < 1_300
    const side: Side = random.chance(0.5) ? BUY : SELL
    const prices = new Set<number>()
    for (let count = random.int(1, 8); count > 0; count--) {
      const price = side === BUY ? random.int(1, 2_000) : random.int(3_000, 5_000)
      const [level] = random.chance(0.3) ? book.levels(side, 1) : []
      const at = grows ? price : (level?.[0] ?? price)
      if (grows) book.add(side, at, random.int(1, 9))
      else if (book.total(side, at) > 0) book.take(side, at, Number(book.total(side, at)))
      prices.add(at)
    }
    // A conflated reader receives several steps as one change.
    const now = edgesOf(book)
    for (const [price, total] of shownChanges(book, side, prices, [edges[side], now[side]])) {
      if (total === 0) reader[side].delete(price)
      else reader[side].set(price, total)
    }
    if (now[side] !== edges[side]) crossings++
    edges = now
    // An error would remain in all later steps, so comparing every 20 steps is enough.
    if (step % 20 === 0) assert.deepEqual(readerHas(side), bestOf(side), `step ${step}`)
  }
  assert(crossings > 100, `${crossings}`)
})
