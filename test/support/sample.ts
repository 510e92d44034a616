/**
 * How much of a long sweep is done: a part that is drawn anew each time, or with `TEST_WHOLE=1`
 * (`npm run test:whole`) all of it.
 */

export const WHOLE = process.env.TEST_WHOLE === '1'

/** Takes one of so many in a sweep; the first one is drawn, so that in time all have their turn. */
export function sweep(from: number, step: number, part: number): { from: number; step: number } {
  if (WHOLE) return { from, step }
  return { from: from + step * Math.floor(Math.random() * part), step: step * part }
}

/** So many of a count, at least one. */
export function sampleOf(count: number, part: number): number {
  return WHOLE ? count : Math.max(1, Math.ceil(count / part))
}

/** The seeds that `TEST_SEED` names, separated by commas; else one of these, which is drawn, or all of them. */
export function seedsOf(...seeds: readonly number[]): readonly number[] {
  const asked = process.env.TEST_SEED
  if (asked !== undefined) return asked.split(',').map(Number)
  return WHOLE ? seeds : seeds.slice(Math.floor(Math.random() * seeds.length)).slice(0, 1)
}
