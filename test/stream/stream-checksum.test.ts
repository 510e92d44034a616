import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { crc32 } from '#client/crc32.ts'
import { BUY, SELL } from '#domain/order.ts'
import { LevelBook } from '#live/level-book.ts'
import { checksumOf } from '#stream/checksum.ts'

const ROW = /\| `([0-9:,\\|]*)` \| ([0-9]+) \|$/gm

test('the example checksums in the documentation equal the checksums of the server and of the SDK', async () => {
  const page = await readFile(new URL('../../docs/stream.md', import.meta.url), 'utf8')
  const rows = [...page.matchAll(ROW)]
  assert.equal(rows.length, 6)
  for (const [, written = '', checksum] of rows) {
    const text = written.replace('\\|', '|')
    assert.equal(crc32(text), Number(checksum), text)
    const book = new LevelBook()
    const [bids = '', asks = ''] = text.split('|')
    for (const [side, levels] of [
      [BUY, bids],
      [SELL, asks],
    ] as const) {
      for (const level of levels === '' ? [] : levels.split(',')) {
        const [price, size] = level.split(':')
        book.load(side, [[Number(price), BigInt(size!)]])
      }
    }
    assert.equal(checksumOf(book), Number(checksum), text)
    // Levels below the ten best do not change the checksum.
    if (bids.split(',').length < 10) continue
    book.load(BUY, [[1, 1]])
    book.load(SELL, [[30, 1]])
    assert.equal(checksumOf(book), Number(checksum))
  }
})
