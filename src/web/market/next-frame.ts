/** Runs a task at most once per animation frame, regardless of how often the task is requested. */

/** Delay after which a task runs if no frame comes. A hidden page gets no frames. */
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
      // Also start a timer, because a hidden page gets no frames.
      timer = setTimeout(run, HIDDEN_MS)
      if (!document.hidden) frame = requestAnimationFrame(run)
    },
    stop: clear,
  }
}
