/** The first line of an entry of the public log. */

export type EntryHead = {
  readonly v: 1
  /** Offset in the partition of the entry's first event, and number of events in the entry. */
  readonly first: number
  readonly count: number
  /**
   * Number of this piece, from 1, and number of pieces. Both are set only if the entry is one piece of a long
   * event.
   */
  readonly piece?: number
  readonly pieces?: number
}
