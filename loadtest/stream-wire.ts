/** Messages between the processes of the stream benchmark. */

/** The market whose book is sent to all readers. */
export const MARKET_ID_TEXT = `0x${'5a'.repeat(32)}`

export type ToServer =
  | 'figures'
  /**
   * Requests this many changes of one of two books. All readers follow the book of outcome 0. Only stalled readers also
   * follow the book of outcome 1.
   */
  | { readonly publish: number; readonly outcome: 0 | 1 }
export type FromServer =
  | { readonly port: number }
  | { readonly cpuMs: number; readonly rssBytes: number; readonly lagging: number }
