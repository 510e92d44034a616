/**
 * The harness of all benchmarks. Each benchmark compares our code with a peer or a limit. After a warm-up, every round
 * measures both sides, so that a noisy machine affects both equally. The last line of the output is the result, one
 * JSON object with medians. It contains the ratio of our rate to the rate of the peer or limit. If the ratio is below
 * its minimum (`bar`), the process exits with 1. If the host of a virtual machine withheld processor time, a line
 * before the result shows how much. The rates of such a run mean little, and its ratios are less exact.
 */

import { ProcFile } from './proc-file.ts'

export type Bench = {
  readonly bench: string
  readonly unit: string
  /** Description of the peer that our side is compared with. */
  readonly peer: string
  /** Minimum acceptable ratio of our rate to the peer's. */
  readonly bar: number
  readonly rounds?: number
  readonly warmups?: number
  /** Measures our side once and returns a rate, in `unit`. */
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

/** True with `--quick`: each benchmark then has to finish within 30 seconds. */
export const quick = process.argv.includes('--quick')

export async function runBench(bench: Bench): Promise<BenchResult> {
  const rounds = bench.rounds ?? (quick ? 3 : 7)
  const warmups = bench.warmups ?? 1
  const ours: number[] = []
  const theirs: number[] = []
  for (let index = -warmups; index < rounds; index++) {
    const round = { index, warmup: index < 0, quick }
    progress(`${bench.bench}: ${round.warmup ? 'warm-up' : `round ${index + 1} of ${rounds}`}`)
    // The side that is measured first changes every round, so that neither side always runs on the warmer machine.
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

/** Share of processor time that the host must withhold before it is reported. Smaller shares are usual. */
const STOLEN_TOLD = 0.03
const stat = new ProcFile('/proc/stat')
const begun = processorTimes()

/**
 * Returns the time that all processors of this machine ran, and the time that the host withheld. Only Linux reports
 * these times.
 */
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

/** Prints a line that replaces the previous progress line. Prints nothing without a terminal. */
export function progress(line: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[2K${line}`)
}

function round3(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Math.round(value * 1000) / 1000
}
