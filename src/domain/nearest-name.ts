/** Finds the name that the user probably meant: the known name that differs from the input by the fewest typos. */

/** Returns the known name that differs from `given` by the fewest typos; undefined if no name is similar enough. */
export function nearestName(given: string, names: Iterable<string>): string | undefined {
  let best: string | undefined
  let fewest = Math.max(2, Math.floor(given.length / 6)) + 1
  for (const name of names) {
    if (Math.abs(name.length - given.length) >= fewest) continue
    const slips = typosBetween(given, name)
    if (slips >= fewest) continue
    fewest = slips
    best = name
  }
  return best
}

/** Returns the number of typos in `given`, compared with `name`: missing, extra, wrong and swapped letters. */
export function typosBetween(given: string, name: string): number {
  let twoAgo: number[] = []
  let before = Array.from({ length: name.length + 1 }, (_, index) => index)
  for (let row = 1; row <= given.length; row++) {
    const now = [row]
    for (let column = 1; column <= name.length; column++) {
      const same = given[row - 1] === name[column - 1] ? 0 : 1
      const isSwap =
        row > 1 &&
        column > 1 &&
        given[row - 1] === name[column - 2] &&
        given[row - 2] === name[column - 1]
      now[column] = Math.min(
        before[column]! + 1,
        now[column - 1]! + 1,
        before[column - 1]! + same,
        isSwap ? twoAgo[column - 2]! + 1 : Number.POSITIVE_INFINITY,
      )
    }
    twoAgo = before
    before = now
  }
  return before[name.length]!
}
