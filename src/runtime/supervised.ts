/** The supervisor's state, shared by its parts. */

import type { Clock } from './clock.ts'
import type { Host, RunningWorker, ThreadSpec, WorkerSpec } from './host.ts'
import type { SupervisorApi } from './thread.ts'

export type SupervisorOptions = {
  readonly clock: Clock
  readonly log: SupervisorLog
  readonly startTimeoutMs: number
  readonly stopTimeoutMs: number
  readonly healthIntervalMs: number
  /**
   * Returns the pause before a necessary thread is restarted, from the number of its restarts within `restartWindowMs`.
   */
  readonly restartPauseMs: (restarts: number) => number
  /**
   * Returns the pause before an optional thread is restarted, from the number of its deaths since it last ran for
   * `restartWindowMs` without dying. If undefined, `restartPauseMs` is used.
   */
  readonly optionalPauseMs?: (deaths: number) => number
  /**
   * For necessary threads: number of restarts within `restartWindowMs` after which the supervisor gives up. For
   * optional threads that share a worker: number of deaths of the worker after which each thread gets its own worker.
   */
  readonly restartsMax: number
  readonly restartWindowMs: number
  /**
   * Time for which collected metrics are reused for later requests of threads. If undefined, every request collects the
   * metrics again.
   */
  readonly metricsKeepMs?: number
  /** The main thread's own metrics, collected with those of the threads. */
  readonly ownMetrics?: () => Promise<object[]>
  /** Objects that threads may request from the main thread, by name. */
  readonly made?: Readonly<Record<string, () => Promise<object>>>
  /** Called if a necessary thread cannot be kept alive. The exchange must then stop. */
  readonly onGivingUp: (thread: string, why: string) => void
}

export type SupervisorLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export type Supervised = {
  readonly options: SupervisorOptions
  /** In start order. */
  hosts: Host[]
  /**
   * `spares`: workers, by name, that have loaded their modules and run no threads yet. `ahead`: workers to load in
   * advance.
   */
  readonly spares: Map<string, RunningWorker>
  ahead: readonly WorkerSpec[]
  onCall: readonly ThreadSpec[]
  /** Requests that threads can send to the supervisor. */
  readonly api: SupervisorApi
  stopping: boolean
  stopHealth: () => void
  /** Settles when the start of all threads has ended. */
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
