/** A wait with a time limit. */

import type { Clock } from './clock.ts'

const afterReal: Clock['after'] = (ms, act) => {
  const timer = setTimeout(act, ms)
  return () => clearTimeout(timer)
}

/** Returns the promise's value, or undefined if the promise has not settled after `timeoutMs`. */
export async function inTime<T>(
  promise: Promise<T>,
  timeoutMs: number,
  after: Clock['after'] = afterReal,
): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>()
  const cancel = after(timeoutMs, () => late.resolve(undefined))
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    cancel()
  }
}
