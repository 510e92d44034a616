/**
 * Ends a worker that is stuck in JavaScript and must not be terminated from outside, because a library in it would
 * abort the whole process. V8 can interrupt a worker's code: it unwinds to the event loop, nothing can catch it, and
 * the worker keeps running. So its code is interrupted, and then it is stopped as usual. Code that hangs in a native
 * function cannot be ended this way.
 */

import { Session } from 'node:inspector'
import type { Worker } from 'node:worker_threads'
import { beatsOf, type Heartbeat } from './heartbeat.ts'
import { inTime } from './in-time.ts'

/** Time to watch the event loop before its code is interrupted again. */
const LOOK_MS = 500

type Attached = {
  readonly params: { readonly sessionId: string; readonly workerInfo: { readonly title: string } }
}

/** A worker that is stopping may take this many times the timeout, as long as its event loop turns. */
const STOPPING_TIMES = 6

/**
 * Interrupts the code that the worker runs, unless its event loop turns after all, and waits until the worker has
 * ended. `stop` asks the worker to end. Returns `turns` if nothing was interrupted, and `stuck` if the worker neither
 * ended nor continued within the timeout.
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
        // The event loop turns, so the worker is stopping: do not interrupt it, and give it more time.
        if (performance.now() - startMs < STOPPING_TIMES * timeoutMs) turnedAtMs = performance.now()
      } else {
        // The worker may be stuck again: requests that waited before the stop are handled first.
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
  /** Value of the worker's heartbeat when it was found stuck. */
  readonly beats: number
}

/**
 * Returns the inspector's session of a worker. The inspector has its own ids; the thread's number is only in a target's
 * title.
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
