/** Runs work at most once per frame, however often it is requested. */

/** A hidden page has no frames. */
const HIDDEN_MS = 1_000

type OncePerFrame = { ask(): void; stop(): void }

export function oncePerFrame(work: () => void): OncePerFrame {
  let frame = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  const clear = () => {
    cancelAnimationFrame(frame)
    clearTimeout(timer)
    frame = 0
    timer = undefined
  }
  const run = () => {
    clear()
    work()
  }
  return {
    ask() {
      if (frame !== 0 || timer !== undefined) return
      // A timer runs beside the request for a frame, because a hidden page gets no frames.
      timer = setTimeout(run, HIDDEN_MS)
      if (!document.hidden) frame = requestAnimationFrame(run)
    },
    stop: clear,
  }
}
