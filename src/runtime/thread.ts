/**
 * Runs threads in a worker, and offers the calls with which the supervisor controls them (start, links, health,
 * metrics, stop). A worker’s entry file lists the kinds of threads that it can run. The supervisor sends the threads to
 * start, with their data. It calls the worker over Comlink on the worker’s own port, which carries only these calls.
 * Small threads may share a worker: each has its own links, health and metrics.
 *
 * The supervisor calls start first, then connect, health and metrics in any order, and at the end drain and stop. It
 * may also call only stop.
 */

import assert from 'node:assert/strict'
import { type MessagePort, parentPort } from 'node:worker_threads'
import { expose, type Remote, releaseProxy, transfer } from 'comlink'
import { type ClockMemory, followClock } from './clock.ts'
import { endpointOf } from './endpoint.ts'
import { beatInto, type Heartbeat } from './heartbeat.ts'

/** Requests that a thread can send to the supervisor. */
export type SupervisorApi = {
  /** Returns the state of every thread by name, for the readiness check. */
  threads(): Record<string, ThreadHealth>
  /** Returns the metrics of every thread in prom-client's JSON form. */
  metrics(): Promise<object[][]>
  /** Returns an object that the main thread creates once for all threads, by name. */
  made(name: string): Promise<object>
  /** Starts a thread on call; rejects if it does not start. */
  begin(name: string): Promise<void>
  /** Resolves with the reason when a started thread on call has ended. */
  ended(name: string): Promise<string>
  /**
   * Drains a thread on call that is about to be ended. Resolves when the thread accepts no new requests and has
   * answered all earlier ones.
   */
  drain(name: string): Promise<void>
  /** Drains and stops a started thread. */
  end(name: string): Promise<void>
  /** Returns the threads on call that were started and have not ended. */
  begun(): readonly string[]
  /** Gives a thread the port to a peer outside this process; returns false if the thread is not running. */
  connect(thread: string, peer: string, port: MessagePort): boolean
}

/** The supervisor's API, which a thread calls over Comlink. */
export type RemoteSupervisor = Remote<SupervisorApi>

export function handPort(
  supervisor: RemoteSupervisor,
  thread: string,
  peer: string,
  port: MessagePort,
): Promise<boolean> {
  // The cast is needed because Comlink’s type of a transfer list allows only browser ports.
  return supervisor.connect(thread, peer, transfer(port, [port as unknown as Transferable]))
}

export type ThreadHealth = {
  readonly ready: boolean
  readonly why: string
  /** True if the exchange keeps running without this thread. */
  readonly optional: boolean
  /** Number of deaths and failed starts. */
  readonly deaths: number
}

/** Error of a thread that cannot run with the exchange’s settings, so a restart would not help. */
export class Unfit extends Error {
  override name = 'Unfit'
}

/**
 * Prefix of the health text of a thread on standby: another node has its role, and this thread can take over. Such a
 * thread is healthy.
 */
export const STANDBY = 'standby'

export type Thread = {
  /** Resolves when the thread is ready for traffic. */
  start(supervisor: RemoteSupervisor): Promise<void>
  /** Receives a channel's port to a peer: at the start, and again after each restart of the peer. */
  connect(peer: string, port: MessagePort): void
  /**
   * Returns an empty string if the thread is healthy, otherwise the problem in a few words. For a thread on standby,
   * the text begins with `STANDBY` and names the role for which the thread waits.
   */
  health(): string
  metrics(): Promise<object[]>
  /** Accepts nothing new and finishes work in progress. */
  drain(): Promise<void>
  /** Releases everything; afterwards the thread has no open handle and ends on its own. */
  stop(): Promise<void>
}

/** Functions that create a thread from its data, by kind of thread. */
type ThreadKinds = Readonly<Record<string, (data: never) => Thread>>

/** Name, kind and data of a thread that the worker must start. */
type ThreadRequest = { readonly name: string; readonly kind: string; readonly data: object }

/** Calls that a worker offers to the supervisor. */
export type WorkerControl = {
  /**
   * Starts the threads one after the other. If a start fails, the worker ends. The worker increments `heartbeat`, which
   * the supervisor reads.
   */
  start(
    supervisor: SupervisorApi,
    threads: readonly ThreadRequest[],
    heartbeat?: Heartbeat,
  ): Promise<void>
  connect(thread: string, peer: string, port: MessagePort): void
  /** Returns the health of the worker's threads, by name. */
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
   * True once the threads are being stopped. A port that arrives afterwards is closed, because an open port would keep
   * the worker alive.
   */
  let isStopping = false

  function end(): void {
    supervisor?.[releaseProxy]()
    // Close the port only after the answer to the current call is sent. After that, nothing keeps the worker alive.
    setImmediate(() => port.close())
  }

  async function startThread({ name, kind, data }: ThreadRequest): Promise<void> {
    assert(supervisor !== undefined, 'this worker cannot start a thread: it has no supervisor')
    const make = kinds[kind]
    assert(make !== undefined, `this worker cannot run a thread of the kind ${kind}`)
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
      // The cast is needed because Comlink passes the supervisor’s object as a remote proxy.
      supervisor = from as unknown as RemoteSupervisor
      try {
        for (const order of orders) await startThread(order)
      } catch (error) {
        // Stop all threads that were created, even if some fail to stop, and throw the first failure.
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
