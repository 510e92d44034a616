/** A wait with an end. */

import type { Clock } from './clock.ts'

const afterReal: Clock['after'] = (ms, act) => {
  const timer = setTimeout(act, ms)
  return () => clearTimeout(timer)
}

/** The promise's value, or undefined when it takes longer. */
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
