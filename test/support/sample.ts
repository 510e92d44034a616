/**
 * True with `TEST_WHOLE=1` (`npm run test:whole`). Tests with many cases then check all cases. Otherwise they check a
 * random part.
 */

export const WHOLE = process.env.TEST_WHOLE === '1'

/**
 * Divides the cases `from`, `from + step`, … into `part` interleaved parts and returns a random part. Repeated runs
 * cover all parts.
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
 * Returns the comma-separated seeds in `TEST_SEED`. If it is not set, returns a random one of `seeds`, or all with
 * `TEST_WHOLE=1`.
 */
export function seedsOf(...seeds: readonly number[]): readonly number[] {
  const asked = process.env.TEST_SEED
  if (asked !== undefined) return asked.split(',').map(Number)
  return WHOLE ? seeds : seeds.slice(Math.floor(Math.random() * seeds.length)).slice(0, 1)
}
