/** Formats data: tables for people, JSON for programs. */

const DECIMALS = 6
/** Number of digits that a table shows of an id; enough to identify the object. */
const SHORT_DIGITS = 10

/** Formats millionths: 420000 is 0.42. */
export function showAmount(millionths: number | bigint): string {
  const value = BigInt(millionths)
  const digits = String(value < 0n ? -value : value).padStart(DECIMALS + 1, '0')
  const fraction = digits.slice(-DECIMALS).replace(/0{1,4}$/, '')
  return `${value < 0n ? '-' : ''}${digits.slice(0, -DECIMALS)}.${fraction}`
}

/** Formats a price; an absent price is a dash. */
export function showPrice(millionths: number | null | undefined): string {
  return millionths ? showAmount(millionths) : '-'
}

export function showTime(unixSec: number): string {
  return new Date(unixSec * 1_000).toISOString().replace('T', ' ').slice(0, 16)
}

export function showId(id: string): string {
  return id.slice(0, 2 + SHORT_DIGITS)
}

/** Returns the value as JSON with a line break; bigints above 2^53 become strings. */
export function showJson(value: unknown, space?: number): string {
  const text = JSON.stringify(
    value,
    (_key, each: unknown) => {
      if (typeof each !== 'bigint') return each
      return each <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(each) : String(each)
    },
    space,
  )
  return `${text}\n`
}

/** Control characters except line breaks, and characters that change the direction of the text around them. */
const UNPRINTABLE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern has to find them
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/**
 * Escapes control characters as in JSON, because they could change the display of a terminal. The creator of
 * a market writes its question, and an exchange writes its errors, so neither is trusted. In JSON output
 * these characters occur only within strings, so the escaped JSON has the same value.
 */
export function printable(text: string): string {
  return text.replace(
    UNPRINTABLE,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(ESCAPE_DIGITS, '0')}`,
  )
}

const ESCAPE_DIGITS = 4

/**
 * Replaces line breaks in a cell by spaces. Market questions come from other users, and a line break could
 * imitate another row of the table.
 */
function oneLine(text: string): string {
  return text.replaceAll('\n', ' ')
}

/** Formats columns under a header; the last column is not padded. */
export function showTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows.map((row) => row.map(oneLine))]
  const widths = head.map((_, at) => Math.max(...all.map((row) => row[at]?.length ?? 0)))
  return all
    .map(
      (row) =>
        `${row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}

/** Formats one line per fact: the name, then the value. */
export function showFacts(facts: Readonly<Record<string, string | number>>): string {
  const width = Math.max(...Object.keys(facts).map((name) => name.length))
  return Object.entries(facts)
    .map(([name, value]) => `${name.padEnd(width)}  ${oneLine(String(value))}\n`)
    .join('')
}
