/** The pause before a retry: it doubles with every failure, up to a limit. */

/**
 * Maximum number of doublings. It is high enough for the pause to reach any limit, and low enough to keep the power of
 * two finite (2^1024 is not).
 */
const DOUBLINGS_MAX = 40

/** Returns the pause in milliseconds. `failures` does not count the newest failure, so the first pause is `firstMs`. */
export function backoff(firstMs: number, mostMs: number, failures: number): number {
  return Math.min(mostMs, firstMs * 2 ** Math.min(failures, DOUBLINGS_MAX))
}
