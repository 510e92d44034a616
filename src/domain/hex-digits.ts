/** Hexadecimal digits, eight at once, from character codes that lie in memory as little-endian words. */

/** The four bytes that eight digits say; each argument has four of the characters, the first lowest. */
export function wordOfDigits(first: number, second: number): number {
  return twoBytes(first) | (twoBytes(second) << 16)
}

/** The two bytes that four digits say. */
function twoBytes(characters: number): number {
  // A letter has bit 6 set and counts from 1 in its low bits, so it lacks 9.
  const letters = (characters >>> 6) & 0x01010101
  const digits = (characters & 0x0f0f0f0f) + letters * 9
  const bytes = (digits << 4) | (digits >>> 8)
  return (bytes & 0xff) | ((bytes >>> 8) & 0xff00)
}
