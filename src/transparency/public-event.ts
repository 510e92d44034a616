/**
 * Reads the events of the public log from its entries. This code follows docs/transparency.md and shares no code with
 * the event log. So a mistake in the event log's code is not repeated when the log is replayed.
 */

import {
  type Address,
  type MarketId,
  type OrderHash,
  type Uint64,
  ZERO_ADDRESS,
} from '#domain/ids.ts'
import type { Fill, OrderCloseReason } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, type Outcome, type Side } from '#domain/order.ts'
import type { CancelCause } from '#domain/order-tags.ts'
import { timeInForceByNumber } from '#domain/time-in-force.ts'
import { checkedEvent } from './check-event.ts'
import type { EntryHead } from './entry-head.ts'
import type {
  OrderTerms,
  PublicClosed,
  PublicEvent,
  PublicMatched,
  PublicOrder,
  PublicRested,
} from './public-event-shapes.ts'

const decoder = new TextDecoder('utf-8', { fatal: true })

type EntryText = { readonly head: EntryHead; readonly lines: readonly string[] }

/** Parses the head and the lines of an entry; throws if the entry is malformed. */
export function readEntry(entry: Uint8Array): EntryText {
  const [headText = '', ...lines] = decoder.decode(entry).split('\n')
  const head = JSON.parse(headText) as EntryHead | null
  if (head?.v !== 1)
    throw new Error(`the entry has the unknown version ${String(head?.v).slice(0, 20)}`)
  const numbers = [head.first, head.count, head.piece ?? 0, head.pieces ?? 0]
  if (!numbers.every((each) => Number.isSafeInteger(each) && each >= 0)) {
    throw new Error(
      'the first line of an entry must have `first`, `count`, `piece` and `pieces` as integers of 0 or more',
    )
  }
  if (lines.pop() !== '' || lines.length !== head.count) {
    throw new Error(
      `the entry at offset ${head.first} has ${lines.length} events, not ${head.count}, or its ` +
        'last line does not end with a newline',
    )
  }
  return { head, lines }
}

/**
 * Returns a function that reads the events of consecutive entries, starting at any entry. A long event may be split
 * over several entries. The function returns such an event when it receives the last piece. It throws if an offset is
 * missing or repeated, or if an event is malformed.
 */
export function makeEventReader(): (entry: Uint8Array) => PublicEvent[] {
  const read = makeLineReader()
  return (entry) => {
    const { head, lines } = read(entry)
    return eventsIn(lines, head.first)
  }
}

/**
 * Like `makeEventReader`, but the returned function returns each event as a line of unparsed text. For an entry with a
 * piece of a split event, it returns no lines until the last piece arrives.
 */
export function makeLineReader(): (entry: Uint8Array) => EntryText {
  let expected: number | undefined
  let pieces: string[] = []
  return (entry) => {
    const { head, lines } = readEntry(entry)
    expected ??= head.first
    if (head.first !== expected) {
      throw new Error(
        `the next entry must begin at offset ${expected}, not at offset ${head.first}`,
      )
    }
    let texts = lines
    if (head.pieces !== undefined) {
      if (head.piece !== pieces.length + 1)
        throw new Error(`a piece of the event at offset ${expected} is missing`)
      pieces.push(lines[0]!)
      if (pieces.length < head.pieces) return { head, lines: [] }
      texts = [pieces.join('')]
      pieces = []
    } else if (pieces.length > 0) {
      throw new Error(`a piece of the event at offset ${expected} is missing`)
    }
    expected += head.count
    return { head, lines: texts }
  }
}

/** Parses lines that each contain a whole event. `first` is the offset of the first event. */
export function eventsIn(lines: readonly string[], first: number): PublicEvent[] {
  let before: MarketId | undefined
  return lines.map((line, at) => {
    const event = checkedEvent(readEvent(JSON.parse(line), before, first + at))
    before = event.marketId
    return event
  })
}

type Cells = readonly unknown[]

const LISTED: ReadonlySet<unknown> = new Set(['OrderRested', 'OrdersMatched', 'OrderClosed'])

function readEvent(value: unknown, before: MarketId | undefined, offset: number): PublicEvent {
  if (!Array.isArray(value)) {
    const fact = { ...(value as PublicEvent), offset }
    if (LISTED.has(fact.type)) throw new Error(`the event at offset ${offset} must be a JSON array`)
    return fact
  }
  const cells: Cells = value
  const marketId = cells[1] === 0 ? before : (cells[1] as MarketId)
  if (marketId === undefined) throw new Error(`the event at offset ${offset} has no market id`)
  const head = { offset, marketId, seq: cells[2] as number, atMs: cells[3] as number }
  switch (cells[0]) {
    case 'R':
      return readRested(cells, head)
    case 'M':
      return readMatched(cells, head)
    case 'C':
      return readClosed(cells, head)
    default:
      throw new Error(`the event at offset ${offset} is of the unknown kind ${String(cells[0])}`)
  }
}

type ReadHead = Pick<PublicEvent, 'offset' | 'marketId' | 'seq' | 'atMs'>

