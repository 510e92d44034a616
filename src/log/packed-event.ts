/**
 * Short form of market events. Nearly all events are resting orders, matches or closed orders. Writing these as full
 * JSON would take the market thread longer than matching. So they are stored and sent as lists with a fixed order.
 * Other events are plain JSON.
 *
 * A list begins with a letter for the event's kind, the market id and the sequence number. The market id is 0 if it
 * equals that of the previous event. The order of the cells never changes. A new field goes to the end, and lists
 * without it stay readable. In `test/log/fixtures`, `packed-v2.json` has one event of each kind in today's form.
 * `packed-v1.json` has events of older logs, with market and kind written in full.
 */

import assert from 'node:assert/strict'
import { type MarketId, type Sequence, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import type {
  Fill,
  MarketEvent,
  OrderClosed,
  OrderRested,
  OrdersMatched,
  PlacementTerms,
} from '#domain/market-event.ts'
import { BUY, type PermitSignature, type VerifiedOrder } from '#domain/order.ts'
import type { CancelCause, EchoedTags, OrderTags } from '#domain/order-tags.ts'
import {
  TIME_IN_FORCE_NUMBERS,
  type TimeInForce,
  timeInForceByNumber,
} from '#domain/time-in-force.ts'
import type { EventForm } from './event-log.ts'
import type { JsonBytes } from './json-bytes.ts'

type Cell = string | number | PermitSignature | RestedTail | ClosedTail | MatchedTail
type Cells = readonly Cell[]

/** Optional last cell of a list (the tail): properties that few orders have. */
type RestedTail = LateTerms & { readonly tags?: OrderTags }
type ClosedTail = { readonly tags?: EchoedTags; readonly cause?: CancelCause }
type MatchedTail = LateTerms & {
  readonly taker?: OrderTags
  /** Tags of makers, by the index of the fill. */
  readonly makers?: readonly (readonly [index: number, tags: EchoedTags])[]
  /** Indexes of the fills with makers of the other outcome: mints if the taker buys, merges if the taker sells. */
  readonly others?: readonly number[]
}

/**
 * Placement terms in the tail, because few orders have them. `timeInForce` is not among them, because it has its own
 * cell.
 */
type LateTerms = Omit<PlacementTerms, 'timeInForce'>

/** Form of events before version 2. */
type NamedRow = {
  readonly type: keyof typeof KINDS
  readonly marketId: MarketId
  readonly seq: Sequence
  readonly row: Cells
}

const KINDS = { OrderRested: 'R', OrdersMatched: 'M', OrderClosed: 'C' } as const

/** Encoding of market events in the log and for readers of a market thread. */
export const PACKED: EventForm<MarketEvent> = { write: writePacked, read: readPacked }

function writePacked(event: MarketEvent, before: MarketEvent | undefined, into: JsonBytes): void {
  switch (event.type) {
    case 'OrderRested':
      into.raw('["R",')
      writeHead(event, before, into)
      writeRested(event, into)
      break
    case 'OrdersMatched':
      into.raw('["M",')
      writeHead(event, before, into)
      writeMatched(event, into)
      break
    case 'OrderClosed':
      into.raw('["C",')
      writeHead(event, before, into)
      writeClosed(event, into)
      break
    default:
      into.json(event)
      return
  }
  into.end(']')
}

function writeHead(event: MarketEvent, before: MarketEvent | undefined, into: JsonBytes): void {
  if (event.marketId === before?.marketId) into.number(USUAL)
  else into.plain(event.marketId)
  into.number(event.seq)
}

/** Returns the events of encoded rows that a market thread forwarded. */
export function readRows(rows: readonly Uint8Array[]): MarketEvent[] {
  return rows.flatMap(({ buffer, byteOffset, byteLength }) => {
    const text = Buffer.from(buffer, byteOffset, byteLength).toString('utf8')
    return readPacked(JSON.parse(text))
  })
}

function readPacked(row: readonly unknown[]): MarketEvent[] {
  const events: MarketEvent[] = new Array(row.length)
  let marketId: MarketId | undefined
  for (let index = 0; index < row.length; index++) {
    const event = unpack(row[index] as Cells | NamedRow | MarketEvent, marketId)
    marketId = event.marketId
    events[index] = event
  }
  return events
}

function unpack(packed: Cells | NamedRow | MarketEvent, before: MarketId | undefined): MarketEvent {
  if (isCells(packed)) return readCells(packed, before)
  if (!('row' in packed)) return packed
  return readCells([KINDS[packed.type], packed.marketId, packed.seq, ...packed.row], undefined)
}

function isCells(packed: Cells | NamedRow | MarketEvent): packed is Cells {
  return Array.isArray(packed)
}

function readCells(cells: Cells, before: MarketId | undefined): MarketEvent {
  const marketId = cells[1] === USUAL ? before : (cells[1] as MarketId)
  assert(marketId !== undefined, 'the first event of a row has no market id')
  switch (cells[0]) {
    case KINDS.OrderRested:
      return readRested(cells, marketId)
    case KINDS.OrdersMatched:
      return readMatched(cells, marketId)
    case KINDS.OrderClosed:
      return readClosed(cells, marketId)
    default:
      assert.fail(`an event has the unknown kind ${cells[0]}`)
  }
}

/**
 * Value of a cell in its usual case. Depending on the cell, it means: same market as the previous event, no flag, the
 * zero address, or no permit.
 */
const USUAL = 0

/** Number of common cells at the start of each list, before the cells of the event's kind. */
const HEAD_CELLS = 3
/** Number of cells for an order's fields that only the chain needs, such as the signature. */
const SIGNED_CELLS = 5

function writeRested(event: OrderRested, into: JsonBytes): void {
  const { order } = event
  into.time(event.atMs)
  into.plain(event.orderHash)
  into.plain(event.trader)
  into.number(event.side)
  into.number(event.outcome)
  into.number(event.price)
  into.number(event.size)
  into.number(event.added)
  into.number(event.remaining)
  into.number(event.expiresAtSec)
  into.time(event.placedAtMs)
  into.number(event.matches)
  if (event.held === undefined) into.number(event.returned ? RETURNED : event.kept ? KEPT : USUAL)
  else into.plain(event.held)
  // Only the first event of an order contains the signed fields.
  if (order !== undefined) writeSigned(order, into)
  else if (event.permit !== undefined) into.plain(event.permit)
  const { tags, terms } = event
  writeForce(terms, into)
  if (tags === undefined && !hasLateTerms(terms)) return
  const tail: RestedTail = { ...(tags === undefined ? {} : { tags }), ...lateTermsOf(terms) }
  into.value(tail)
}

/** Number of cells with the time in force: after the signed fields of a resting order, after the fills of a match. */
const FORCE_CELLS = 1

function writeForce(terms: PlacementTerms | undefined, into: JsonBytes): void {
  if (terms?.timeInForce !== undefined) into.number(TIME_IN_FORCE_NUMBERS[terms.timeInForce])
}

function readForce(cell: Cell | undefined): TimeInForce {
  const force = timeInForceByNumber(cell)
  assert(force !== undefined, `an order has the unknown time in force ${cell}`)
  return force
}

function hasLateTerms(terms: PlacementTerms | undefined): boolean {
  return terms?.bookByMs !== undefined || terms?.replaces !== undefined
}

function lateTermsOf({ bookByMs, replaces }: LateTerms = {}): LateTerms {
  return {
    ...(bookByMs === undefined ? {} : { bookByMs }),
    ...(replaces === undefined ? {} : { replaces }),
  }
}

function termsOf(
  force: TimeInForce | undefined,
  tail: LateTerms | undefined,
): { readonly terms?: PlacementTerms } {
  if (force === undefined && !hasLateTerms(tail)) return {}
  return {
    terms: { ...(force === undefined ? {} : { timeInForce: force }), ...lateTermsOf(tail) },
  }
}

const RESTED_CELLS = HEAD_CELLS + 13
/** If a returned order has a permit, its list has one more cell: the nonce of the permit. */
const PERMIT_CELLS = 1

/**
 * Values of the flag cell. Rested orders: RETURNED (by a failed trade), KEPT (the session's end no longer cancels it).
 * Matches: KNOWN (an earlier event has the taker's order). Or the id of the session whose end cancels the order.
 */
const RETURNED = 1
const KNOWN = 1
const KEPT = 3

const RESTED_FLAGS = { [RETURNED]: { returned: true }, [KEPT]: { kept: true } } as const
const MATCHED_FLAGS = { [KNOWN]: { known: true } } as const

const SESSION = /^[\w-]{1,64}$/

function flagOf<Flags extends Readonly<Record<number, object>>>(
  cell: unknown,
  flags: Flags,
): Flags[keyof Flags] | { readonly held: string } {
  if (typeof cell === 'string') {
    assert(SESSION.test(cell), 'the flag of an event is not a valid session id')
    return { held: cell }
  }
  const flag = flags[cell as number]
  assert(flag !== undefined, `the flag of an event has the unknown value ${cell}`)
  return flag as Flags[keyof Flags]
}

function readRested(cells: Cells, marketId: MarketId): OrderRested {
  const { length } = cells
  const last = cells[length - 1]
  // An object in the last cell is the tail. Exception: if exactly `SIGNED_CELLS` cells follow the first `RESTED_CELLS`,
  // the list has no tail, and the object is the order's permit.
  const hasTail = isObject(last) && length - RESTED_CELLS !== SIGNED_CELLS
  const tail = hasTail ? (last as RestedTail) : undefined
  const plain = hasTail ? cells.slice(0, -1) : cells
  const hasForce = plain.length - RESTED_CELLS === SIGNED_CELLS + FORCE_CELLS
  const force = hasForce ? readForce(plain.at(-1)) : undefined
  const rested = readPlainRested(hasForce ? plain.slice(0, -1) : plain, marketId)
  if (tail === undefined && force === undefined) return rested
  const tags = tail?.tags === undefined ? {} : { tags: tail.tags }
  return { ...rested, ...tags, ...termsOf(force, tail) }
}

function isObject(cell: Cell | undefined): boolean {
  return typeof cell === 'object'
}

function readPlainRested(cells: Cells, marketId: MarketId): OrderRested {
  const more = cells.length - RESTED_CELLS
  assert(more === 0 || more === PERMIT_CELLS || more === SIGNED_CELLS, 'OrderRested')
  const rested = {
    type: 'OrderRested',
    marketId,
    seq: cells[2],
    atMs: cells[3],
    orderHash: cells[4],
    trader: cells[5],
    side: cells[6],
    outcome: cells[7],
    price: cells[8],
    size: cells[9],
    added: cells[10],
    remaining: cells[11],
    expiresAtSec: cells[12],
    placedAtMs: cells[13],
    matches: cells[14],
  } as OrderRested
  const isUsual = cells[15] === USUAL
  if (more === SIGNED_CELLS) {
    const order = readOrder(rested, cells, RESTED_CELLS)
    return isUsual ? { ...rested, order } : { ...rested, order, ...flagOf(cells[15], RESTED_FLAGS) }
  }
  if (more === PERMIT_CELLS) {
    assert(cells[15] === RETURNED, 'only the list of a returned order may end with a permit nonce')
    return { ...rested, returned: true, permit: cells[RESTED_CELLS] as Uint64 }
  }
  return isUsual ? rested : { ...rested, ...flagOf(cells[15], RESTED_FLAGS) }
}

function writeClosed(event: OrderClosed, into: JsonBytes): void {
  into.time(event.atMs)
  into.plain(event.orderHash)
  into.plain(event.trader)
  into.number(event.side)
  into.number(event.outcome)
  into.number(event.price)
  into.number(event.size)
  into.plain(event.reason)
  into.number(event.remaining)
  into.number(event.expiresAtSec)
  into.number(event.placedAtMs)
  into.number(event.matches)
  if (event.pending !== undefined) into.number(event.pending)
  const { tags, cause } = event
  if (tags === undefined && cause === undefined) return
  const tail: ClosedTail = {
    ...(tags === undefined ? {} : { tags }),
    ...(cause === undefined ? {} : { cause }),
  }
  into.value(tail)
}

const CLOSED_CELLS = HEAD_CELLS + 12

function readClosed(cells: Cells, marketId: MarketId): OrderClosed {
  const last = cells.at(-1)
  if (!isObject(last)) return readPlainClosed(cells, marketId)
  return { ...readPlainClosed(cells.slice(0, -1), marketId), ...(last as ClosedTail) }
}

function readPlainClosed(cells: Cells, marketId: MarketId): OrderClosed {
  const { length } = cells
  assert(length === CLOSED_CELLS || length === CLOSED_CELLS + 1, 'OrderClosed')
  const closed = {
    type: 'OrderClosed',
    marketId,
    seq: cells[2],
    atMs: cells[3],
    orderHash: cells[4],
    trader: cells[5],
    side: cells[6],
    outcome: cells[7],
    price: cells[8],
    size: cells[9],
    reason: cells[10],
    remaining: cells[11],
    expiresAtSec: cells[12],
    placedAtMs: cells[13],
    matches: cells[14],
  } as OrderClosed
  if (length === CLOSED_CELLS) return closed
  const pending = Number(cells[CLOSED_CELLS])
  assert(pending > 0, 'the pending size of a closed order is above 0 if it is given')
  return { ...closed, pending }
}

function writeMatched(event: OrdersMatched, into: JsonBytes): void {
  const { atMs, taker, takerRemaining, fills, known, held } = event
  assert(fills.length > 0, 'a match has a fill')
  into.time(atMs)
  into.plain(taker.orderHash)
  into.plain(taker.trader)
  into.number(taker.side)
  into.number(taker.outcome)
  into.number(taker.price)
  into.number(taker.size)
  into.number(takerRemaining)
  if (held === undefined) into.number(known ? KNOWN : USUAL)
  else into.plain(held)
  writeSigned(taker, into)
  for (let index = 0; index < fills.length; index++) {
    const { makerHash, maker, price, size, makerRemaining } = fills[index]!
    into.plain(makerHash)
    into.plain(maker)
    into.number(price)
    into.number(size)
    into.number(makerRemaining)
  }
  writeForce(event.terms, into)
  const tail = tailOf(event)
  if (tail !== undefined) into.value(tail)
}

function tailOf({ takerTags, fills, terms }: OrdersMatched): MatchedTail | undefined {
  const makers: [index: number, tags: EchoedTags][] = []
  const others: number[] = []
  for (let index = 0; index < fills.length; index++) {
    const { makerTags, kind } = fills[index]!
    if (makerTags !== undefined) makers.push([index, makerTags])
    if (kind !== undefined) others.push(index)
  }
  const isPlain = takerTags === undefined && makers.length === 0 && others.length === 0
  if (isPlain && !hasLateTerms(terms)) return undefined
  return {
    ...(takerTags === undefined ? {} : { taker: takerTags }),
    ...(makers.length === 0 ? {} : { makers }),
    ...(others.length === 0 ? {} : { others }),
    ...lateTermsOf(terms),
  }
}

const TAKER_CELLS = HEAD_CELLS + 9
const FILL_CELLS = 5

function readMatched(cells: Cells, marketId: MarketId): OrdersMatched {
  const last = cells.at(-1)
  if (!isObject(last)) return readForcedMatched(cells, marketId)
  const tail = last as MatchedTail
  const { taker, makers = [], others = [] } = tail
  const matched = readForcedMatched(cells.slice(0, -1), marketId)
  const fills = [...matched.fills]
  for (const [index, makerTags] of makers) {
    const fill = fills[index]
    assert(fill !== undefined, 'a match has tags for a fill that does not exist')
    fills[index] = { ...fill, makerTags }
  }
  const kind = matched.taker.side === BUY ? 'mint' : 'merge'
  for (const index of others) {
    const fill = fills[index]
    assert(fill !== undefined, 'a match has a mint or merge for a fill that does not exist')
    fills[index] = { ...fill, kind }
  }
  return {
    ...{ ...matched, fills },
    ...(taker === undefined ? {} : { takerTags: taker }),
    ...termsOf(matched.terms?.timeInForce, tail),
  }
}

const FIRST_FILL = TAKER_CELLS + SIGNED_CELLS

/** Reads a match without a tail. If the list has a cell with the taker's time in force, reads this cell too. */
function readForcedMatched(cells: Cells, marketId: MarketId): OrdersMatched {
  if ((cells.length - FIRST_FILL) % FILL_CELLS !== FORCE_CELLS) {
    return readPlainMatched(cells, marketId)
  }
  const terms = { timeInForce: readForce(cells.at(-1)) }
  return { ...readPlainMatched(cells.slice(0, -1), marketId), terms }
}

function readPlainMatched(cells: Cells, marketId: MarketId): OrdersMatched {
  const firstFill = FIRST_FILL
  const { length } = cells
  assert((length - firstFill) % FILL_CELLS === 0 && length > firstFill, 'OrdersMatched')
  const fills: Fill[] = []
  for (let at = firstFill; at < length; at += FILL_CELLS) {
    fills.push({
      makerHash: cells[at],
      maker: cells[at + 1],
      price: cells[at + 2],
      size: cells[at + 3],
      makerRemaining: cells[at + 4],
    } as Fill)
  }
  const known = {
    marketId,
    orderHash: cells[4],
    trader: cells[5],
    side: cells[6],
    outcome: cells[7],
    price: cells[8],
    size: cells[9],
  } as KnownFields
  const matched = {
    type: 'OrdersMatched',
    marketId,
    seq: cells[2],
    atMs: cells[3],
    taker: readOrder(known, cells, TAKER_CELLS),
    takerRemaining: cells[10],
    fills,
  } as OrdersMatched
  return cells[11] === USUAL ? matched : { ...matched, ...flagOf(cells[11], MATCHED_FLAGS) }
}

function writeSigned(order: VerifiedOrder, into: JsonBytes): void {
  const { makerFeeRecipient, permit } = order
  into.plain(order.nonce)
  into.plain(order.expiration)
  if (makerFeeRecipient === ZERO_ADDRESS) into.number(USUAL)
  else into.plain(makerFeeRecipient)
  into.plain(order.signature)
  if (permit === undefined) into.number(USUAL)
  else into.value(permit)
}

type SignedField = 'nonce' | 'expiration' | 'makerFeeRecipient' | 'signature' | 'permit'
type KnownFields = Omit<VerifiedOrder, SignedField>

function readOrder(known: KnownFields, cells: Cells, from: number): VerifiedOrder {
  const recipient = cells[from + 2]
  const permit = cells[from + 4]
  const order = {
    marketId: known.marketId,
    trader: known.trader,
    side: known.side,
    outcome: known.outcome,
    price: known.price,
    size: known.size,
    nonce: cells[from],
    expiration: cells[from + 1],
    makerFeeRecipient: recipient === USUAL ? ZERO_ADDRESS : recipient,
    orderHash: known.orderHash,
    signature: cells[from + 3],
  } as VerifiedOrder
  return permit === USUAL ? order : { ...order, permit: permit as PermitSignature }
}
