import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inflateRawSync } from 'node:zlib'
import { Book } from '#book/book.ts'
import { giveBack } from '#book/snapshot.ts'
import type { Address, OrderHash } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, SELL, type Side } from '#domain/order.ts'
import { buy, hashNamed, sell, traderNamed } from '../support/orders.ts'
import { randomFrom } from '../support/random.ts'

const options = { ordersMax: 20_000 }
const random = randomFrom(11)
const traders = Array.from({ length: 300 }, () => random.hex(20) as Address)
const terms = Array.from({ length: 9_000 }, () => {
  const side: Side = random.chance(0.5) ? BUY : SELL
  return {
    orderHash: random.hex(32) as OrderHash,
    trader: random.pick(traders),
    side,
    price: (side === BUY ? random.int(1, 400) : random.int(500, 900)) as Price,
    size: 10 as Shares,
    expiresAtSec: random.int(0, 1e9),
    placedAtMs: random.int(0, 1e12),
  }
})

function filled(count: number): Book {
  const book = new Book(options)
  for (const order of terms.slice(0, count)) book.rest(order, 10 as Shares, 0)
  return book
}

function all(book: Book): Buffer[] {
  return book.beginSnapshot().copySome(Number.MAX_SAFE_INTEGER)
}

test('an empty book has a snapshot of one chunk, and is restored as empty', () => {
  const chunks = all(new Book(options))
  assert.equal(chunks.length, 1)
  assert.equal(Book.restore(chunks, options).count, 0)
})

test('a small book has a small snapshot, and no chunk is larger than 64 KiB', () => {
  const small = new Book(options)
  const order = buy('YES').resting()
  small.rest(order, order.remaining, 0)
  assert.deepEqual(
    all(small).map((chunk) => chunk.byteLength),
    [64 + 128],
  )
  const chunks = all(filled(9_000))
  assert.ok(chunks.length > 4)
  for (const chunk of chunks) assert.ok(chunk.byteLength <= 64 * 1024)
})

test('a snapshot contains the book as it was when the snapshot began, despite later changes', () => {
  const book = filled(5_000)
  const before = book.stateHash()
  const lists = traders.map((trader) => book.ordersOf(trader))
  const snapshot = book.beginSnapshot()
  const chunks: Buffer[] = []
  let next = 5_000
  let gone = 0
  while (!snapshot.done) {
    for (let each = 0; each < 700 && next < 9_000; each++) book.rest(terms[next++]!, 9 as Shares, 0)
    for (let each = 0; each < 300; each++)
      book.cancel(terms[gone++ * 7]?.orderHash ?? hashNamed('x'))
    book.take(book.bestOrder(BUY), 1)
    chunks.push(...snapshot.copySome(700))
  }
  assert.notEqual(book.stateHash(), before)
  const restored = Book.restore(chunks.toReversed(), options)
  assert.equal(restored.stateHash(), before)
  assert.deepEqual(
    traders.map((trader) => restored.ordersOf(trader)),
    lists,
  )
})

test('snapshots reuse the memory of earlier chunks, and contain no bytes of other snapshots', () => {
  const book = filled(9_000)
  const small = filled(3)
  const plain = [Buffer.concat(all(book)), Buffer.concat(all(small))]
  const memory = new Set<ArrayBuffer>()
  for (let round = 0; round < 2; round++) {
    for (const [which, each] of [book, small].entries()) {
      const snapshot = each.beginSnapshot()
      const copies: Buffer[] = []
      while (!snapshot.done) {
        for (const chunk of snapshot.copySome(511)) {
          memory.add(chunk.buffer)
          copies.push(Buffer.from(chunk))
          giveBack(chunk)
        }
      }
      assert.deepEqual(Buffer.concat(copies), plain[which])
    }
  }
  assert.ok(memory.size <= 2, `${memory.size} pieces of memory`)
})

test('a snapshot does not reveal the secret seed of the book’s hash table', () => {
  const chunks = [1, 2].map((seed) => {
    const book = new Book({ ...options, seed })
    for (const order of terms.slice(0, 1_500)) book.rest(order, 10 as Shares, 0)
    return Buffer.concat(all(book))
  })
  assert.deepEqual(chunks[0], chunks[1])
})

test('a book with more orders than the cache for order hashes can hold is restored completely', () => {
  const book = new Book({ ordersMax: 100_000 })
  const orders = Array.from({ length: 70_000 }, (_, n) => ({
    ...terms[n % terms.length]!,
    orderHash: random.hex(32) as OrderHash,
  }))
  for (const order of orders) book.rest(order, 10 as Shares, 0)
  const restored = Book.restore(all(book), { ordersMax: 100_000, seed: 9 })
  assert.equal(restored.stateHash(), book.stateHash())
  for (const one of [book, restored]) {
    for (const [n, { orderHash }] of orders.entries()) {
      if (n % 7 === 0) assert.equal(one.cancel(orderHash)?.orderHash, orderHash)
    }
    for (const [n, { orderHash }] of orders.entries()) {
      assert.equal(one.find(orderHash) === undefined, n % 7 === 0)
    }
  }
  assert.equal(restored.stateHash(), book.stateHash())
})

