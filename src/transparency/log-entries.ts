/**
 * Makes the entries of the public log from rows of the event log. The entries are a pure function of the rows, and rows
 * never change. So every builder of the tree gets the same roots, even if it starts again from the beginning. This
 * requires that the format of version 1 never changes.
 *
 * An entry is text with one JSON value per line. The first line is the head of the entry. Each other line is one event,
 * in the format of the event log (docs/transparency.md lists the cells). Signatures and permits are replaced by their
 * SHA-256. Labels, groups, protection settings and session names are left out, because they would reveal how a trader
 * works.
 *
 * A row becomes one entry, unless that entry would have more than 60,000 bytes. Then the row becomes several entries of
 * whole events. An event that is too long for one entry is cut into pieces, and each piece is an entry.
 */

import type { EntryHead } from './entry-head.ts'
import { bytesOf } from './note.ts'

/** A row of the event log: consecutive events that became durable together. */
type EventRow = {
  /** Offset in the partition of the row's first event. */
  readonly first: number
  readonly count: number
  /** A JSON array with one event per line. */
  readonly payload: Uint8Array
}

/**
 * Returns SHA-256 as 64 hex digits, because Node computes the digits in half the time that it needs to return bytes.
 */
export type HexSha256 = (bytes: Uint8Array) => string

const ENTRY_VERSION = 1
export const LEAF_BYTES_MAX = 60_000
/**
 * Bytes reserved for the head of an entry. The number is fixed, so that only the length of the row's events decides
 * whether the row becomes one entry.
 */
const HEAD_BYTES_MAX = 128
const BODY_BYTES_MAX = LEAF_BYTES_MAX - HEAD_BYTES_MAX

