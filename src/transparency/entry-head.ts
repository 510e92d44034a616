/** The first line of an entry of the public log. */

export type EntryHead = {
  readonly v: 1
  /** Offset in the partition of the entry's first event, and number of events in the entry. */
  readonly first: number
  readonly count: number
  /** Set if the entry is one piece of a long event: number of the piece, from 1, and number of pieces. */
  readonly piece?: number
  readonly pieces?: number
}
