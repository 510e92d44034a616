/** The supervisor's record of a worker with its threads. */

import type { Worker } from 'node:worker_threads'
import type { Remote } from 'comlink'
import type { Heartbeat } from './heartbeat.ts'
import { STANDBY, type ThreadHealth, type WorkerControl } from './thread.ts'

export type WorkerSpec = {
  readonly name: string
  readonly entry: URL
  /** Memory for new objects before they are collected, in MB; V8's default if undefined. */
  readonly youngMb?: number
}

export type ThreadSpec = WorkerSpec & {
  /** Kind of the thread; one of those that the worker's entry offers. */
  readonly kind: string
  /** Name of the worker that the thread shares with others; if undefined, it has its own worker. */
  readonly host?: string
  /** Plain data for the thread: its settings and its name. */
  readonly data: object
  /** Names of the threads with which it shares a channel. */
  readonly links: readonly string[]
  /**
   * True if a thread that no longer answers may be terminated. With an open uWebSockets.js app that would abort the
   * whole process, so such a thread has to end on its own.
   */
  readonly terminable: boolean
  /**
   * True if the exchange runs on without the thread. The threads of a host are either all optional or all necessary.
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
  /** CPU time of its thread when it last made progress. */
  cpuMsAtBeat: number
  /** The worker's last error before it died. */
  crash: string
  /** Request for the worker's metrics that is in progress. */
  metrics: Promise<object[][] | undefined> | undefined
}

/** One worker with its threads. */
export type Host = {
  readonly name: string
  readonly threads: readonly ThreadSpec[]
  readonly whys: Map<string, string>
  phase: Phase
  running: RunningWorker | undefined
  /** The current or last start. */
  starting: Promise<void>
  cancelRestart: () => void
  restartsAtMs: number[]
  missedHealth: number
  /** Number of deaths and failed starts: in all, and since it last ran well for a while. */
  deaths: number
  deathsInRow: number
  readyAtMs: number
  /** True while the worker is stuck and being ended. */
  isEnding: boolean
  /** Resolves with the reason when a thread that was started on call has ended. */
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
