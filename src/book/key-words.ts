/**
 * Converts keys (hashes and addresses) between 0x-hex text, which callers use, and 32-bit words, which records use. The
 * bytes of the words are in the order of the text. This works only on a little-endian machine, on which the lowest byte
 * of a word comes first.
 *
 * Every command contains a hash as text, so parsing hashes is a large part of an operation's cost. To store a hash, its
 * characters are copied in one call and converted four at a time. To find a key, only six of its digits are parsed.
 * These digits form the key's tag, the number by which an index finds the key. Traders can choose their hashes and
 * addresses. So a secret seed selects the six digits, and no trader can make many keys collide.
 */

import assert from 'node:assert/strict'
import { wordOfDigits } from '#domain/hex-digits.ts'
import * as layout from './layout.ts'

const { HASH_WORDS } = layout

if (new Uint8Array(new Uint32Array([1]).buffer)[0] !== 1) {
  assert.fail('the order book requires a little-endian processor, but this processor is big-endian')
}

/**
 * Internal functions of Node that read and write latin1 text. They avoid the overhead of the public `toString` and
 * `write`.
 */
type Latin1Buffer = Buffer<ArrayBuffer> & {
  latin1Slice(start: number, end: number): string
  latin1Write(text: string, at: number, length: number): number
}

/**
 * Buffer for the text of a key. The text begins at byte 2, so that the digits after `0x` begin at a whole
 * word.
 */
const text = Buffer.from(new ArrayBuffer(4 + 8 * HASH_WORDS)) as Latin1Buffer
const textWords = new Int32Array(text.buffer)
const textPairs = new Uint16Array(text.buffer)
text.write('0x', 2)

/** Parses `0x` and `8 * count` digits into the first `count` words. The digits are not checked. */
export function readKey(key: string, words: Int32Array, count: number): void {
  checkLength(key, count)
  text.latin1Write(key, 2, key.length)
  for (let word = 0; word < count; word++) {
    words[word] = wordOfDigits(textWords[1 + 2 * word]!, textWords[2 + 2 * word]!)
  }
}

function checkLength(key: string, count: number): void {
  if (key.length !== 2 + 8 * count) assert.fail(`the key must have ${4 * count} bytes: ${key}`)
}

/** Character codes of the two hex digits of each byte. */
const PAIR = new Uint16Array(256)
for (let byte = 0; byte < 256; byte++) {
  const digits = byte.toString(16).padStart(2, '0')
  PAIR[byte] = digits.charCodeAt(0) | (digits.charCodeAt(1) << 8)
}

/** Returns `count` 32-bit words from `offset` as `0x` and lower-case hex digits. */
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

const TAG_DIGITS = 6

/**
 * Returns the positions of the six digits of a key's text that form its tag. The seed chooses the positions. The key
 * has `count` words.
 */
export function tagPlaces(seed: number, count: number): Uint8Array {
  const places = Array.from({ length: 8 * count }, (_, digit) => 2 + digit)
  let random = seed
  for (let chosen = 0; chosen < TAG_DIGITS; chosen++) {
    random = spread(random + chosen)
    const other = chosen + ((random >>> 0) % (places.length - chosen))
    const place = places[other]!
    places[other] = places[chosen]!
    places[chosen] = place
  }
  return Uint8Array.from(places.slice(0, TAG_DIGITS))
}

/** Returns the tag of a key (the number made of six of its digits) from the key's text. The key has `count` words. */
export function tagOfText(key: string, places: Uint8Array, count: number): number {
  checkLength(key, count)
  let tag = 0
  for (let index = 0; index < TAG_DIGITS; index++) {
    const character = key.charCodeAt(places[index]!)
    // The lowest four bits of `0` to `9` are the value. For `a` to `f` they are 1 to 6, so 9 is added. Only letters
    // have bit 6 set.
    tag = (tag << 4) | ((character & 0x0f) + (character >> 6) * 9)
  }
  return spread(tag)
}

/** Returns the same tag as `tagOfText`, from the key's words. The words begin at `offset`. */
export function tagOfWords(words: Int32Array, offset: number, places: Uint8Array): number {
  let tag = 0
  for (let index = 0; index < TAG_DIGITS; index++) {
    const digit = places[index]! - 2
    const low = (digit >> 1) * 8 + (digit & 1 ? 0 : 4)
    tag = (tag << 4) | ((words[offset + (low >> 5)]! >>> (low & 31)) & 0x0f)
  }
  return spread(tag)
}

function spread(bits: number): number {
  const product = Math.imul(bits, 0x9e3779b1)
  return product ^ (product >>> 15)
}

/**
 * Returns whether two keys are equal. The parameters are separate values, because an object for each lookup
 * would cost more than reading the words.
 */
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
