/** Finds an event in entries of the public log by its text, without reading the others. */

import { eventsIn, readEntry } from './public-event.ts'

const decoder = new TextDecoder()

/**
 * Returns a function that checks whether an entry names an order. Starting at the order's time, the first such entry
 * contains the order.
 */
export function findsOrder(orderHash: string): (entry: Uint8Array) => boolean {
  const name = `"${orderHash}"`
  return (entry) => decoder.decode(entry).includes(name)
}

/** Returns a function that checks whether an entry has the match with this number, or its first piece. */
export function findsMatch(marketId: string, seq: number): (entry: Uint8Array) => boolean {
  const start = `["M","${marketId}",${seq},`
  return (entry) => {
    const text = decoder.decode(entry)
    // A cheap check first: few entries contain the number at all.
    if (!text.includes(`,${seq},`)) return false
    if (text.includes(`\n${start}`)) return true
    const { head, lines } = readEntry(entry)
    if (head.pieces !== undefined) return false
    return eventsIn(lines, head.first).some(
      (event) => event.type === 'OrdersMatched' && event.marketId === marketId && event.seq === seq,
    )
  }
}
