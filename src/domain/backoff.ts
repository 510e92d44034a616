/** The pause before a retry: it doubles with every failure, up to a limit. */

/** More doublings than any limit needs; 2^1024 would exceed the range of a number. */
const DOUBLINGS_MAX = 40

/** `failures` does not count the newest one, so the first pause is `firstMs`. */
export function backoff(firstMs: number, mostMs: number, failures: number): number {
  return Math.min(mostMs, firstMs * 2 ** Math.min(failures, DOUBLINGS_MAX))
}
