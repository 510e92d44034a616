/**
 * `npm run load -- compare before.json after.json`: compares two runs. A side may be several reports of repeated runs,
 * joined by commas. Their medians are compared, so that noise of the machine matters less. Prints a warning if the two
 * sides did different work.
 */

import { readFileSync } from 'node:fs'
import { median } from './bench.ts'
import { Histogram } from './histogram.ts'
import { UsageError } from './options.ts'
import type { LoadReport } from './report.ts'

export type Row = {
  readonly name: string
  readonly before: number
  readonly after: number
  /** Relative change from before to after: 0.1 means 10 % more. */
  readonly change: number
}

export type Comparison = { readonly rows: readonly Row[]; readonly warnings: readonly string[] }

export function readReport(path: string): LoadReport {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const why = (error as NodeJS.ErrnoException).code ?? String(error)
    throw new UsageError(`${path} cannot be read: ${why}`)
  }
  let report: Partial<LoadReport>
  try {
    report = JSON.parse(text) as Partial<LoadReport>
  } catch {
    throw new UsageError(`${path} is not JSON`)
  }
  if (report?.format !== 1 || !Array.isArray(report.kinds)) {
    throw new UsageError(`${path} is no report of a load test`)
  }
  return report as LoadReport
}

export function compareReports(
  before: readonly LoadReport[],
  after: readonly LoadReport[],
): Comparison {
  const rows: Row[] = []
  const add = (name: string, value: (report: LoadReport) => number): void => {
    const [was, is] = [median(before.map(value)), median(after.map(value))]
    if (!Number.isFinite(was) || !Number.isFinite(is) || (was === 0 && is === 0)) return
    rows.push({ name, before: was, after: is, change: was === 0 ? Number.NaN : is / was - 1 })
  }
  add('answered in time, per second', ({ rate }) => rate.answered)
  add('server CPU, ms per write', ({ server }) => server.cpuMsPerWrite)
  add('server CPU, ms per answer', ({ server, kinds }) => {
    const answers = kinds.reduce((sum, { answered }) => sum + answered, 0)
    return (server.cpuSeconds * 1_000) / answers
  })
  const kinds = [...new Set([...before, ...after].flatMap((each) => each.kinds.map((k) => k.kind)))]
  for (const kind of kinds) {
    for (const [name, q] of [
      ['p50', 0.5],
      ['p99', 0.99],
    ] as const) {
      add(`${kind} ${name}, ms`, (report) => {
        const found = report.kinds.find((each) => each.kind === kind)
        return found === undefined ? Number.NaN : Histogram.from(found.latency).quantileMs(q)
      })
    }
  }
  add('errors', (report) =>
    report.kinds.reduce((sum, { answered, fine }) => sum + answered - fine, 0),
  )
  add('stream lag p99, ms', ({ stream }) => Histogram.from(stream.lag).quantileMs(0.99))
  const stages = new Set(
    [...before, ...after].flatMap((each) => each.server.stages.map((s) => s.stage)),
  )
  for (const stage of stages) {
    add(`stage ${stage}, mean ms`, ({ server }) => {
      return server.stages.find((each) => each.stage === stage)?.meanMs ?? Number.NaN
    })
  }
  return { rows, warnings: warningsOf(before, after) }
}

/** Returns warnings about runs whose figures cannot be compared. */
function warningsOf(before: readonly LoadReport[], after: readonly LoadReport[]): string[] {
  const warnings: string[] = []
  const all = [...before, ...after]
  const names = [
    'profile',
    'rate',
    'seconds',
    'markets',
    'traders',
    'sockets',
    'connections',
  ] as const
  for (const name of names) {
    const values = new Set(all.map(({ options }) => options[name]))
    if (values.size > 1) warnings.push(`the runs differ in ${name}: ${[...values].join(', ')}`)
  }
  const used = new Set(all.map(({ marketsUsed }) => marketsUsed))
  if (used.size > 1) warnings.push(`the exchanges had ${[...used].join(' and ')} markets`)
  const machines = new Set(all.map(({ machine }) => machine))
  if (machines.size > 1) warnings.push(`the machines differ: ${[...machines].join('; ')}`)
  const failed = all.filter(({ passed }) => !passed).length
  if (failed > 0) warnings.push(`${failed} of ${all.length} runs failed`)
  const late = all.filter(({ tester }) => tester.saturated).length
  if (late > 0) warnings.push(`in ${late} of ${all.length} runs the tester itself was too slow`)
  const unheld = all.filter(({ rate }) => !rate.held).length
  if (unheld > 0) warnings.push(`in ${unheld} of ${all.length} runs the rate could not be held`)
  return warnings
}

export function comparisonText({ rows, warnings }: Comparison): string {
  const width = Math.max(...rows.map(({ name }) => name.length), 8)
  const lines = rows.map(({ name, before, after, change }) => {
    const percent = Number.isFinite(change)
      ? `${change >= 0 ? '+' : ''}${(change * 100).toFixed(1)} %`
      : ''
    const cells = [figure(before), figure(after), percent].map((cell) => cell.padStart(12))
    return name.padEnd(width) + cells.join('')
  })
  const head =
    ' '.repeat(width) + ['before', 'after', 'change'].map((cell) => cell.padStart(12)).join('')
  return [head, ...lines, ...warnings.map((warning) => `note: ${warning}`)].join('\n')
}

function figure(value: number): string {
  return Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(3)
}

if (process.argv[1] === import.meta.filename) {
  const sides = process.argv.slice(2).filter((arg) => !arg.startsWith('--'))
  try {
    if (sides.length !== 2) {
      throw new UsageError(
        'give two reports to compare: npm run load -- compare before.json after.json',
      )
    }
    const [before, after] = sides.map((side) => side.split(',').map(readReport))
    process.stdout.write(`${comparisonText(compareReports(before!, after!))}\n`)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    process.stderr.write(`load compare: ${error.message}\n`)
    process.exitCode = 2
  }
}