function termsIn(cells: Cells): OrderTerms {
  return {
    orderHash: cells[4] as OrderHash,
    trader: cells[5] as Address,
    side: cells[6] as Side,
    outcome: cells[7] as Outcome,
    price: cells[8] as Price,
    size: cells[9] as Shares,
  }
}

const RESTED_CELLS = 16
const MATCHED_CELLS = 12
const SIGNED_CELLS = 5
export const FIRST_FILL_CELL = MATCHED_CELLS + SIGNED_CELLS
export const FILL_CELLS = 5

/** `others` lists the indices, from 0, of the fills that are mints or merges. */
export type FillTail = { readonly others?: readonly number[] }

/** Optional values of an event, stored as an object in the last cell of the event's list. */
type Tail = FillTail & {
  readonly cause?: CancelCause
  readonly bookByMs?: number
  readonly replaces?: OrderHash
}

function withoutTail(row: Cells): { readonly cells: Cells; readonly tail: Tail } {
  const last = row.at(-1)
  const hasTail = typeof last === 'object' && last !== null
  return hasTail ? { cells: row.slice(0, -1), tail: last } : { cells: row, tail: {} }
}

/**
 * Returns the optional conditions of an order: time in force, latest time of placement, and replaced order. `force` is
 * the number that stands for the time in force; undefined if the event has no such cell. Throws if the number is
 * unknown.
 */
function placementIn(
  force: unknown,
  { bookByMs, replaces }: Tail,
): Pick<PublicOrder, 'timeInForce' | 'bookByMs' | 'replaces'> {
  const timeInForce = timeInForceByNumber(force)
  if (force !== undefined && timeInForce === undefined) {
    throw new Error(`the time in force of an order has the unknown value ${String(force)}`)
  }
  return {
    ...(timeInForce === undefined ? {} : { timeInForce }),
    ...(bookByMs === undefined ? {} : { bookByMs }),
    ...(replaces === undefined ? {} : { replaces }),
  }
}

function readRested(row: Cells, head: ReadHead): PublicRested {
  const { cells, tail } = withoutTail(row)
  const terms = termsIn(cells)
  const rested: PublicRested = {
    ...{ type: 'OrderRested', ...head, ...terms },
    added: cells[10] as number,
    remaining: cells[11] as number,
    expiresAtSec: cells[12] as number,
    placedAtMs: cells[13] as number,
    matches: cells[14] as number,
    ...(cells[15] === 1 || cells.length === RESTED_CELLS + 1 ? { returned: true } : {}),
  }
  const forceAt = RESTED_CELLS + SIGNED_CELLS
  if (cells.length < forceAt) return rested
  const order = orderIn(cells, RESTED_CELLS, { ...terms, marketId: head.marketId })
  return { ...rested, order: { ...order, ...placementIn(cells[forceAt], tail) } }
}

function readMatched(row: Cells, head: ReadHead): PublicMatched {
  const fills: Fill[] = []
  const { cells, tail } = withoutTail(row)
  const others = new Set(Array.isArray(tail.others) ? tail.others : [])
  const kind = cells[6] === BUY ? 'mint' : 'merge'
  const firstFill = FIRST_FILL_CELL
  const hasForce = (cells.length - firstFill) % FILL_CELLS === 1
  const end = hasForce ? cells.length - 1 : cells.length
  for (let at = firstFill; at < end; at += FILL_CELLS) {
    fills.push({
      ...(others.has(fills.length) ? { kind } : {}),
      makerHash: cells[at] as OrderHash,
      maker: cells[at + 1] as Address,
      price: cells[at + 2] as Price,
      size: cells[at + 3] as Shares,
      makerRemaining: cells[at + 4] as number,
    })
  }
  const taker = orderIn(cells, MATCHED_CELLS, { ...termsIn(cells), marketId: head.marketId })
  return {
    ...{ type: 'OrdersMatched', ...head, fills },
    taker: { ...taker, ...placementIn(hasForce ? cells[end] : undefined, tail) },
    takerRemaining: cells[10] as number,
    ...(cells[11] === 1 ? { known: true } : {}),
  }
}

function readClosed(row: Cells, head: ReadHead): PublicClosed {
  const { cells, tail } = withoutTail(row)
  return {
    ...{ type: 'OrderClosed', ...head, ...termsIn(cells) },
    reason: cells[10] as OrderCloseReason,
    remaining: cells[11] as number,
    expiresAtSec: cells[12] as number,
    placedAtMs: cells[13] as number,
    matches: cells[14] as number,
    ...(tail.cause === undefined ? {} : { cause: tail.cause }),
  }
}

function orderIn(
  cells: Cells,
  at: number,
  terms: OrderTerms & { readonly marketId: MarketId },
): PublicOrder {
  const recipient = cells[at + 2]
  const permit = cells[at + 4]
  return {
    ...terms,
    nonce: cells[at] as Uint64,
    expiration: cells[at + 1] as Uint64,
    makerFeeRecipient: recipient === 0 ? ZERO_ADDRESS : (recipient as Address),
    signatureHash: cells[at + 3] as string,
    ...(permit === 0 ? {} : { permitHash: permit as string }),
  }
}
