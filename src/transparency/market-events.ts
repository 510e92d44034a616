/** Reads the events of one market from entries of the public log. Works only in Node. */

import type { MarketId } from '#domain/ids.ts'
import { readEntry } from './public-event.ts'

/** Parses the lines of an entry into events. `first` is the offset of the first event. */
type ReadLines<Event> = (lines: readonly string[], first: number) => Event[]

/**
 * Reads the events of one market from consecutive entries, starting at any entry. An entry with events of a market
 * contains the market's id at least once, so other entries are not parsed.
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
      // The first pieces of this event are in entries before the first entry read, so the event is incomplete. Skip it,
      // because it belongs to the previous segment.
      if (pieces.length !== head.pieces) return []
      texts = [pieces.join('')]
    }
    return read(texts, head.first).filter((event) => event.marketId === marketId)
  }
}
