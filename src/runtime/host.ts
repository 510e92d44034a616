/** A worker with its threads, as the supervisor keeps it. */

import type { Worker } from 'node:worker_threads'
import type { Remote } from 'comlink'
import type { Heartbeat } from './heartbeat.ts'
import { STANDBY, type ThreadHealth, type WorkerControl } from './thread.ts'

export type WorkerSpec = {
  readonly name: string
  readonly entry: URL
  /** How much memory new objects may take before they are collected; the usual if undefined. */
  readonly youngMb?: number
}

export type ThreadSpec = WorkerSpec & {
  /** Which of the kinds that its entry offers. */
  readonly kind: string
  /** The worker that it shares with the others of this host; one of its own if undefined. */
  readonly host?: string
  /** Plain data for the thread: its settings and its name. */
  readonly data: object
  /** The names of the threads it shares a channel with. */
  readonly links: readonly string[]
  /**
   * Whether a thread that no longer answers may be ended by force. A thread with an open
   * uWebSockets.js app may not: that would abort the whole process. It has to end by itself.
   */
  readonly terminable: boolean
  /** Whether the exchange goes on without it. Threads of one host are all optional or none is. */
  readonly optional?: boolean
}

type Phase = 'stopped' | 'starting' | 'ready' | 'restarting' | 'failed'

export type RunningWorker = {
  readonly worker: Worker
  readonly control: Remote<WorkerControl>
  /** Resolves with the exit code. */
  readonly exited: Promise<number>
  readonly heartbeat: Heartbeat
  /** How often it had beaten at the last health check. */
  beats: number
  /** The CPU time of its thread at its last known progress. */
  cpuMsAtBeat: number
  /** What it said before it died. */
  crash: string
  /** The call for metrics that is under way. */
  metrics: Promise<object[][] | undefined> | undefined
}

/** One worker with its threads. */
export type Host = {
  readonly name: string
  readonly threads: readonly ThreadSpec[]
  readonly whys: Map<string, string>
  phase: Phase
  running: RunningWorker | undefined
  /** The start under way, or the last one. */
  starting: Promise<void>
  cancelRestart: () => void
  restartsAtMs: number[]
  missedHealth: number
  /** How often it died or did not start: in all, and since it was well for a while. */
  deaths: number
  deathsInRow: number
  readyAtMs: number
  /** It is stuck, and being ended. */
  isEnding: boolean
  /** Of a thread that was begun on call: resolves with the reason when it is no more. */
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

/** By the names of their threads. */
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
