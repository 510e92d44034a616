/** What a run leaves behind, as plain data: enough to look at, to plot and to compare. */

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
  /** Answers that are as they should be. */
  readonly fine: number
  readonly errors: Readonly<Record<string, number>>
  readonly latency: HistogramJson
}

export type SecondReport = {
  /** When it ended; ticks of a busy machine come late. */
  readonly second: number
  /** Per second: what was due, what was answered. */
  readonly due: number
  readonly answered: number
  readonly errors: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** What was due and not yet answered. */
  readonly waiting: number
  readonly sockets: number
  readonly messages: number
  readonly streamP99Ms: number
  /** CPU time of the exchange in this second, in cores. */
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
  /** How many markets there were, where they were fewer than asked for. */
  readonly marketsUsed: number
  /** '' when it ran to its end. */
  readonly ended: string
  /** What the traders were given to trade with, in words. */
  readonly funds: string
  readonly secondsRun: number
  readonly rate: {
    readonly planned: number
    readonly answered: number
    /** Whether the exchange kept up with what was asked of it. */
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
    /** How late things were sent by the tester's own fault. */
    readonly lateness: HistogramJson
    readonly cpuSeconds: number
    readonly busyMax: number
    readonly signedPerSecond: number
    /** Whether the tester itself was too slow to be believed. */
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

/** The commit of the tester, `-dirty` when files differ from it; '' where there is no git. */
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
