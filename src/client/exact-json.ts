/**
 * Parses JSON without rounding. An integer beyond 2^53 becomes decimal text, which callers convert to a bigint. A
 * reviver of `JSON.parse` cannot do this, because not every browser passes the number's source text to it.
 */

/** Matches long integers, and also whole strings, so that a string with long digits stays unchanged. */
const STRING_OR_LONG_INTEGER = /"(?:[^"\\]|\\.)*"|-?\d{16,}/g

export function parseExactJson(text: string): unknown {
  return JSON.parse(
    text.replace(STRING_OR_LONG_INTEGER, (found) =>
      found.startsWith('"') || Number.isSafeInteger(Number(found)) ? found : `"${found}"`,
    ),
  )
}
