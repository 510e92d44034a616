/** Divides long lists. */

/** Splits a list into parts of at most `max` elements each. */
export function* partsOf<T>(list: readonly T[], max: number): Generator<readonly T[]> {
  for (let from = 0; from < list.length; from += max) yield list.slice(from, from + max)
}
