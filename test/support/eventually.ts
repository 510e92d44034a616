/** Only a test that fails waits this long, however busy the machine is. */
const TIMEOUT_MS = 120_000
/** Frequent attempts must not slow down the work that is awaited on a busy machine. */
const PAUSE_MS_MAX = 100

/**
 * Waits for a thing by asking for it again and again; fails with the last reason in the end. A test
 * cannot wait for less than the usual time, only for more.
 */
export async function eventually<T>(check: () => T | Promise<T>, atLeastMs = 0): Promise<T> {
  const endMs = performance.now() + Math.max(TIMEOUT_MS, atLeastMs)
  for (let pauseMs = 5; ; pauseMs = Math.min(PAUSE_MS_MAX, pauseMs + 5)) {
    try {
      return await check()
    } catch (error) {
      if (performance.now() > endMs) throw error
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
  }
}
