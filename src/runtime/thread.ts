/**
 * The control of threads (start, links, health, metrics, stop) as seen by their worker. A worker's entry names the
 * kinds of threads that it can run. The supervisor names those to start, with their data, and calls them over Comlink
 * on the worker's own port, which carries only these calls. Small threads may share a worker: each has its own links,
 * health and metrics.
 *
 * The order of calls: start, *[connect | health | metrics], drain, stop; or stop alone.
 */

import assert from 'node:assert/strict'
import { type MessagePort, parentPort } from 'node:worker_threads'
import { expose, type Remote, releaseProxy, transfer } from 'comlink'
import { type ClockMemory, followClock } from './clock.ts'
import { endpointOf } from './endpoint.ts'
import { beatInto, type Heartbeat } from './heartbeat.ts'

/** Requests of a thread to the supervisor. */
export type SupervisorApi = {
  /** Returns the state of every thread by name, for the readiness check. */
  threads(): Record<string, ThreadHealth>
  /** Returns the metrics of every thread in prom-client's JSON form. */
  metrics(): Promise<object[][]>
  /** Returns an object that the main thread creates once for all threads, by name. */
  made(name: string): Promise<object>
  /** Starts a thread on call; rejects if it does not start. */
  begin(name: string): Promise<void>
  /** Resolves with the reason when a started thread has ended. */
  ended(name: string): Promise<string>
  /**
   * Drains a started thread that is about to be ended: resolves when it accepts nothing more and has answered
   * everything.
   */
  drain(name: string): Promise<void>
  /** Drains and stops a started thread. */
  end(name: string): Promise<void>
  /** Returns the threads on call that were started and have not ended. */
  begun(): readonly string[]
  /** Gives a thread the port to a peer outside this process; returns false if the thread is not running. */
  connect(thread: string, peer: string, port: MessagePort): boolean
}

/** The supervisor as a thread sees it. */
export type RemoteSupervisor = Remote<SupervisorApi>

export function handPort(
  supervisor: RemoteSupervisor,
  thread: string,
  peer: string,
  port: MessagePort,
): Promise<boolean> {
  // Comlink's type of a transfer list knows only the browser's ports.
  return supervisor.connect(thread, peer, transfer(port, [port as unknown as Transferable]))
}

export type ThreadHealth = {
  readonly ready: boolean
  readonly why: string
  /** True if the exchange runs on without the thread. */
  readonly optional: boolean
  /** Number of deaths and failed starts. */
  readonly deaths: number
}

/** The thread cannot run with the exchange's settings: a restart would not help. */
export class Unfit extends Error {
  override name = 'Unfit'
}

/**
 * Prefix of the health text of a thread that stands by because another node has its role: nothing is wrong, and it can
 * take over.
 */
export const STANDBY = 'standby'

export type Thread = {
  /** Resolves when the thread is ready for traffic. */
  start(supervisor: RemoteSupervisor): Promise<void>
  /** Receives a channel's port to a peer: at the start, and again after each restart of the peer. */
  connect(peer: string, port: MessagePort): void
  /**
   * Returns an empty string if the thread is healthy, otherwise the problem in a few words, or the role that it waits
   * for.
   */
  health(): string
  metrics(): Promise<object[]>
  /** Accepts nothing new and finishes work in progress. */
  drain(): Promise<void>
  /** Releases everything; afterwards the thread has no open handle and ends on its own. */
  stop(): Promise<void>
}

/** Creates the parts of a thread of each kind from its data. */
type ThreadKinds = Readonly<Record<string, (data: never) => Thread>>

/** A thread that its worker has to run. */
type ThreadRequest = { readonly name: string; readonly kind: string; readonly data: object }

/** Interface of a worker for the supervisor. */
export type WorkerControl = {
  /**
   * Starts the threads one after the other. If one fails, the worker ends. It increments `heartbeat`, which the
   * supervisor reads.
   */
  start(
    supervisor: SupervisorApi,
    threads: readonly ThreadRequest[],
    heartbeat?: Heartbeat,
  ): Promise<void>
  connect(thread: string, peer: string, port: MessagePort): void
  /** Health of the worker's threads, by name. */
  health(): Record<string, string>
  metrics(): Promise<object[][]>
  drain(): Promise<void>
  stop(): Promise<void>
}

export function runThreads(kinds: ThreadKinds): void {
  assert(parentPort !== null, 'an entry runs as a worker')
  const port = parentPort
  const threads = new Map<string, Thread>()
  const newestFirst = () => [...threads.values()].reverse()
  let supervisor: RemoteSupervisor | undefined
  /**
   * True once the threads are being stopped. A port that arrives then is closed, because it would keep the worker
   * alive.
   */
  let isStopping = false

  function end(): void {
    supervisor?.[releaseProxy]()
    // The answer to the current call is sent before the port closes; after that, nothing keeps the worker alive.
    setImmediate(() => port.close())
  }

  async function startThread({ name, kind, data }: ThreadRequest): Promise<void> {
    assert(supervisor !== undefined, 'the supervisor has called')
    const make = kinds[kind]
    assert(make !== undefined, `this worker runs no ${kind}`)
    const { clock } = data as { clock?: ClockMemory }
    if (clock !== undefined) followClock(clock)
    try {
      const parts = make(data as never)
      threads.set(name, parts)
      await parts.start(supervisor)
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      const message = `${name} did not start: ${why}`
      throw error instanceof Unfit ? new Unfit(message) : new Error(message)
    }
  }

  const control: WorkerControl = {
    async start(from, orders, heartbeat) {
      if (heartbeat !== undefined) beatInto(heartbeat)
      // Comlink passes the proxied object as a remote one.
      supervisor = from as unknown as RemoteSupervisor
      try {
        for (const order of orders) await startThread(order)
      } catch (error) {
        // Stop all parts that were opened, even if some fail to stop, and throw the first failure.
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
