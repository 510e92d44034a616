/**
 * Parses JSON without rounding. An integer beyond 2^53 is returned as decimal text, because not every browser gives a
 * reviver the source of a number; callers convert it to a bigint.
 */

/** The pattern also matches strings, in order to skip them, because they may contain digits. */
const STRING_OR_LONG_INTEGER = /"(?:[^"\\]|\\.)*"|-?\d{16,}/g

export function parseExactJson(text: string): unknown {
  return JSON.parse(
    text.replace(STRING_OR_LONG_INTEGER, (found) =>
      found.startsWith('"') || Number.isSafeInteger(Number(found)) ? found : `"${found}"`,
    ),
  )
}
