/**
 * Segments of the public log. A segment is a run of consecutive whole entries, and its number of events is limited. The
 * books are stored at the end of each segment. The entries alone determine where segments end.
 */

import type { EntryHead } from './entry-head.ts'

/** A segment ends with the entry at which it reaches this number of events or this number of entries. */
export const SEGMENT_EVENTS = 8_192
export const SEGMENT_LEAVES = 2_048

/** Returns a function that receives each entry's head and returns true at the last entry of the segment. */
export function makeSegmentCounter(): (head: EntryHead) => boolean {
  let events = 0
  let leaves = 0
  return ({ count, piece, pieces }) => {
    leaves++
    // A segment does not end between the pieces of an event.
    if (piece !== pieces) return false
    events += count
    return events >= SEGMENT_EVENTS || leaves >= SEGMENT_LEAVES
  }
}
