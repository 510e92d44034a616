/**
 * The short form of what a market says. Three kinds of events make nearly all of it; with every name
 * and every repeated field spelled out they cost the market thread more than matching does. So to the
 * log and to the readers they travel as rows: their fields in a fixed order. All others stay as they
 * are.
 *
 * The order of a row never changes. A new field goes to the end, and a row without it stays readable.
 * `test/actors/fixtures/packed-v1.json` has a row of each kind as they lie in logs today.
 */

import assert from 'node:assert/strict'
import { type MarketId, type Sequence, ZERO_ADDRESS } from '#domain/ids.ts'
import type {
  Fill,
  MarketEvent,
  OrderClosed,
  OrderRested,
  OrdersMatched,
} from '#domain/market-event.ts'
import type { PermitSignature, VerifiedOrder } from '#domain/order.ts'
import type { JsonBytes } from '#log/json-bytes.ts'

type Cell = string | number | PermitSignature

type Row<Type extends string> = {
  readonly type: Type
  readonly marketId: MarketId
  readonly seq: Sequence
  readonly row: readonly Cell[]
}

type Frequent = OrderRested | OrdersMatched | OrderClosed

/** What the log carries and what readers are told. */
export type PackedEvent =
  | Row<'OrderRested'>
  | Row<'OrdersMatched'>
  | Row<'OrderClosed'>
  | Exclude<MarketEvent, Frequent>

/** Writes an event as the JSON of a `PackedEvent`. */
export function writePacked(event: MarketEvent, into: JsonBytes): void {
  switch (event.type) {
    case 'OrderRested':
      into.raw('{"type":"OrderRested","marketId":')
      writeHead(event, into)
      writeRested(event, into)
      break
    case 'OrdersMatched':
      into.raw('{"type":"OrdersMatched","marketId":')
      writeHead(event, into)
      writeMatched(event, into)
      break
    case 'OrderClosed':
      into.raw('{"type":"OrderClosed","marketId":')
      writeHead(event, into)
      writeClosed(event, into)
      break
    default:
      into.json(event)
      return
  }
  into.end(']}')
}

function writeHead({ marketId, seq }: Frequent, into: JsonBytes): void {
  into.plain(marketId)
  into.raw('"seq":')
  into.number(seq)
  into.raw('"row":[')
}

/** The events of rows of the log, as a market thread passes them on. */
export function readRows(rows: readonly Uint8Array[]): MarketEvent[] {
  const events: MarketEvent[] = []
  for (const { buffer, byteOffset, byteLength } of rows) {
    const text = Buffer.from(buffer, byteOffset, byteLength).toString('utf8')
    for (const event of JSON.parse(text) as PackedEvent[]) events.push(unpack(event))
  }
  return events
}

/** Takes also what a log holds from before events had a short form. */
export function unpack(event: PackedEvent | MarketEvent): MarketEvent {
  if (!('row' in event)) return event
  switch (event.type) {
    case 'OrderRested':
      return readRested(event)
    case 'OrdersMatched':
      return readMatched(event)
    case 'OrderClosed':
      return readClosed(event)
  }
}

/** Stands for what is nearly always the same: the zero address, and no permit. */
const USUAL = 0

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
  into.number(event.returned ? 1 : 0)
  // Only the event that brings an order has what the chain needs of it.
  if (order !== undefined) writeSigned(order, into)
}

const RESTED_CELLS = 13

function readRested({ type, marketId, seq, row }: Row<'OrderRested'>): OrderRested {
  assert(row.length === RESTED_CELLS || row.length === RESTED_CELLS + SIGNED_CELLS, type)
  const rested = {
    type,
    marketId,
    seq,
    atMs: row[0],
    orderHash: row[1],
    trader: row[2],
    side: row[3],
    outcome: row[4],
    price: row[5],
    size: row[6],
    added: row[7],
    remaining: row[8],
    expiresAtSec: row[9],
    placedAtMs: row[10],
    matches: row[11],
  } as OrderRested
  if (row.length > RESTED_CELLS) {
    return { ...rested, order: readOrder(rested, row, RESTED_CELLS) }
  }
  return row[12] === 1 ? { ...rested, returned: true } : rested
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
}

const CLOSED_CELLS = 12

function readClosed({ type, marketId, seq, row }: Row<'OrderClosed'>): OrderClosed {
  assert.equal(row.length, CLOSED_CELLS, type)
  return {
    type,
    marketId,
    seq,
    atMs: row[0],
    orderHash: row[1],
    trader: row[2],
    side: row[3],
    outcome: row[4],
    price: row[5],
    size: row[6],
    reason: row[7],
    remaining: row[8],
    expiresAtSec: row[9],
    placedAtMs: row[10],
    matches: row[11],
  } as OrderClosed
}

function writeMatched(event: OrdersMatched, into: JsonBytes): void {
  const { atMs, taker, takerRemaining, fills, known } = event
  assert(fills.length > 0, 'a match has a fill')
  into.time(atMs)
  into.plain(taker.orderHash)
  into.plain(taker.trader)
  into.number(taker.side)
  into.number(taker.outcome)
  into.number(taker.price)
  into.number(taker.size)
  into.number(takerRemaining)
  into.number(known ? 1 : 0)
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

const TAKER_CELLS = 9
const FILL_CELLS = 5

function readMatched({ type, marketId, seq, row }: Row<'OrdersMatched'>): OrdersMatched {
  const firstFill = TAKER_CELLS + SIGNED_CELLS
  assert((row.length - firstFill) % FILL_CELLS === 0 && row.length > firstFill, type)
  const fills: Fill[] = []
  for (let at = firstFill; at < row.length; at += FILL_CELLS) {
    fills.push({
      makerHash: row[at],
      maker: row[at + 1],
      price: row[at + 2],
      size: row[at + 3],
      makerRemaining: row[at + 4],
    } as Fill)
  }
  const known = {
    marketId,
    orderHash: row[1],
    trader: row[2],
    side: row[3],
    outcome: row[4],
    price: row[5],
    size: row[6],
  } as KnownFields
  const matched = {
    type,
    marketId,
    seq,
    atMs: row[0],
    taker: readOrder(known, row, TAKER_CELLS),
    takerRemaining: row[7],
    fills,
  } as OrdersMatched
  return row[8] === 1 ? { ...matched, known: true } : matched
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

function readOrder(known: KnownFields, row: readonly Cell[], from: number): VerifiedOrder {
  const recipient = row[from + 2]
  const permit = row[from + 4]
  const order = {
    marketId: known.marketId,
    trader: known.trader,
    side: known.side,
    outcome: known.outcome,
    price: known.price,
    size: known.size,
    nonce: row[from],
    expiration: row[from + 1],
    makerFeeRecipient: recipient === USUAL ? ZERO_ADDRESS : recipient,
    orderHash: known.orderHash,
    signature: row[from + 3],
  } as VerifiedOrder
  return permit === USUAL ? order : { ...order, permit: permit as PermitSignature }
}