test('if a book is cleared during a snapshot, the snapshot still contains all earlier orders', () => {
  const book = filled(3_000)
  const before = book.stateHash()
  const snapshot = book.beginSnapshot()
  book.clear()
  for (const order of terms.slice(4_000, 6_000)) book.rest(order, 1 as Shares, 0)
  const chunks: Buffer[] = []
  while (!snapshot.done) chunks.push(...snapshot.copySome(100))
  assert.equal(Book.restore(chunks, options).stateHash(), before)
  assert.equal(book.count, 2_000)
})

test('a book refuses to begin a second snapshot while another is in progress', () => {
  const book = filled(2_000)
  const first = book.beginSnapshot()
  assert.throws(() => book.beginSnapshot(), /before the current snapshot is done/)
  first.abandon()
  assert.deepEqual(first.copySome(1), [])
  assert.equal(Book.restore(all(book), options).stateHash(), book.stateHash())
})

test('a restored book continues to match exactly like the original', () => {
  const book = new Book(options)
  for (const order of [sell('YES').named('a').by('ann'), sell('YES').named('b').by('bob')]) {
    book.rest(order.resting(), order.resting().remaining, 2)
  }
  const restored = Book.restore(all(book), options)
  assert.equal(restored.find(hashNamed('a'))?.matches, 2)
  assert.equal(restored.countOf(traderNamed('bob')), 1)
  assert.equal(restored.read(restored.bestOrder(SELL)).orderHash, hashNamed('a'))
  assert.deepEqual(restored.depth(SELL), book.depth(SELL))
  assert.equal(restored.cancel(hashNamed('a'))?.trader, traderNamed('ann'))
})

test('a book is restored from chunks at unaligned memory addresses', () => {
  const book = filled(100)
  const [chunk] = all(book)
  const shifted = Buffer.alloc(chunk!.byteLength + 1)
  chunk!.copy(shifted, 1)
  assert.equal(Book.restore([shifted.subarray(1)], options).stateHash(), book.stateHash())
})

test('a snapshot is refused if chunks are missing, repeated, truncated or from another snapshot', () => {
  const chunks = all(filled(5_000))
  const other = all(filled(4_000))
  const truncated = chunks.with(0, chunks[0]!.subarray(0, 1_000))
  const wrongVersion = Buffer.from(chunks[0]!)
  wrongVersion.writeInt32LE(99, 4)
  assert.throws(() => Book.restore(chunks.slice(1), options), /all chunks/)
  assert.throws(() => Book.restore([], options), /all chunks/)
  assert.throws(() => Book.restore([...chunks, chunks[0]!], options), /each chunk once/)
  assert.throws(() => Book.restore([...chunks.slice(1), other[0]!], options), /one snapshot/)
  assert.throws(() => Book.restore(truncated, options), /must be whole|whole words/)
  assert.throws(() => Book.restore([Buffer.from('nothing')], options), /header/)
  assert.throws(() => Book.restore(chunks.with(0, wrongVersion), options), /version/)
  assert.throws(() => Book.restore(chunks, { ordersMax: 4_999 }), /room/)
})

/** A stored snapshot of format version 2. If the layout of a record changes, the format needs a new version. */
const VERSION_2 = `
  S8rPz2ZigAAWJEwsSCQAQeCCULIjg0BD2L89FU4g/v////87XNSRgJnR0OLnCKJKLt1yBMkxQtWA3AVjg+3Ky8PASQQgxP5iRw
  YFiP2MSPYzQu0HyzMwHHjjfwdEMzBD1cDcAANJ+UkYOJkABIEPm6McGQwg9jNBzVZMNZSAmQ2WR/I/zL/MUMwIxdj8n0IAQkyz
  d2ZwgNjPjOR/hD/tnWH2I4c9ehhgsx8A`

test('a book can be restored from a snapshot in format version 2', () => {
  const chunk = inflateRawSync(Buffer.from(VERSION_2, 'base64'))
  assert.equal(chunk.readInt32LE(4), 2)
  const until = 1_800_000_000
  const bids = buy('YES').at(0.42).until(until)
  const orders = [
    bids.size(10).remaining(4).by('ann').named('a').placedAt(1_700_000_000_001),
    bids.size(20).by('bob').named('b').until(1_900_000_000).placedAt(1_700_000_000_002),
    sell('YES').at(0.57).size(7).by('ann').named('c').until(until).placedAt(1_700_000_000_003),
    bids.exactly(Number.MAX_SAFE_INTEGER).by('ann').named('d').placedAt(1_700_000_000_004),
  ].map((order, matches) => ({ ...order.resting(), matches }))
  const expected = new Book(options)
  for (const order of orders) expected.rest(order, order.remaining, order.matches)
  const book = Book.restore([chunk], options)
  assert.deepEqual(book.ordersOf(traderNamed('ann')), [orders[0], orders[2], orders[3]])
  assert.equal(book.stateHash(), expected.stateHash())
  assert.deepEqual(all(book), all(expected))
})
