/**
 * The one harness of all benchmarks. It warms both sides up, runs rounds that alternate ours and the
 * peer's so that a noisy machine disturbs both alike, takes medians, and prints one JSON object as
 * its last line. Speed is always a ratio to a peer or a limit measured in the same run; below the
 * bar the process exits with 1. Where the host of a virtual machine kept processors back meanwhile,
 * a line before says how much: such a run says little about rates, and less about ratios than it might.
 */

import { ProcFile } from './proc-file.ts'

export type Bench = {
  readonly bench: string
  readonly unit: string
  /** What ours is compared with, in words. */
  readonly peer: string
  /** The least ratio of ours to the peer's that is acceptable. */
  readonly bar: number
  readonly rounds?: number
  readonly warmups?: number
  /** One measurement each; what they return is a rate, in `unit`. */
  readonly ours: (round: Round) => Promise<number> | number
  readonly theirs: (round: Round) => Promise<number> | number
}

export type Round = { readonly index: number; readonly warmup: boolean; readonly quick: boolean }

export type BenchResult = {
  readonly bench: string
  readonly figure: number
  readonly unit: string
  readonly peer: string
  readonly peerFigure: number
  readonly ratio: number
  readonly bar: number
}

/** Whether the run was asked to stay under 30 seconds. */
export const quick = process.argv.includes('--quick')

export async function runBench(bench: Bench): Promise<BenchResult> {
  const rounds = bench.rounds ?? (quick ? 3 : 7)
  const warmups = bench.warmups ?? 1
  const ours: number[] = []
  const theirs: number[] = []
  for (let index = -warmups; index < rounds; index++) {
    const round = { index, warmup: index < 0, quick }
    progress(`${bench.bench}: ${round.warmup ? 'warm-up' : `round ${index + 1} of ${rounds}`}`)
    // The side that goes first changes every round, so neither always meets a warmer machine.
    const oursFirst = index % 2 === 0
    const first = await (oursFirst ? bench.ours(round) : bench.theirs(round))
    const second = await (oursFirst ? bench.theirs(round) : bench.ours(round))
    if (round.warmup) continue
    ours.push(oursFirst ? first : second)
    theirs.push(oursFirst ? second : first)
  }
  progress('')
  const figure = median(ours)
  const peerFigure = median(theirs)
  return {
    bench: bench.bench,
    figure: round3(figure),
    unit: bench.unit,
    peer: bench.peer,
    peerFigure: round3(peerFigure),
    ratio: round3(figure / peerFigure),
    bar: bench.bar,
  }
}

/** Prints the result as the last line and sets the exit code. */
export function report(result: BenchResult): void {
  const stolen = stolenShare(begun, processorTimes())
  if (stolen >= STOLEN_TOLD) {
    const percent = (stolen * 100).toFixed(0)
    process.stdout.write(`the host kept back ${percent} % of the processor time that was wanted\n`)
  }
  process.stdout.write(`${JSON.stringify(result)}\n`)
  if (!(result.ratio >= result.bar)) process.exitCode = 1
}

type ProcessorTimes = { readonly had: number; readonly stolen: number }

/** Less than this of the time is the host's usual business. */
const STOLEN_TOLD = 0.03
const stat = new ProcFile('/proc/stat')
const begun = processorTimes()

/** What all processors of this machine did, and what it wanted of them and did not get; only Linux says. */
export function processorTimes(): ProcessorTimes {
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, stolen = 0] = stat
    .words()
    .slice(1)
    .map(Number)
  return { had: user + nice + system + irq + softirq, stolen }
}

function stolenShare(before: ProcessorTimes, after: ProcessorTimes): number {
  const stolen = after.stolen - before.stolen
  const wanted = after.had - before.had + stolen
  return wanted === 0 ? 0 : stolen / wanted
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2
}

/** One line that overwrites itself; nothing where there is no terminal. */
export function progress(line: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[2K${line}`)
}

function round3(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Math.round(value * 1000) / 1000
}
