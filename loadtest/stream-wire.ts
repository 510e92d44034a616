/** Messages between the processes of the stream benchmark. */

/** The market whose book is sent to all readers. */
export const MARKET_ID_TEXT = `0x${'5a'.repeat(32)}`

export type ToServer =
  | 'figures'
  /**
   * Requests this many changes: of the book that all readers follow (outcome 0), or of the one that only some follow
   * (1).
   */
  | { readonly publish: number; readonly outcome: 0 | 1 }
export type FromServer =
  | { readonly port: number }
  | { readonly cpuMs: number; readonly rssBytes: number; readonly lagging: number }
