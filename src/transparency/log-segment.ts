/**
 * Segments of the public log: runs of whole entries with a limited number of events. The books are stored at the end of
 * each segment. The boundaries follow from the entries alone.
 */

import type { EntryHead } from './entry-head.ts'

/** Maximum number of events of a segment, and of its bytes: a segment ends with the entry that reaches one of them. */
export const SEGMENT_EVENTS = 8_192
export const SEGMENT_LEAVES = 2_048

/** Returns a function that counts the entries of one segment, and returns true at the last of them. */
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
