/** Finds an event in entries of the public log. Searches the text of an entry first, so that few entries are parsed. */

import { eventsIn, readEntry } from './public-event.ts'
import type { PublicEvent } from './public-event-shapes.ts'

const decoder = new TextDecoder()
/** Index of the order's hash among the cells (list items) of an event. */
const HASH_CELL = 4

/**
 * Returns a function that checks whether an entry contains the first event of an order, or the first piece of that
 * event. A search for the order's hash is not enough. Another order may name this hash as the order that it replaces,
 * because a trader can name any hash there.
 */
export function findsOrder(orderHash: string): (entry: Uint8Array) => boolean {
  const name = `"${orderHash}"`
  const isFirst = (event: PublicEvent): boolean =>
    event.type === 'OrdersMatched'
      ? event.taker.orderHash === orderHash && event.known !== true
      : event.type === 'OrderRested' && event.order?.orderHash === orderHash
  return (entry) => {
    // Search the text before parsing. The search is cheap, and few entries contain the hash.
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
 * Returns a function that checks whether an entry contains fill `fill` of the match with sequence number `seq`, or the
 * first piece of that match.
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
