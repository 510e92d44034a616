/** Parses hexadecimal digits, eight per call, from character codes in little-endian words. */

/** Returns the four bytes of eight digits; each argument has four characters, the first in the lowest byte. */
export function wordOfDigits(first: number, second: number): number {
  return twoBytes(first) | (twoBytes(second) << 16)
}

/** Returns the two bytes of four digits. */
function twoBytes(characters: number): number {
  // A letter has bit 6 set, and its low bits count from 1, so add 9.
  const letters = (characters >>> 6) & 0x01010101
  const digits = (characters & 0x0f0f0f0f) + letters * 9
  const bytes = (digits << 4) | (digits >>> 8)
  return (bytes & 0xff) | ((bytes >>> 8) & 0xff00)
}
