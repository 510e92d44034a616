/** The first line of an entry of the public log. */

export type EntryHead = {
  readonly v: 1
  /** Offset of the first event of the entry in its partition, and the number of events. */
  readonly first: number
  readonly count: number
  /** Set if the entry is one piece of an event: its number, from 1, and how many there are. */
  readonly piece?: number
  readonly pieces?: number
}
