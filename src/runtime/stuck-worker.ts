/**
 * Ends a worker that is stuck in JavaScript and must not be terminated from outside, because a library
 * in it would abort the whole process. V8 can be told to break off what a worker runs: it unwinds to the
 * event loop, nothing of it can be caught, and the worker lives on. So it is broken off, and then stops
 * by itself as it would otherwise. What hangs in native code cannot be ended like that.
 */

import { Session } from 'node:inspector'
import type { Worker } from 'node:worker_threads'
import { beatsOf, type Heartbeat } from './heartbeat.ts'
import { inTime } from './in-time.ts'

/** How long it is looked whether the event loop turns, before what runs there is broken off again. */
const LOOK_MS = 500

type Attached = {
  readonly params: { readonly sessionId: string; readonly workerInfo: { readonly title: string } }
}

/** A worker that stops by itself may take this multiple of the timeout, as long as its event loop turns. */
const STOPPING_TIMES = 6

/**
 * Interrupts the code that the worker runs, unless its event loop turns after all, and waits until it has ended.
 * `stop` asks it to end by itself, which it does as soon as it can. Returns `turns` if nothing was broken off, and
 * `stuck` if the worker neither ended nor went on within the timeout.
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
        // While it stops, it is left alone.
        if (performance.now() - startMs < STOPPING_TIMES * timeoutMs) turnedAtMs = performance.now()
      } else {
        // It may get stuck once more before it receives the stop: other requests wait for it, too.
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
  /** Its heartbeat when it was found to be stuck. */
  readonly beats: number
}

/** The inspector counts workers by itself; the number of the thread is in the title only. */
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
