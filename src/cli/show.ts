/** Formats data: tables for people, JSON for programs. */

const DECIMALS = 6
/** Digits of an id in a table; enough to identify it. */
const SHORT_DIGITS = 10

/** Formats millionths: 420000 is 0.42. */
export function showAmount(millionths: number | bigint): string {
  const value = BigInt(millionths)
  const digits = String(value < 0n ? -value : value).padStart(DECIMALS + 1, '0')
  const fraction = digits.slice(-DECIMALS).replace(/0{1,4}$/, '')
  return `${value < 0n ? '-' : ''}${digits.slice(0, -DECIMALS)}.${fraction}`
}

/** Formats a price, or a dash if there is none. */
export function showPrice(millionths: number | null | undefined): string {
  return millionths ? showAmount(millionths) : '-'
}

export function showTime(unixSec: number): string {
  return new Date(unixSec * 1_000).toISOString().replace('T', ' ').slice(0, 16)
}

export function showId(id: string): string {
  return id.slice(0, 2 + SHORT_DIGITS)
}

/** Prints integers above 2^53 as strings. */
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

/** Control characters but line breaks, and marks that change the direction of the text around them. */
const UNPRINTABLE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern has to find them
  /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

/**
 * Replaces characters that a terminal would obey by their escapes in JSON: strangers write the questions of markets, and
 * an exchange its errors. JSON has these characters only within strings, so it means the same afterwards.
 */
export function printable(text: string): string {
  return text.replace(
    UNPRINTABLE,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(ESCAPE_DIGITS, '0')}`,
  )
}

const ESCAPE_DIGITS = 4

/** Replaces line breaks in texts of strangers, which could imitate another row of the table. */
function oneLine(text: string): string {
  return text.replaceAll('\n', ' ')
}

/** Prints columns under a header; the last one is not padded. */
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

/** Names before their values. */
export function showFacts(facts: Readonly<Record<string, string | number>>): string {
  const width = Math.max(...Object.keys(facts).map((name) => name.length))
  return Object.entries(facts)
    .map(([name, value]) => `${name.padEnd(width)}  ${oneLine(String(value))}\n`)
    .join('')
}
