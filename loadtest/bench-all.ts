/**
 * `npm run bench -- all`: runs every benchmark, one after the other, and writes their figures as one table to
 * `loadtest/RESULTS.md`. `--quick` is passed to each benchmark. `--only front,orders` runs only these benchmarks, and
 * prints the table without writing it. Exits with 1 if a benchmark fails or its ratio is below the minimum.
 */

import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { type BenchResult, progress, quick } from './bench.ts'
import { BENCHES } from './commands.ts'
import { commitText, machineText } from './report.ts'
import { type BenchRun, resultsPage, resultsTable } from './results.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const RUN_MS_MAX = 30 * 60_000

function namesOf(): string[] {
  const all = Object.keys(BENCHES)
  const at = process.argv.indexOf('--only')
  if (at < 0) return all
  const wanted = (process.argv[at + 1] ?? '').split(',')
  const unknown = wanted.filter((name) => !all.includes(name))
  if (unknown.length > 0)
    throw new Error(`--only: there is no benchmark named ${unknown.join(', ')}`)
  return wanted
}

function resultIn(line: string): BenchResult | undefined {
  if (!line.startsWith('{')) return undefined
  try {
    const value = JSON.parse(line) as Partial<BenchResult>
    return typeof value.ratio === 'number' && typeof value.bench === 'string'
      ? (value as BenchResult)
      : undefined
  } catch {
    return undefined
  }
}

function run(command: string): Promise<BenchRun> {
  return new Promise((resolve) => {
    const file = BENCHES[command]?.file ?? ''
    const child = spawn(process.execPath, [file, ...(quick ? ['--quick'] : [])], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: RUN_MS_MAX,
    })
    let output = ''
    let complaints = ''
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk
    })
    child.stderr.on('data', (chunk: Buffer) => {
      complaints = (complaints + chunk).slice(-2_000)
    })
    child.once('error', (error) =>
      resolve({ command, results: [], notes: [], failure: error.message }),
    )
    child.once('close', (code) => {
      const lines = output.split('\n').filter((line) => line.trim() !== '')
      const results = lines.map(resultIn).filter((result) => result !== undefined)
      const notes = lines.filter((line) => resultIn(line) === undefined)
      const said = complaints.trim().split('\n')
      const why = said.find((line) => /^\w*(Error|error)\b/.test(line)) ?? said.at(-1) ?? ''
      const failure = results.length > 0 ? '' : `the benchmark ended with exit code ${code}: ${why}`
      resolve({ command, results, notes, failure })
    })
  })
}

const head = {
  machine: machineText(),
  // Reads the commit before the results are written. Otherwise the changed result file would add `-dirty` to the
  // commit.
  commit: commitText(),
  date: new Date().toISOString().slice(0, 10),
  quick,
  loadAverage: loadavg()[0] ?? 0,
}
const runs: BenchRun[] = []
const names = namesOf()
for (const [at, name] of names.entries()) {
  progress(`${name} (${at + 1} of ${names.length})`)
  const done = await run(name)
  progress('')
  runs.push(done)
  const ratios = done.results.map(({ ratio, bar }) => `${ratio} (bar ${bar})`)
  process.stdout.write(`${name}: ${done.failure || ratios.join(', ')}\n`)
  // The results are written after each benchmark, so that a run that is ended early keeps the results of its finished
  // benchmarks.
  if (!process.argv.includes('--only')) {
    writeFileSync(`${ROOT}/loadtest/RESULTS.md`, resultsPage(runs, head))
  }
}
process.stdout.write(`\n${resultsTable(runs, head)}\n`)
const isFine = ({ results, failure }: BenchRun): boolean =>
  failure === '' && results.every(({ ratio, bar }) => ratio >= bar)
if (!runs.every(isFine)) process.exitCode = 1
