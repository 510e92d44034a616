/** The pause before a retry: it doubles with every failure, up to a limit. */

/**
 * Maximum number of doublings: enough to reach any limit, and few enough that the power of two stays finite
 * (2^1024 would not).
 */
const DOUBLINGS_MAX = 40

/** Returns the pause in milliseconds. `failures` does not count the newest failure, so the first pause is `firstMs`. */
export function backoff(firstMs: number, mostMs: number, failures: number): number {
  return Math.min(mostMs, firstMs * 2 ** Math.min(failures, DOUBLINGS_MAX))
}
