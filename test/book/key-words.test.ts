import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Book } from '#book/book.ts'
import { readKey, tagOfText, tagOfWords, tagPlaces } from '#book/key-words.ts'
import { ADDRESS_WORDS, HASH_WORDS } from '#book/layout.ts'
import type { OrderHash } from '#domain/ids.ts'
import { buy } from '../support/orders.ts'
import { randomFrom, withSeeds } from '../support/random.ts'

test('the hash table computes equal tags for one key, whether given as hex text or as 32-bit words', () => {
  withSeeds([1, 2, 3], (random) => {
    for (const count of [HASH_WORDS, ADDRESS_WORDS]) {
      const places = tagPlaces(random.int(0, 2 ** 31 - 1), count)
      assert.equal(new Set(places).size, 6)
      const words = new Int32Array(HASH_WORDS + 3)
      for (let round = 0; round < 200; round++) {
        const key = random.hex(4 * count)
        readKey(key, words, count)
        words.copyWithin(3, 0, HASH_WORDS)
        assert.equal(tagOfWords(words, 3, places), tagOfText(key, places, count), key)
      }
    }
  })
})

test('different seeds of the hash table select different digits of an order hash as the tag', () => {
  const seeds = Array.from({ length: 200 }, (_, seed) => tagPlaces(seed, HASH_WORDS).join())
  assert.equal(new Set(seeds).size, 200)
})

test('orders whose hashes have the same hash-table tag are found, cancelled and restored separately', () => {
  const random = randomFrom(5)
  const seed = 77
  const places = tagPlaces(seed, HASH_WORDS)
  const alike = (): OrderHash => {
    const digits = [...random.hex(32)]
    for (const place of places) digits[place] = '7'
    return digits.join('') as OrderHash
  }
  const hashes = Array.from({ length: 300 }, alike)
  assert.equal(new Set(hashes.map((hash) => tagOfText(hash, places, HASH_WORDS))).size, 1)
  const book = new Book({ ordersMax: 1_000, seed })
  for (const [index, orderHash] of hashes.entries()) {
    const terms = { ...buy('YES').at(0.4).resting(), orderHash, placedAtMs: index }
    book.rest(terms, terms.size, 0)
    assert.throws(() => book.rest(terms, terms.size, 0), /rests already/)
  }
  assert.equal(book.count, 300)
  const gone = hashes.filter((_, index) => index % 3 === 0)
  for (const orderHash of gone) assert.equal(book.cancel(orderHash)?.orderHash, orderHash)
  const restored = Book.restore(book.beginSnapshot().copySome(1_000), { ordersMax: 1_000, seed })
  for (const each of [book, restored]) {
    for (const [index, orderHash] of hashes.entries()) {
      const placedAtMs = index % 3 === 0 ? undefined : index
      assert.equal(each.find(orderHash)?.placedAtMs, placedAtMs)
    }
  }
  assert.equal(restored.stateHash(), book.stateHash())
})
