/** Failures and omissions of checks. */

/** The observed value differs from the expected one. */
export class Mismatch extends Error {
  readonly expected: string
  readonly seen: string

  constructor(expected: string, seen: unknown) {
    super(`expected ${expected}, saw ${wordsOf(seen)}`)
    this.expected = expected
    this.seen = wordsOf(seen)
  }
}

/** The check cannot run here, with the reason. */
export class Skipped extends Error {}

const SEEN_CHARS_MAX = 200

export function demand(holds: boolean, expected: string, seen: unknown): asserts holds {
  if (!holds) throw new Mismatch(expected, seen)
}

export function demandEqual(what: string, seen: unknown, expected: unknown): void {
  if (JSON.stringify(seen) === JSON.stringify(expected)) return
  throw new Mismatch(`${what} ${wordsOf(expected)}`, seen)
}

function wordsOf(seen: unknown): string {
  const text = typeof seen === 'string' ? seen : (JSON.stringify(seen) ?? 'nothing')
  return text.length > SEEN_CHARS_MAX ? `${text.slice(0, SEEN_CHARS_MAX)}…` : text
}
