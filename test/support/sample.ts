/**
 * True with `TEST_WHOLE=1` (`npm run test:whole`): long sweeps then run completely, otherwise a random part of them.
 */

export const WHOLE = process.env.TEST_WHOLE === '1'

/**
 * Returns one of `part` interleaved parts of a sweep. It is chosen at random, so that repeated runs cover all parts.
 */
export function sweep(from: number, step: number, part: number): { from: number; step: number } {
  if (WHOLE) return { from, step }
  return { from: from + step * Math.floor(Math.random() * part), step: step * part }
}

/** Returns a count divided by `part`, rounded up and at least 1; the whole count with `TEST_WHOLE=1`. */
export function sampleOf(count: number, part: number): number {
  return WHOLE ? count : Math.max(1, Math.ceil(count / part))
}

/**
 * Returns the seeds in `TEST_SEED`, separated by commas; otherwise a random one of these, or all with `TEST_WHOLE=1`.
 */
export function seedsOf(...seeds: readonly number[]): readonly number[] {
  const asked = process.env.TEST_SEED
  if (asked !== undefined) return asked.split(',').map(Number)
  return WHOLE ? seeds : seeds.slice(Math.floor(Math.random() * seeds.length)).slice(0, 1)
}
