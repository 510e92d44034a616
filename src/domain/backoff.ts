/** The pause before a retry: it doubles with every failure, up to a limit. */

/** Maximum number of doublings. It is enough for any limit; 2^1024 would exceed the range of a number. */
const DOUBLINGS_MAX = 40

/** Returns the pause in milliseconds. `failures` does not count the newest failure, so the first pause is `firstMs`. */
export function backoff(firstMs: number, mostMs: number, failures: number): number {
  return Math.min(mostMs, firstMs * 2 ** Math.min(failures, DOUBLINGS_MAX))
}
