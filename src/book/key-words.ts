/**
 * Hashes and addresses between their two forms: 0x-hex text outside, 32-bit words inside. The words
 * lie in memory as the bytes of the key, which a little-endian machine reads lowest byte first.
 */

import assert from 'node:assert/strict'

export const HASH_WORDS = 8
export const ADDRESS_WORDS = 5

if (new Uint8Array(new Uint32Array([1]).buffer)[0] !== 1) {
  assert.fail('the book keeps its records in little-endian order')
}

const DIGITS = '0123456789abcdef'
/** The value of a hex digit by its character code; -1 for every other character below 128. */
const VALUE = new Int8Array(128).fill(-1)
for (let value = 0; value < 16; value++) {
  VALUE[DIGITS.charCodeAt(value)] = value
  VALUE[DIGITS.toUpperCase().charCodeAt(value)] = value
}

/** Two character codes for every byte. */
const PAIR = new Uint16Array(256)
for (let byte = 0; byte < 256; byte++) {
  PAIR[byte] = DIGITS.charCodeAt(byte >> 4) | (DIGITS.charCodeAt(byte & 15) << 8)
}

/** Reads `0x` and `8 * count` digits into the first `count` words. */
export function readKey(text: string, words: Int32Array, count: number): void {
  if (text.length !== 2 + 8 * count) assert.fail(`a key of ${4 * count} bytes, not ${text}`)
  let codes = 0
  let values = 0
  let at = 2
  for (let word = 0; word < count; word++) {
    let bits = 0
    for (let shift = 0; shift < 32; shift += 8) {
      const high = text.charCodeAt(at)
      const low = text.charCodeAt(at + 1)
      at += 2
      codes |= high | low
      const byte = (VALUE[high & 127]! << 4) | VALUE[low & 127]!
      values |= byte
      bits |= byte << shift
    }
    words[word] = bits
  }
  if (codes > 127 || values < 0) assert.fail(`a key in hex digits, not ${text}`)
}

const scratch = Buffer.alloc(2 + 8 * HASH_WORDS, '0x')
const scratchPairs = new Uint16Array(scratch.buffer, scratch.byteOffset, 1 + 4 * HASH_WORDS)

/** The lower-case text of the `count` words from `offset`. */
export function writeKey(words: Int32Array, offset: number, count: number): string {
  let at = 1
  for (let word = 0; word < count; word++) {
    const bits = words[offset + word]!
    scratchPairs[at] = PAIR[bits & 255]!
    scratchPairs[at + 1] = PAIR[(bits >>> 8) & 255]!
    scratchPairs[at + 2] = PAIR[(bits >>> 16) & 255]!
    scratchPairs[at + 3] = PAIR[bits >>> 24]!
    at += 4
  }
  return scratch.toString('latin1', 0, 2 * at)
}
