/** Maximum wait: only a test that fails waits this long, however busy the machine is. */
const TIMEOUT_MS = 120_000
/**
 * Maximum pause between attempts. With shorter pauses, the attempts would slow down the awaited work on a busy machine.
 */
const PAUSE_MS_MAX = 100

/**
 * Repeats an attempt until it succeeds; fails with its last error. A test may set a longer limit than the usual one,
 * but not a shorter one.
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
