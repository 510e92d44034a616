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

/** `stop` asks it to end by itself, which it hears as soon as it can. Answers whether it ended in time. */
export async function endStuck(
  { worker, exited, heartbeat }: StuckWorker,
  stop: () => void,
  timeoutMs: number,
): Promise<boolean> {
  const untilMs = performance.now() + timeoutMs
  const session = new Session()
  session.connect()
  try {
    const id = await inTime(sessionOf(session, worker.threadId), timeoutMs)
    if (id === undefined) return false
    stop()
    let beats = beatsOf(heartbeat)
    breakOff(session, id)
    while (performance.now() < untilMs) {
      if ((await inTime(exited, LOOK_MS)) !== undefined) return true
      // It may get stuck once more before it hears that it is to stop: others ask it for the same.
      if (beatsOf(heartbeat) === beats) breakOff(session, id)
      beats = beatsOf(heartbeat)
    }
    return false
  } finally {
    session.post('NodeWorker.disable')
    session.disconnect()
  }
}

type StuckWorker = {
  readonly worker: Worker
  readonly exited: Promise<number>
  readonly heartbeat: Heartbeat
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
