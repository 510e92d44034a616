/**
 * The worker's side of control. A worker's entry says which kinds of threads it can run; the supervisor
 * says which of them it shall, with what data, and calls them over Comlink on the worker's own port. No
 * traffic goes this way. Small threads may share a worker: each has its own links, health and metrics.
 *
 * The conversation: start, *[connect | health | metrics], drain, stop; or stop alone.
 */

import assert from 'node:assert/strict'
import { type MessagePort, parentPort } from 'node:worker_threads'
import { expose, type Remote, releaseProxy, transfer } from 'comlink'
import { type ClockMemory, followClock } from './clock.ts'
import { endpointOf } from './endpoint.ts'
import { beatInto, type Heartbeat } from './heartbeat.ts'

/** What a thread may ask of the supervisor. */
export type Home = {
  /** The state of every thread by name, for the readiness check. */
  threads(): Record<string, ThreadHealth>
  /** The metrics of every thread, as prom-client writes them in JSON. */
  metrics(): Promise<object[][]>
  /** What the main thread makes once for all threads that ask for it, by name. */
  made(name: string): Promise<object>
  /** Starts a thread that is on call; rejects when it does not start. */
  begin(name: string): Promise<void>
  /** Resolves with the reason when a thread that was begun is no more. */
  ended(name: string): Promise<string>
  /** Drains a thread that was begun, and is to be ended: resolves when it takes nothing more and has answered all. */
  drain(name: string): Promise<void>
  /** Drains and stops a thread that was begun. */
  end(name: string): Promise<void>
  /** The threads that were begun and are not ended. */
  begun(): readonly string[]
  /** Hands a thread the port to a peer that is not in this process; false while it does not run. */
  connect(thread: string, peer: string, port: MessagePort): boolean
}

/** The supervisor, as a thread sees it. */
export type RemoteHome = Remote<Home>

export function handPort(
  home: RemoteHome,
  thread: string,
  peer: string,
  port: MessagePort,
): Promise<boolean> {
  // Comlink's type of a transfer list knows the browser's ports only.
  return home.connect(thread, peer, transfer(port, [port as unknown as Transferable]))
}

export type ThreadHealth = {
  readonly ready: boolean
  readonly why: string
  /** Whether the exchange goes on without it. */
  readonly optional: boolean
  /** How often it has died, or did not start. */
  readonly deaths: number
}

/** The thread cannot run as the exchange is set up: no other start of it would help. */
export class Unfit extends Error {
  override name = 'Unfit'
}

/**
 * How the health of a thread begins that waits for a role which another node plays: nothing is wrong with it,
 * and it is ready to take over.
 */
export const STANDBY = 'standby'

export type ThreadParts = {
  /** Resolves when the thread is ready for traffic. */
  start(home: RemoteHome): Promise<void>
  /** A channel's port to a peer: at the start, and again whenever the peer was restarted. */
  connect(peer: string, port: MessagePort): void
  /** Empty when all is well, otherwise what is wrong in a few words, or what it stands by for. */
  health(): string
  metrics(): Promise<object[]>
  /** Takes nothing new and finishes what is under way. */
  drain(): Promise<void>
  /** Releases everything; afterwards the thread has no handle left and ends by itself. */
  stop(): Promise<void>
}

/** What makes the parts of a thread of each kind out of its data. */
type ThreadKinds = Readonly<Record<string, (data: never) => ThreadParts>>

/** A thread as its worker is told to run it. */
type ThreadOrder = { readonly name: string; readonly kind: string; readonly data: object }

/** What the supervisor sees of a worker. */
export type WorkerControl = {
  /**
   * Starts the threads one after the other. If one fails, the worker ends by itself. The heartbeat is where
   * the supervisor sees that the worker goes on.
   */
  start(home: Home, threads: readonly ThreadOrder[], heartbeat?: Heartbeat): Promise<void>
  connect(thread: string, peer: string, port: MessagePort): void
  /** By the thread's name. */
  health(): Record<string, string>
  metrics(): Promise<object[][]>
  drain(): Promise<void>
  stop(): Promise<void>
}

export function runThreads(kinds: ThreadKinds): void {
  assert(parentPort !== null, 'an entry runs as a worker')
  const port = parentPort
  const threads = new Map<string, ThreadParts>()
  const newestFirst = () => [...threads.values()].reverse()
  let home: RemoteHome | undefined
  /** What is handed over now would hold the worker for ever: nobody closes it any more. */
  let isStopping = false

  function end(): void {
    home?.[releaseProxy]()
    // The answer to the call under way leaves first; then nothing holds the worker any more.
    setImmediate(() => port.close())
  }

  async function startThread({ name, kind, data }: ThreadOrder): Promise<void> {
    assert(home !== undefined, 'the supervisor has called')
    const make = kinds[kind]
    assert(make !== undefined, `this worker runs no ${kind}`)
    const { clock } = data as { clock?: ClockMemory }
    if (clock !== undefined) followClock(clock)
    try {
      const parts = make(data as never)
      threads.set(name, parts)
      await parts.start(home)
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      const told = `${name} did not start: ${why}`
      throw error instanceof Unfit ? new Unfit(told) : new Error(told)
    }
  }

  const control: WorkerControl = {
    async start(from, orders, heartbeat) {
      if (heartbeat !== undefined) beatInto(heartbeat)
      // Comlink hands the proxied object over as a remote one.
      home = from as unknown as RemoteHome
      try {
        for (const order of orders) await startThread(order)
      } catch (error) {
        // Whatever was opened is closed as far as it can be; what has failed is told already.
        isStopping = true
        for (const parts of newestFirst()) await parts.stop().catch(() => {})
        end()
        throw error
      }
    },
    connect(thread, peer, peerPort) {
      if (isStopping) peerPort.close()
      else threads.get(thread)?.connect(peer, peerPort)
    },
    health: () => Object.fromEntries([...threads].map(([name, parts]) => [name, parts.health()])),
    metrics: () => Promise.all([...threads.values()].map((parts) => parts.metrics())),
    async drain() {
      for (const parts of newestFirst()) await parts.drain()
    },
    async stop() {
      isStopping = true
      for (const parts of newestFirst()) await parts.stop()
      end()
    },
  }
  expose(control, endpointOf(port))
}
