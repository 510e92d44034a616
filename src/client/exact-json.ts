/**
 * Reads JSON without rounding. An integer beyond 2^53 comes out as its decimal text, because not
 * every browser tells a reviver the source of a number; who expects one makes a bigint of it.
 */

/** Strings are matched to be passed over: they may hold anything, digits too. */
const STRING_OR_LONG_INTEGER = /"(?:[^"\\]|\\.)*"|-?\d{16,}/g

export function parseExactJson(text: string): unknown {
  return JSON.parse(
    text.replace(STRING_OR_LONG_INTEGER, (found) =>
      found.startsWith('"') || Number.isSafeInteger(Number(found)) ? found : `"${found}"`,
    ),
  )
}
