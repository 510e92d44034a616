/** Reads the events of one market from entries of the public log; Node only. */

import type { MarketId } from '#domain/ids.ts'
import { readEntry } from './public-event.ts'

/** Reads the lines of an entry, whose first event has this offset. */
type ReadLines<Event> = (lines: readonly string[], first: number) => Event[]

/**
 * Reads the events of one market from consecutive entries, starting at any entry. Entries without the market are not
 * parsed: an entry names each of its markets at least once.
 */
export function makeMarketReader<Event extends { readonly marketId: MarketId }>(
  marketId: MarketId,
  read: ReadLines<Event>,
): (entry: Uint8Array) => Event[] {
  let pieces: string[] = []
  return (entry) => {
    const bytes = Buffer.from(entry.buffer, entry.byteOffset, entry.byteLength)
    const isPiece = bytes.lastIndexOf('"piece":', bytes.indexOf('\n')) >= 0
    if (!isPiece && !bytes.includes(marketId)) return []
    const { head, lines } = readEntry(entry)
    let texts = lines
    if (head.pieces !== undefined) {
      if (head.piece === 1) pieces = []
      pieces.push(lines[0]!)
      if (head.piece !== head.pieces) return []
      // The first pieces of this event are missing, because reading started after them. The event belongs to the
      // segment before.
      if (pieces.length !== head.pieces) return []
      texts = [pieces.join('')]
    }
    return read(texts, head.first).filter((event) => event.marketId === marketId)
  }
}
