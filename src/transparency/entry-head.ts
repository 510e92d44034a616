/** The first line of an entry of the public log. */

export type EntryHead = {
  readonly v: 1
  /** Offset of the first event of the entry in its partition, and the number of events. */
  readonly first: number
  readonly count: number
  /** If the entry is one piece of an event: the number of the piece, from 1, and the number of pieces. */
  readonly piece?: number
  readonly pieces?: number
}
