/** The shortest and the longest time between two questions. */
const PAUSE_MS_MIN = 5
const PAUSE_MS_MAX = 50

/**
 * Waits for a thing by asking for it again and again; fails with the last reason in the end. What takes
 * long is asked for less often, so that asking does not take the time of what it waits for.
 */
export async function eventually<T>(check: () => T | Promise<T>, timeoutMs = 20_000): Promise<T> {
  const begunMs = performance.now()
  for (;;) {
    try {
      return await check()
    } catch (error) {
      const waitedMs = performance.now() - begunMs
      if (waitedMs > timeoutMs) throw error
      const pauseMs = Math.min(PAUSE_MS_MAX, Math.max(PAUSE_MS_MIN, waitedMs / 10))
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }
}
