/** What the supervisor knows of its threads: the state that its parts share. */

import type { Clock } from './clock.ts'
import type { Host, RunningWorker, ThreadSpec, WorkerSpec } from './host.ts'
import type { Home } from './thread.ts'

export type SupervisorOptions = {
  readonly clock: Clock
  readonly log: SupervisorLog
  readonly startTimeoutMs: number
  readonly stopTimeoutMs: number
  readonly healthIntervalMs: number
  /** The pause before a necessary thread is started again, by its restarts within `restartWindowMs`. */
  readonly restartPauseMs: (restarts: number) => number
  /** … and an optional one, by its deaths since it was well for `restartWindowMs`; the same if undefined. */
  readonly optionalPauseMs?: (deaths: number) => number
  /**
   * Restarts of a necessary thread within `restartWindowMs` before the supervisor gives up; deaths of
   * optional ones that share a worker before each gets its own.
   */
  readonly restartsMax: number
  readonly restartWindowMs: number
  /** How long metrics are kept for the threads that ask for them; they are collected anew if undefined. */
  readonly metricsKeepMs?: number
  /** The main thread's own metrics, told with those of the threads. */
  readonly ownMetrics?: () => Promise<object[]>
  /** What threads may ask the main thread for, by name. */
  readonly made?: Readonly<Record<string, () => Promise<object>>>
  /** A thread cannot be kept alive: the exchange has to stop. */
  readonly onGivingUp: (thread: string, why: string) => void
}

export type SupervisorLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export type Supervised = {
  readonly options: SupervisorOptions
  /** In the order in which they are started. */
  hosts: Host[]
  /** Workers that were loaded ahead, by name, and which of them are to be. */
  readonly spares: Map<string, RunningWorker>
  ahead: readonly WorkerSpec[]
  onCall: readonly ThreadSpec[]
  /** What threads may ask of the supervisor. */
  readonly home: Home
  stopping: boolean
  stopHealth: () => void
  /** The start of all threads, under way or done. */
  starting: Promise<void>
  collected: { readonly atMs: number; readonly metrics: Promise<object[][]> } | undefined
}

export function begunAs(state: Supervised, name: string): Host | undefined {
  return state.hosts.find((host) => host.over !== undefined && host.name === name)
}

export function setWhy(host: Host, why: string): void {
  for (const { name } of host.threads) host.whys.set(name, why)
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
