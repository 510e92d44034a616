/** The supervisor's record of a worker with its threads. */

import type { Worker } from 'node:worker_threads'
import type { Remote } from 'comlink'
import type { Heartbeat } from './heartbeat.ts'
import { STANDBY, type ThreadHealth, type WorkerControl } from './thread.ts'

export type WorkerSpec = {
  readonly name: string
  readonly entry: URL
  /** Maximum size in MB of V8’s young generation (the heap for new objects); V8's default if undefined. */
  readonly youngMb?: number
}

export type ThreadSpec = WorkerSpec & {
  /** Kind of the thread; one of the kinds that the worker's entry offers. */
  readonly kind: string
  /** Name of the worker that the thread shares with others. If undefined, the thread has its own worker. */
  readonly host?: string
  /** Plain data for the thread, such as its settings and its name. */
  readonly data: object
  /** Names of the threads that have a channel to this thread. */
  readonly links: readonly string[]
  /**
   * True if this thread may be terminated when it no longer answers. Terminating a thread with an open uWebSockets.js
   * app would abort the whole process, so such a thread has to end on its own.
   */
  readonly terminable: boolean
  /**
   * True if the exchange continues to run without this thread. The threads of a host are either all optional or all
   * necessary.
   */
  readonly optional?: boolean
}

type Phase = 'stopped' | 'starting' | 'ready' | 'restarting' | 'failed'

export type RunningWorker = {
  readonly worker: Worker
  readonly control: Remote<WorkerControl>
  /** Resolves with the exit code. */
  readonly exited: Promise<number>
  readonly heartbeat: Heartbeat
  /** Value of the heartbeat at the last health check. */
  beats: number
  /**
   * CPU time of the worker's thread in milliseconds, at the last health check that found an answer or a new heartbeat.
   */
  cpuMsAtBeat: number
  /** The worker's last error before it died. */
  crash: string
  /** Pending request for the worker's metrics; undefined if there is none. */
  metrics: Promise<object[][] | undefined> | undefined
}

/** One worker with its threads. */
export type Host = {
  readonly name: string
  readonly threads: readonly ThreadSpec[]
  readonly whys: Map<string, string>
  phase: Phase
  running: RunningWorker | undefined
  /** Resolves when the current or last start has ended. */
  starting: Promise<void>
  cancelRestart: () => void
  restartsAtMs: number[]
  missedHealth: number
  /**
   * Number of deaths and failed starts of the worker: in total (`deaths`), and since the worker last ran for
   * `restartWindowMs` (`deathsInRow`).
   */
  deaths: number
  deathsInRow: number
  readyAtMs: number
  /** True while the worker is stuck and being ended. */
  isEnding: boolean
  /** Set for a thread on call, which another thread has started. Resolves with the reason when the thread has ended. */
  readonly over: PromiseWithResolvers<string> | undefined
}

export function hostOf(thread: ThreadSpec): string {
  return thread.host ?? thread.name
}

export function isOptional({ threads }: Host): boolean {
  return threads.length > 0 && threads.every(({ optional }) => optional === true)
}

export function newHost(name: string, threads: readonly ThreadSpec[], onCall = false): Host {
  return {
    name,
    threads,
    whys: new Map(threads.map((thread) => [thread.name, 'not started'])),
    phase: 'stopped',
    running: undefined,
    starting: Promise.resolve(),
    cancelRestart: () => {},
    restartsAtMs: [],
    missedHealth: 0,
    deaths: 0,
    deathsInRow: 0,
    readyAtMs: Number.POSITIVE_INFINITY,
    isEnding: false,
    over: onCall ? Promise.withResolvers<string>() : undefined,
  }
}

/** Returns the health by thread name. */
export function healthOf(hosts: readonly Host[]): Record<string, ThreadHealth> {
  const all: Record<string, ThreadHealth> = {}
  for (const host of hosts) {
    const { phase, whys, deaths } = host
    const optional = isOptional(host)
    for (const [name, why] of whys) {
      const isWell = why === '' || why.startsWith(STANDBY)
      all[name] = { ready: phase === 'ready' && isWell, why: why || phase, optional, deaths }
    }
  }
  return all
}
