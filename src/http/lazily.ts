/**
 * Returns a function that makes a value at its first call and returns the same value at later calls. If making the
 * value fails, the next call tries again.
 */

export function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined
      throw error
    })
    return made
  }
}
