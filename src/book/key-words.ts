/**
 * Hashes and addresses between their two forms: 0x-hex text outside, 32-bit words inside. The words
 * lie in memory as the bytes of the key, which a little-endian machine reads lowest byte first.
 *
 * Every command brings a hash as text, so reading it is a good part of what an operation costs: the
 * characters are copied out at once and converted four at a time, which is three times as fast as
 * asking the text for each. To find a key, eight of its bytes make a tag. Traders choose their hashes
 * and addresses, so the tag is mixed with a seed: nobody can have all of his fall into one place.
 */

import assert from 'node:assert/strict'

export const HASH_WORDS = 8
export const ADDRESS_WORDS = 5

if (new Uint8Array(new Uint32Array([1]).buffer)[0] !== 1) {
  assert.fail('the book keeps its records in little-endian order')
}

/** What `write` and `toString` come down to for this encoding, without their detours. */
type Latin1Buffer = Buffer<ArrayBuffer> & {
  latin1Write(text: string, offset: number): number
  latin1Slice(start: number, end: number): string
}

/** Room for the text from byte 2 on, so that its digits, after the `0x`, begin at a whole word. */
const text = Buffer.from(new ArrayBuffer(4 + 8 * HASH_WORDS)) as Latin1Buffer
const textWords = new Int32Array(text.buffer)
const textPairs = new Uint16Array(text.buffer)
text.write('0x', 2)

/** Reads `0x` and `8 * count` digits into the first `count` words. It trusts the digits. */
export function readKey(key: string, words: Int32Array, count: number): void {
  if (key.length !== 2 + 8 * count) assert.fail(`a key of ${4 * count} bytes, not ${key}`)
  text.latin1Write(key, 2)
  for (let word = 0; word < count; word++) {
    words[word] = twoBytes(textWords[1 + 2 * word]!) | (twoBytes(textWords[2 + 2 * word]!) << 16)
  }
}

/** The two bytes that four hex digits say, from four characters in one word. */
function twoBytes(characters: number): number {
  // A letter has bit 6 set and counts from 1 in its low bits, so it lacks 9.
  const letters = (characters >>> 6) & 0x01010101
  const digits = (characters & 0x0f0f0f0f) + letters * 9
  const bytes = (digits << 4) | (digits >>> 8)
  return (bytes & 0xff) | ((bytes >>> 8) & 0xff00)
}

/** Two character codes for every byte. */
const PAIR = new Uint16Array(256)
for (let byte = 0; byte < 256; byte++) {
  const digits = byte.toString(16).padStart(2, '0')
  PAIR[byte] = digits.charCodeAt(0) | (digits.charCodeAt(1) << 8)
}

/** The lower-case text of the `count` words from `offset`. */
export function writeKey(words: Int32Array, offset: number, count: number): string {
  let at = 2
  for (let word = 0; word < count; word++) {
    const bits = words[offset + word]!
    textPairs[at] = PAIR[bits & 255]!
    textPairs[at + 1] = PAIR[(bits >>> 8) & 255]!
    textPairs[at + 2] = PAIR[(bits >>> 16) & 255]!
    textPairs[at + 3] = PAIR[bits >>> 24]!
    at += 4
  }
  return text.latin1Slice(2, 2 * at)
}

/** The tag of the key that begins at `offset`, from its first eight bytes. */
export function tagOf(words: Int32Array, offset: number, seed: number): number {
  let tag = Math.imul(words[offset]! ^ seed, 0x9e3779b1)
  tag = Math.imul(tag ^ (tag >>> 15) ^ words[offset + 1]!, 0x85ebca77)
  tag = Math.imul(tag ^ (tag >>> 13) ^ seed, 0xc2b2ae3d)
  return tag ^ (tag >>> 16)
}

export function sameKey(
  a: Int32Array,
  aOffset: number,
  b: Int32Array,
  bOffset: number,
  count: number,
): boolean {
  for (let word = 0; word < count; word++) {
    if (a[aOffset + word] !== b[bOffset + word]) return false
  }
  return true
}