/** Length of a signature in characters: `0x` and 65 bytes in hex. */
const SIGNATURE_CHARS = 132
const ELIDED_MARKET = /^(\["[A-Z]",)0,/
const NAMED_MARKET = /^\["[A-Z]",("0x[0-9a-f]{64}"),/

/** Returns the entries of a row. */
export function entriesOf({ first, count, payload }: EventRow, hash: HexSha256): Uint8Array[] {
  const text = textOf(payload)
  const isShort = payload.length <= BODY_BYTES_MAX
  if (isShort && isPlain(text)) return [listsEntry({ first, count }, text, hash)]
  const lines = linesOf(text)
  if (lines.length !== count)
    throw new Error(
      `the row at offset ${first} of the log has ${lines.length} events, but its event count is ` +
        `${count}`,
    )
  const hidden = lines.map((line) => publicLine(line, hash))
  if (isShort) return [entryOf({ v: ENTRY_VERSION, first, count }, hidden)]
  return splitRow(first, hidden)
}

/**
 * Returns true only if all events are plain lists. A plain list contains no object, and does not end with a text, which
 * could be a session name.
 */
function isPlain(text: string): boolean {
  return !text.includes('{') && !text.includes('"]')
}

/**
 * Returns the entry of a row in which all events are plain lists. Nearly all rows contain only plain lists. Handling
 * each event separately would take twice as long.
 */
function listsEntry(
  { first, count }: Pick<EventRow, 'first' | 'count'>,
  text: string,
  hash: HexSha256,
): Uint8Array {
  // JSON values contain no newline, so a comma followed by a newline ends an event.
  const body = hideAll(text.slice(2, -2).replaceAll(',\n', '\n'), hash)
  const events = body.split('\n').length
  if (!text.startsWith('[\n') || !text.endsWith('\n]') || events !== count) {
    throw new Error(
      `the row at offset ${first} of the log must be a JSON array with one event per line and ` +
        `${count} events, but it is not such an array or has ${events} events`,
    )
  }
  return Buffer.from(`${JSON.stringify({ v: ENTRY_VERSION, first, count })}\n${body}\n`)
}

function textOf({ buffer, byteOffset, byteLength }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('utf8')
}

/** Returns the events of a row as lines of text. JSON values contain no newline, so each line is one event. */
function linesOf(payload: string): string[] {
  const lines = payload.split('\n')
  if (lines[0] !== '[' || lines.at(-1) !== ']')
    throw new Error('a row of the log must be a JSON array with one event per line')
  return lines.slice(1, -1).map((line, at) => (at === lines.length - 3 ? line : line.slice(0, -1)))
}

function publicLine(line: string, hash: HexSha256): string {
  if (line[0] !== '[') return line
  return isPlain(line) ? hideAll(line, hash) : JSON.stringify(publicCells(JSON.parse(line), hash))
}

type Cell = string | number | object
/**
 * Index of the cell with the order's session name, by kind of event (`R`: order rested, `M`: orders matched). In the
 * public log, `OF_SESSION` replaces the name.
 */
const MARK_CELLS: Readonly<Record<string, number>> = { R: 15, M: 11 }
const OF_SESSION = 2

/** Hides signatures, permits and session names, cell by cell, in an event of any form. */
function publicCells(cells: readonly Cell[], hash: HexSha256): Cell[] {
  const mark = MARK_CELLS[String(cells[0])]
  return cells.flatMap((cell, at): Cell | Cell[] => {
    if (typeof cell === 'object') return isPermit(cell) ? permitHash(cell, hash) : publicTail(cell)
    if (typeof cell !== 'string') return cell
    if (at === mark) return OF_SESSION
    return cell.length === SIGNATURE_CHARS ? signatureHash(cell, hash) : cell
  })
}

function isPermit(cell: object): cell is PublicPermit {
  return 'deadline' in cell
}

/** Returns the public members of the event's last cell; an empty list if the cell has no public members. */
function publicTail(tail: PublicTail): [] | [PublicTail] {
  const { others, cause, bookByMs, replaces } = tail
  const shown: PublicTail = {
    ...(others === undefined ? {} : { others }),
    ...(cause === undefined ? {} : { cause }),
    ...(bookByMs === undefined ? {} : { bookByMs }),
    ...(replaces === undefined ? {} : { replaces }),
  }
  return Object.keys(shown).length === 0 ? [] : [shown]
}

type PublicTail = {
  readonly others?: readonly number[]
  readonly cause?: string
  readonly bookByMs?: number
  readonly replaces?: string
}

/**
 * Replaces signatures by their hashes, and session names by `OF_SESSION`, in events that are plain lists. A text of
 * `SIGNATURE_CHARS` characters is always a signature. The four cells before a signature are: session name or a number,
 * nonce, expiration, and fee recipient or 0. So the function finds the session name by its distance from the signature.
 * It searches for quotation marks, because plain lists contain no escaped ones. Regular expressions took three times as
 * long as this loop.
 */
function hideAll(lists: string, hash: HexSha256): string {
  let hidden = ''
  let from = 0
  // Start positions of the last four quoted texts before `at`, the nearest first.
  let [one, two, three, four] = [0, 0, 0, 0]
  for (let at = lists.indexOf('"'); at >= 0; ) {
    const end = lists.indexOf('"', at + 1)
    if (end - at === SIGNATURE_CHARS + 1) {
      const hasRecipient = lists[at - 2] === '"'
      const nonce = hasRecipient ? three : two
      if (lists[nonce - 2] === '"') {
        hidden += `${lists.slice(from, hasRecipient ? four : three)}${OF_SESSION}`
        from = nonce - 1
      }
      hidden += `${lists.slice(from, at)}"${signatureHash(lists.slice(at + 1, end), hash)}"`
      from = end + 1
    }
    four = three
    three = two
    two = one
    one = at
    at = lists.indexOf('"', end + 1)
  }
  return hidden + lists.slice(from)
}

/** Returns the hash that replaces a signature: SHA-256 of the signature's 65 bytes. */
export function signatureHash(signature: string, hash: HexSha256): string {
  return `0x${hash(Buffer.from(signature.slice(2), 'hex'))}`
}

/** Returns the hash that replaces a permit: SHA-256 of a JSON object with exactly these six members, in this order. */
export function permitHash(permit: PublicPermit, hash: HexSha256): string {
  const { nonce, value, deadline, v, r, s } = permit
  return `0x${hash(bytesOf(JSON.stringify({ nonce, value, deadline, v, r, s })))}`
}

type PublicPermit = {
  readonly nonce: string
  readonly value: string
  readonly deadline: string
  readonly v: number
  readonly r: string
  readonly s: string
}

function entryOf(head: EntryHead, lines: readonly string[]): Uint8Array {
  return bytesOf(`${JSON.stringify(head)}\n${lines.join('\n')}\n`)
}

/** Splits a long row between events. Each entry gets as many events as fit. */
function splitRow(first: number, lines: readonly string[]): Uint8Array[] {
  const entries: Uint8Array[] = []
  let gathered: string[] = []
  let bytes = 0
  let market = ''
  const flush = (next: number): void => {
    if (gathered.length === 0) return
    const count = gathered.length
    entries.push(entryOf({ v: ENTRY_VERSION, first: first + next - count, count }, gathered))
    gathered = []
    bytes = 0
  }
  for (const [at, line] of lines.entries()) {
    market = marketIn(line) ?? market
    // An entry must be readable on its own, so its first event names the market.
    const named = line.replace(ELIDED_MARKET, `$1${market},`)
    const length = bytesOf(named).length + 1
    if (bytes + length > BODY_BYTES_MAX) flush(at)
    if (length > BODY_BYTES_MAX) {
      entries.push(...piecesOf(first + at, named))
      continue
    }
    gathered.push(gathered.length === 0 ? named : line)
    bytes += length
  }
  flush(lines.length)
  return entries
}

/** Returns the market that an event names, as JSON; undefined if the event has the same market as the event before. */
function marketIn(line: string): string | undefined {
  if (line[0] === '[') return NAMED_MARKET.exec(line)?.[1]
  return JSON.stringify((JSON.parse(line) as { marketId: string }).marketId)
}

/** Cuts a long event into pieces. No cut divides a character. */
function piecesOf(first: number, line: string): Uint8Array[] {
  const texts: string[] = []
  let text = ''
  let bytes = 0
  for (const character of line) {
    const length = bytesOf(character).length
    if (bytes + length >= BODY_BYTES_MAX) {
      texts.push(text)
      text = ''
      bytes = 0
    }
    text += character
    bytes += length
  }
  texts.push(text)
  const pieces = texts.length
  return texts.map((part, at) =>
    entryOf({ v: ENTRY_VERSION, first, count: 1, piece: at + 1, pieces }, [part]),
  )
}
