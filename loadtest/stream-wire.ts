/** Messages between the processes of the stream benchmark. */

/** The market whose book is sent to all readers. */
export const MARKET_ID_TEXT = `0x${'5a'.repeat(32)}`

export type ToServer =
  | 'figures'
  /**
   * Requests this many changes of a book. Outcome 0 is the book that all readers follow; outcome 1 is the book that
   * only stalled readers follow.
   */
  | { readonly publish: number; readonly outcome: 0 | 1 }
export type FromServer =
  | { readonly port: number }
  | { readonly cpuMs: number; readonly rssBytes: number; readonly lagging: number }
