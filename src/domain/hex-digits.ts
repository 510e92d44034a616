/** Parses hex digits, eight per call, from character codes packed into two little-endian 32-bit words. */

/**
 * Returns the four bytes that eight digits encode. Each argument contains four character codes, the first in its lowest
 * byte.
 */
export function wordOfDigits(first: number, second: number): number {
  return twoBytes(first) | (twoBytes(second) << 16)
}

/** Returns the two bytes that four digits encode. */
function twoBytes(characters: number): number {
  // A letter's code has bit 6 set, and 1 to 6 in its low four bits. Adding 9 to these gives the digit's value.
  const letters = (characters >>> 6) & 0x01010101
  const digits = (characters & 0x0f0f0f0f) + letters * 9
  const bytes = (digits << 4) | (digits >>> 8)
  return (bytes & 0xff) | ((bytes >>> 8) & 0xff00)
}
