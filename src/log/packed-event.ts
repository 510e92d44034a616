/**
 * The short form of what a market says. Three kinds of events make nearly all of it; with every name
 * and every repeated field spelled out they cost the market thread more than matching does. So to the
 * log and to the readers they travel as lists: their fields in a fixed order. All others stay as they
 * are.
 *
 * A list begins with a letter for its kind, the id of its market, or 0 if it is that of the event
 * before, and its number. The order of its cells never changes. A new field goes to the end, and a list
 * without it stays readable. `test/log/fixtures/packed-v2.json` has one of each kind as they lie in
 * logs today; `packed-v1.json` those of older logs, which name their market and their kind in full.
 */

import assert from 'node:assert/strict'
import { type MarketId, type Sequence, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import type {
  Fill,
  MarketEvent,
  OrderClosed,
  OrderRested,
  OrdersMatched,
} from '#domain/market-event.ts'
import type { PermitSignature, VerifiedOrder } from '#domain/order.ts'
import type { EventForm } from './event-log.ts'
import type { JsonBytes } from './json-bytes.ts'

type Cell = string | number | PermitSignature
type Cells = readonly Cell[]

/** As it lay in the log before version 2. */
type NamedRow = {
  readonly type: keyof typeof KINDS
  readonly marketId: MarketId
  readonly seq: Sequence
  readonly row: Cells
}

const KINDS = { OrderRested: 'R', OrdersMatched: 'M', OrderClosed: 'C' } as const

/** How the events of markets lie in the log, and reach those who follow a market thread. */
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

/** The events of rows of the log, as a market thread passes them on. */
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
  assert(marketId !== undefined, 'the first event of a row names its market')
  switch (cells[0]) {
    case KINDS.OrderRested:
      return readRested(cells, marketId)
    case KINDS.OrdersMatched:
      return readMatched(cells, marketId)
    case KINDS.OrderClosed:
      return readClosed(cells, marketId)
    default:
      assert.fail(`an event of the kind ${cells[0]}`)
  }
}

/** Stands for what is nearly always the same: the market, the zero address, and no permit. */
const USUAL = 0

/** Cells before those of the kind itself. */
const HEAD_CELLS = 3

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
  into.number(event.returned ? RETURNED : event.held ? HELD : event.kept ? KEPT : USUAL)
  // Only the event that brings an order has what the chain needs of it.
  if (order !== undefined) writeSigned(order, into)
  else if (event.permit !== undefined) into.plain(event.permit)
}

const RESTED_CELLS = HEAD_CELLS + 13
/** The nonce of the permit of an order that returned after a failed trade. */
const PERMIT_CELLS = 1

/** What marks an event, in the cell that says what is unusual about it. Older logs know the first only. */
const RETURNED = 1
const KNOWN = 1
const HELD = 2
const KEPT = 3

function readRested(cells: Cells, marketId: MarketId): OrderRested {
  const { length } = cells
  const more = length - RESTED_CELLS
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
  const mark = cells[15]
  if (more === PERMIT_CELLS) {
    return { ...rested, returned: true, permit: cells[RESTED_CELLS] as Uint64 }
  }
  if (more === SIGNED_CELLS) {
    const order = readOrder(rested, cells, RESTED_CELLS)
    return mark === HELD ? { ...rested, order, held: true } : { ...rested, order }
  }
  if (mark === RETURNED) return { ...rested, returned: true }
  if (mark === HELD) return { ...rested, held: true }
  return mark === KEPT ? { ...rested, kept: true } : rested
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
}

const CLOSED_CELLS = HEAD_CELLS + 12

function readClosed(cells: Cells, marketId: MarketId): OrderClosed {
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
  assert(pending > 0, 'what is pending is told where something is')
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
  into.number(known ? KNOWN : held ? HELD : USUAL)
  writeSigned(taker, into)
  for (let index = 0; index < fills.length; index++) {
    const { makerHash, maker, price, size, makerRemaining } = fills[index]!
    into.plain(makerHash)
    into.plain(maker)
    into.number(price)
    into.number(size)
    into.number(makerRemaining)
  }
}

const TAKER_CELLS = HEAD_CELLS + 9
const FILL_CELLS = 5

function readMatched(cells: Cells, marketId: MarketId): OrdersMatched {
  const firstFill = TAKER_CELLS + SIGNED_CELLS
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
  if (cells[11] === KNOWN) return { ...matched, known: true }
  return cells[11] === HELD ? { ...matched, held: true } : matched
}

/** Cells of what only the chain needs of an order. */
const SIGNED_CELLS = 5

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
