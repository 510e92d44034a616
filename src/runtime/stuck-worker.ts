/**
 * Ends a worker that is stuck in JavaScript and must not be terminated from outside, because a library in it would
 * abort the whole process. V8 can interrupt the code that a worker runs. The code cannot catch the interruption: V8
 * unwinds the stack to the event loop, and the worker keeps running. So this module interrupts the code and then stops
 * the worker as usual. Code that hangs in a native function cannot be interrupted.
 */

import { Session } from 'node:inspector'
import type { Worker } from 'node:worker_threads'
import { beatsOf, type Heartbeat } from './heartbeat.ts'
import { inTime } from './in-time.ts'

/**
 * Interval at which the heartbeat is checked. If the heartbeat has not changed, the worker’s code is interrupted again.
 */
const LOOK_MS = 500

type Attached = {
  readonly params: { readonly sessionId: string; readonly workerInfo: { readonly title: string } }
}

/** Factor on the timeout for a worker whose event loop runs again: such a worker is stopping and may take longer. */
const STOPPING_TIMES = 6

/**
 * Ends a stuck worker. If its heartbeat has changed since the worker was found stuck, returns `turns` and does nothing
 * else. Otherwise calls `stop`, which asks the worker to end, and interrupts the worker's code. Then returns `ended` if
 * the worker ends before the timeout, and `stuck` if it does not.
 */
export async function endStuck(
  { worker, exited, heartbeat, beats: seen }: StuckWorker,
  stop: () => void,
  timeoutMs: number,
): Promise<'ended' | 'turns' | 'stuck'> {
  const session = new Session()
  session.connect()
  try {
    const id = await inTime(sessionOf(session, worker.threadId), timeoutMs)
    if (id === undefined) return 'stuck'
    let beats = beatsOf(heartbeat)
    if (beats !== seen) return 'turns'
    stop()
    breakOff(session, id)
    const startMs = performance.now()
    let turnedAtMs = startMs
    while (performance.now() - turnedAtMs < timeoutMs) {
      if ((await inTime(exited, LOOK_MS)) !== undefined) return 'ended'
      if (beatsOf(heartbeat) !== beats) {
        // The event loop runs again, so the worker is stopping: do not interrupt the worker, and give it more time.
        if (performance.now() - startMs < STOPPING_TIMES * timeoutMs) turnedAtMs = performance.now()
      } else {
        // Interrupt the worker again: it handles earlier requests before the stop request, and may be stuck in one of
        // them.
        breakOff(session, id)
      }
      beats = beatsOf(heartbeat)
    }
    return 'stuck'
  } finally {
    session.post('NodeWorker.disable')
    session.disconnect()
  }
}

type StuckWorker = {
  readonly worker: Worker
  readonly exited: Promise<number>
  readonly heartbeat: Heartbeat
  /** Value of the worker’s heartbeat when the worker was found stuck. */
  readonly beats: number
}

/**
 * Returns the id of the inspector’s session for a worker. The inspector uses its own ids; only the title of a target
 * contains the worker’s thread id.
 */
function sessionOf(session: Session, threadId: number): Promise<string> {
  return new Promise((resolve, reject) => {
    session.on('NodeWorker.attachedToWorker', ({ params }: Attached) => {
      if (params.workerInfo.title.startsWith(`[worker ${threadId}]`)) resolve(params.sessionId)
    })
    session.post('NodeWorker.enable', { waitForDebuggerOnStart: false }, (error) => {
      if (error !== null) reject(error)
    })
  })
}

function breakOff(session: Session, sessionId: string): void {
  const message = JSON.stringify({ id: 1, method: 'Runtime.terminateExecution' })
  session.post('NodeWorker.sendMessageToWorker', { sessionId, message })
}
