/** What the processes of the stream benchmark say to each other. */

/** The market whose book is fanned out. */
export const MARKET_ID_TEXT = `0x${'5a'.repeat(32)}`

export type ToServer = 'figures' | { readonly publish: number }
export type FromServer =
  | { readonly port: number }
  | { readonly cpuMs: number; readonly rssBytes: number; readonly dropped: number }
