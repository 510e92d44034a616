/** What the processes of the stream benchmark say to each other. */

/** The market whose book is fanned out. */
export const MARKET_ID_TEXT = `0x${'5a'.repeat(32)}`

export type ToServer =
  | 'figures'
  /** So many changes of the book that all follow, or of the one that only some do. */
  | { readonly publish: number; readonly outcome: 0 | 1 }
export type FromServer =
  | { readonly port: number }
  | { readonly cpuMs: number; readonly rssBytes: number; readonly lagging: number }
