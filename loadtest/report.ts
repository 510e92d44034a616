/** The report of a run as plain data, for display, plots and comparison. */

import { execFileSync } from 'node:child_process'
import { cpus, totalmem } from 'node:os'
import type { HistogramJson } from './histogram.ts'
import type { LoadOptions } from './options.ts'
import type { StageSummary } from './server-metrics.ts'
import type { Check } from './truth.ts'
import type { Kind } from './workload.ts'

export type KindReport = {
  readonly kind: Kind
  readonly planned: number
  readonly answered: number
  /** Number of answers that are as expected. */
  readonly fine: number
  readonly errors: Readonly<Record<string, number>>
  readonly latency: HistogramJson
}

export type SecondReport = {
  /**
   * End of the interval, in seconds since the start of the run. On a busy machine the interval is longer than
   * a second.
   */
  readonly second: number
  /** Operations that were due, and operations that were answered, per second. */
  readonly due: number
  readonly answered: number
  readonly errors: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Number of operations that were due and not yet answered. */
  readonly waiting: number
  readonly sockets: number
  readonly messages: number
  readonly streamP99Ms: number
  /**
   * Mean number of cores that the exchange used between the last two samples of its metrics, which are at
   * least 2 s apart.
   */
  readonly serverCores: number
  readonly testerBusy: number
}

export type StageSample = { readonly second: number; readonly stages: readonly StageSummary[] }

export type LoadReport = {
  readonly format: 1
  readonly startedAt: string
  readonly machine: string
  readonly commit: string
  readonly options: Omit<LoadOptions, 'out'>
  /** Number of markets that the run used; fewer than requested if the exchange has fewer open ones. */
  readonly marketsUsed: number
  /** Reason why the run ended early; '' if it ran to its end. */
  readonly ended: string
  /** Description of the traders' funds. */
  readonly funds: string
  readonly secondsRun: number
  readonly rate: {
    readonly planned: number
    readonly answered: number
    /** True if the exchange kept up with the plan. */
    readonly held: boolean
  }
  readonly kinds: readonly KindReport[]
  readonly seconds: readonly SecondReport[]
  readonly stream: {
    readonly sockets: number
    readonly messages: number
    readonly lags: number
    readonly closed: number
    readonly lag: HistogramJson
  }
  readonly server: {
    readonly cpuSeconds: number
    readonly cpuMsPerWrite: number
    readonly residentBytesBefore: number
    readonly residentBytesAfter: number
    readonly stages: readonly StageSummary[]
    readonly samples: readonly StageSample[]
  }
  readonly tester: {
    /** How late the tester itself sent operations. */
    readonly lateness: HistogramJson
    readonly cpuSeconds: number
    readonly busyMax: number
    readonly signedPerSecond: number
    /** True if the tester itself was too slow for reliable figures. */
    readonly saturated: boolean
  }
  readonly truth: readonly Check[]
  readonly passed: boolean
}

export function machineText(): string {
  const [cpu] = cpus()
  const gib = Math.round(totalmem() / 2 ** 30)
  const model = cpu?.model.trim() || process.arch
  return `${cpus().length} × ${model} (${process.arch}), ${gib} GiB, Node ${process.versions.node}`
}

/** Returns the commit of the tester, with `-dirty` if files differ from it; '' without git. */
export function commitText(): string {
  const git = (...args: string[]): string =>
    execFileSync('git', args, {
      cwd: import.meta.dirname,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  try {
    const dirty = git('status', '--porcelain', '--untracked-files=no') !== ''
    return git('rev-parse', '--short', 'HEAD') + (dirty ? '-dirty' : '')
  } catch {
    return ''
  }
}
