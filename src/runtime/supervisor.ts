/**
 * Starts the threads in the given order, links them, checks their health, and stops them in the opposite order.
 * Restarts dead threads after a growing pause. The supervisor runs on the main thread and carries no traffic: a link is
 * a pair of ports that the supervisor creates and gives to both ends.
 *
 * Each thread has its own worker, or shares one with other threads of the same host. When a worker dies, its threads
 * and their ports die with it, so callers that wait for their answers receive `closed` at once. After the restart, both
 * ends of each link get new ports.
 *
 * A thread on call is started and stopped by another thread. That thread is notified when the thread on call ends, and
 * decides whether to start it again.
 *
 * A thread is necessary or optional. If a necessary thread dies too often, the exchange ends. An optional thread is
 * restarted with growing pauses as long as the exchange runs, even if its first start fails. Exception: if the thread
 * reports that it cannot run with the settings, the start of the exchange fails. If optional threads share a worker
 * that keeps dying, each gets its own worker, which isolates the faulty thread.
 *
 * A worker that does not answer is ended, unless it is only slow: its heartbeat still increases (`heartbeat.ts`), or it
 * waits for a CPU core. If a worker must not be terminated, its code is interrupted so that it ends on its own
 * (`stuck-worker.ts`). If that fails, the supervisor logs an error and tries again later. The other threads continue
 * meanwhile, so a hanging front never ends the markets.
 *
 * A worker that loads its modules or starts its threads is never ended from outside, because Node would abort the whole
 * process. A stop waits until the worker has started, or until the start timeout.
 */

import type { MessagePort } from 'node:worker_threads'
import { planHealthCheck } from './health-check.ts'
import { healthOf, hostOf, newHost, type ThreadSpec, type WorkerSpec } from './host.ts'
import { inTime } from './in-time.ts'
import { begin, drop, hand, openWorker, startFirst } from './start-threads.ts'
import { stopAll, stopHost } from './stop-threads.ts'
import { begunAs, type Supervised, type SupervisorOptions } from './supervised.ts'
import type { SupervisorApi, ThreadHealth } from './thread.ts'
import { keptMetrics, metricsOf } from './thread-metrics.ts'

export type Supervisor = {
  /** Creates workers that load their modules while the main thread does other work. `start` uses these workers. */
  preload(workers: readonly WorkerSpec[]): void
  /**
   * Starts every thread. Resolves when all necessary threads are ready, or when the supervisor is stopped meanwhile.
   * Threads on call start only when another thread requests it.
   */
  start(threads: readonly ThreadSpec[], onCall?: readonly ThreadSpec[]): Promise<void>
  /** Drains and stops every thread; resolves with true if all ended on their own before the timeout. */
  stop(): Promise<boolean>
  health(): Record<string, ThreadHealth>
  metrics(): Promise<object[][]>
  /** Terminates a thread’s worker, as a crash would; for tests. */
  kill(name: string): Promise<void>
}

export function makeSupervisor(options: SupervisorOptions): Supervisor {
  const state: Supervised = {
    options,
    hosts: [],
    spares: new Map(),
    ahead: [],
    onCall: [],
    api: apiOf(() => state),
    stopping: false,
    stopHealth: () => {},
    starting: Promise.resolve(),
    collected: undefined,
  }
  let stopped: Promise<boolean> | undefined
  return {
    preload(workers) {
      state.ahead = workers
      for (const worker of workers) state.spares.set(worker.name, openWorker(state, worker))
    },
    start(threads, onCall = []) {
      state.onCall = onCall
      const names = new Set(threads.map(hostOf))
      state.hosts = [...names].map((name) =>
        newHost(
          name,
          threads.filter((thread) => hostOf(thread) === name),
        ),
      )
      state.starting = startAll(state)
      return state.starting
    },
    stop() {
      stopped ??= stopAll(state)
      return stopped
    },
    health: () => healthOf(state.hosts),
    metrics: () => metricsOf(state),
    async kill(name) {
      for (const host of state.hosts) {
        if (host.whys.has(name)) await host.running?.worker.terminate()
      }
    },
  }
}

async function startAll(state: Supervised): Promise<void> {
  for (const host of state.hosts) {
    if (state.stopping) return
    await startFirst(state, host)
  }
  if (!state.stopping) planHealthCheck(state)
}

/** Returns the functions of the supervisor that threads can call. */
function apiOf(current: () => Supervised): SupervisorApi {
  return {
    threads: () => healthOf(current().hosts),
    metrics: () => keptMetrics(current()),
    made: async (name) => (await current().options.made?.[name]?.()) ?? {},
    begin: (name) => begin(current(), name),
    ended: async (name) =>
      (await begunAs(current(), name)?.over?.promise) ?? 'the thread is not running',
    async drain(name) {
      const host = begunAs(current(), name)
      if (host === undefined) return
      await host.starting.catch(() => {})
      host.phase = 'stopped'
      const drained = (host.running?.control.drain() as Promise<void> | undefined)?.catch(() => {})
      // A thread that dies meanwhile does not answer, and counts as drained.
      await inTime(Promise.race([drained, host.running?.exited]), current().options.stopTimeoutMs)
    },
    async end(name) {
      const host = begunAs(current(), name)
      if (host === undefined) return
      await host.starting.catch(() => {})
      host.phase = 'stopped'
      if (!(await stopHost(current(), host))) throw new Error(`${name} did not stop`)
      drop(current(), host, 'it was ended')
    },
    begun: () =>
      current()
        .hosts.filter(({ over }) => over !== undefined)
        .map(({ name }) => name),
    connect(thread, peer, port: MessagePort) {
      const host = current().hosts.find(({ threads, phase }) => {
        return phase === 'ready' && threads.some(({ name }) => name === thread)
      })
      const spec = host?.threads.find(({ name }) => name === thread)
      if (spec === undefined) port.close()
      else hand(current(), spec, peer, port)
      return spec !== undefined
    },
  }
}
