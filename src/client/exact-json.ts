/**
 * Parses JSON without rounding. An integer beyond 2^53 becomes decimal text, which callers convert to a bigint. A
 * reviver cannot be used, because not every browser gives it the source text of a number.
 */

/** Matches strings as well as long integers, so that digits within strings are skipped. */
const STRING_OR_LONG_INTEGER = /"(?:[^"\\]|\\.)*"|-?\d{16,}/g

export function parseExactJson(text: string): unknown {
  return JSON.parse(
    text.replace(STRING_OR_LONG_INTEGER, (found) =>
      found.startsWith('"') || Number.isSafeInteger(Number(found)) ? found : `"${found}"`,
    ),
  )
}
