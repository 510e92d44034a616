/**
 * Starts the threads in the order given, links them, watches them, restarts what dies with a
 * growing pause and a limit, and stops them in the opposite order. It runs on the main thread and
 * carries no traffic: a link is a pair of ports that it makes and hands to both ends.
 *
 * Each thread has a worker of its own, or shares one with others that have the same host. A worker
 * that dies takes its threads and their ports with it, so a caller that waits for their answers is
 * told `closed` at once. When it is back, both ends of each of their links get new ports.
 *
 * A thread on call is started and stopped by another thread, which hears when it ends and decides what then.
 *
 * A thread is necessary or optional. One that is necessary and cannot be kept alive ends the exchange.
 * One that is optional is started again for as long as the exchange runs, with pauses that grow; also
 * when its first start fails, unless it says that it does not fit its settings. Optional threads that
 * share a worker which dies again and again get one each, so that the one at fault is alone with it.
 * A worker that does not answer is ended, but not one that is only slow: while its heartbeat counts, or while
 * it waits for a core, it goes on (`heartbeat.ts`). One that may not be ended by force is brought to end by
 * itself (`stuck-worker.ts`). If that fails, the supervisor reports it and tries again: a front that hangs never
 * ends the markets.
 *
 * A worker that loads its modules or starts its threads is never ended from outside: Node aborts the
 * whole process when that happens. A stop waits until it has started, or until the time for it is over.
 */

import type { MessagePort } from 'node:worker_threads'
import { planHealthCheck } from './health-check.ts'
import { healthOf, hostOf, newHost, type ThreadSpec, type WorkerSpec } from './host.ts'
import { inTime } from './in-time.ts'
import { begin, drop, hand, openWorker, startFirst } from './start-threads.ts'
import { stopAll, stopHost } from './stop-threads.ts'
import { begunAs, type Supervised, type SupervisorOptions } from './supervised.ts'
import type { Home, ThreadHealth } from './thread.ts'
import { keptMetrics, metricsOf } from './thread-metrics.ts'

export type Supervisor = {
  /** Has workers load their modules while something else is waited for; `start` finds them. */
  preload(workers: readonly WorkerSpec[]): void
  /**
   * Starts every thread and resolves when all are ready, or when it was stopped meanwhile. Those on call are
   * started when a thread asks for it.
   */
  start(threads: readonly ThreadSpec[], onCall?: readonly ThreadSpec[]): Promise<void>
  /** Drains and stops every thread; true when all of them ended by themselves in time. */
  stop(): Promise<boolean>
  health(): Record<string, ThreadHealth>
  metrics(): Promise<object[][]>
  /** Ends a thread's worker as a crash would. For the tests of what follows. */
  kill(name: string): Promise<void>
}

export function makeSupervisor(options: SupervisorOptions): Supervisor {
  const state: Supervised = {
    options,
    hosts: [],
    spares: new Map(),
    ahead: [],
    onCall: [],
    home: homeOf(() => state),
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

/** What threads may ask of the supervisor. */
function homeOf(current: () => Supervised): Home {
  return {
    threads: () => healthOf(current().hosts),
    metrics: () => keptMetrics(current()),
    made: async (name) => (await current().options.made?.[name]?.()) ?? {},
    begin: (name) => begin(current(), name),
    ended: async (name) => (await begunAs(current(), name)?.over?.promise) ?? 'it does not run',
    async drain(name) {
      const host = begunAs(current(), name)
      if (host === undefined) return
      await host.starting.catch(() => {})
      host.phase = 'stopped'
      const drained = (host.running?.control.drain() as Promise<void> | undefined)?.catch(() => {})
      // One that dies meanwhile answers nothing any more, and is drained too.
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
