/** Errors of a check that fails or is skipped. */

/** Thrown by a check if the observed value differs from the expected value. */
export class Mismatch extends Error {
  readonly expected: string
  readonly seen: string

  constructor(expected: string, seen: unknown) {
    super(`expected ${expected}, saw ${wordsOf(seen)}`)
    this.expected = expected
    this.seen = wordsOf(seen)
  }
}

/** Thrown if a check cannot run against this server; the message is the reason. */
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
