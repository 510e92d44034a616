/** Finds an event in entries of the public log by its text, without reading the others. */

import { eventsIn, readEntry } from './public-event.ts'
import type { PublicEvent } from './public-event-shapes.ts'

const decoder = new TextDecoder()
/** Cell of an event with the hash of its order. */
const HASH_CELL = 4

/**
 * Returns a function that checks whether an entry has the first event of an order, or its first piece. An entry may also
 * name an order that another one replaces, which proves nothing: its trader chooses that name.
 */
export function findsOrder(orderHash: string): (entry: Uint8Array) => boolean {
  const name = `"${orderHash}"`
  const isFirst = (event: PublicEvent): boolean =>
    event.type === 'OrdersMatched'
      ? event.taker.orderHash === orderHash && event.known !== true
      : event.type === 'OrderRested' && event.order?.orderHash === orderHash
  return (entry) => {
    // The search for the name is cheap, and few entries contain it.
    if (!decoder.decode(entry).includes(name)) return false
    const { head, lines } = readEntry(entry)
    if (head.pieces !== undefined) {
      const cells = lines[0]?.split(',', HASH_CELL + 1) ?? []
      return head.piece === 1 && cells[0] === '["M"' && cells[HASH_CELL] === name
    }
    return eventsIn(lines, head.first).some(isFirst)
  }
}

/**
 * Returns a function that checks whether an entry has this fill of the match with this number, or the first piece of the
 * match.
 */
export function findsMatch(
  marketId: string,
  seq: number,
  fill: number,
): (entry: Uint8Array) => boolean {
  const start = `["M","${marketId}",${seq},`
  return (entry) => {
    if (!decoder.decode(entry).includes(`,${seq},`)) return false
    const { head, lines } = readEntry(entry)
    if (head.pieces !== undefined) return head.piece === 1 && lines[0]?.startsWith(start) === true
    return eventsIn(lines, head.first).some(
      (event) =>
        event.type === 'OrdersMatched' &&
        event.marketId === marketId &&
        event.seq === seq &&
        fill < event.fills.length,
    )
  }
}
