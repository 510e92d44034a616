/**
 * The worker's side of control. A thread entry hands its parts to `runThread`, which answers the
 * supervisor's calls over Comlink on the worker's own port. No traffic goes this way.
 *
 * The conversation: start, *[connect | health | metrics], drain, stop.
 */

import assert from 'node:assert/strict'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { expose, type Remote, releaseProxy } from 'comlink'
import { type ClockMemory, followClock } from './clock.ts'
import { endpointOf } from './endpoint.ts'

/** What a thread may ask of the supervisor. */
export type Home = {
  /** The state of every thread by name, for the readiness check. */
  threads(): Record<string, ThreadHealth>
  /** The metrics of every thread, as prom-client writes them in JSON. */
  metrics(): Promise<object[][]>
}

export type ThreadHealth = { readonly ready: boolean; readonly why: string }

export type ThreadParts = {
  /** Resolves when the thread is ready for traffic. */
  start(home: Remote<Home>): Promise<void>
  /** A channel's port to a peer: at the start, and again whenever the peer was restarted. */
  connect(peer: string, port: MessagePort): void
  /** Empty when all is well, otherwise what is wrong in a few words. */
  health(): string
  metrics(): Promise<object[]>
  /** Takes nothing new and finishes what is under way. */
  drain(): Promise<void>
  /** Releases everything; afterwards the thread has no handle left and ends by itself. */
  stop(): Promise<void>
}

/** What the supervisor sees of a thread. */
export type ThreadControl = {
  start(home: Home): Promise<void>
  connect(peer: string, port: MessagePort): void
  health(): string
  metrics(): Promise<object[]>
  drain(): Promise<void>
  stop(): Promise<void>
}

export function runThread(parts: ThreadParts): void {
  assert(parentPort !== null, 'a thread entry runs as a worker')
  const { clock } = (workerData ?? {}) as { clock?: ClockMemory }
  if (clock !== undefined) followClock(clock)
  const port = parentPort
  let home: Remote<Home> | undefined
  const control: ThreadControl = {
    start(from) {
      // Comlink hands the proxied object over as a remote one.
      home = from as unknown as Remote<Home>
      return parts.start(home)
    },
    connect: (peer, peerPort) => parts.connect(peer, peerPort),
    health: () => parts.health(),
    metrics: () => parts.metrics(),
    drain: () => parts.drain(),
    async stop() {
      await parts.stop()
      home?.[releaseProxy]()
      // The answer to this very call leaves first; then nothing holds the thread any more.
      setImmediate(() => port.close())
    },
  }
  expose(control, endpointOf(port))
}
