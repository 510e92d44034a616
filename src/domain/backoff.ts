/** The pause before something that failed is tried again: it doubles with every failure, up to a limit. */

/** More doublings than any limit needs; beyond a thousand a number has no room for them. */
const DOUBLINGS_MAX = 40

/** `failures` counts those before the newest: the first pause is `firstMs`. */
export function backoff(firstMs: number, mostMs: number, failures: number): number {
  return Math.min(mostMs, firstMs * 2 ** Math.min(failures, DOUBLINGS_MAX))
}
