/**
 * Checksum of a book: CRC-32 over its ten best bids, then its ten best asks, each level as `price:size`. Levels are
 * joined by commas, and the two lists by a bar. With the checksum, a client that applies deltas can verify that no
 * change is missing.
 */

import { crc32 } from 'node:zlib'
import { BUY, SELL } from '#domain/order.ts'
import type { LevelBook, ShownLevel } from '#live/level-book.ts'

/** Levels of each side that are included. */
const CHECKSUM_LEVELS = 10

/** Returns the text that is hashed. Sizes are written as exact integers, however large they are. */
function checksumText(bids: readonly ShownLevel[], asks: readonly ShownLevel[]): string {
  return `${sideText(bids)}|${sideText(asks)}`
}

function sideText(levels: readonly ShownLevel[]): string {
  let text = ''
  const count = Math.min(levels.length, CHECKSUM_LEVELS)
  for (let at = 0; at < count; at++) {
    const [price, size] = levels[at]!
    text += at === 0 ? `${price}:${size}` : `,${price}:${size}`
  }
  return text
}

export function checksumOf(book: LevelBook): number {
  const bids = book.levels(BUY, CHECKSUM_LEVELS)
  return crc32(checksumText(bids, book.levels(SELL, CHECKSUM_LEVELS)))
}
