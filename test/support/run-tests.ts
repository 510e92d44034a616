/**
 * Runs test files, each in a process of its own, a few at a time and in the order in which they
 * are given (`node --test` has an order of its own), and tells what failed and what took long.
 */

import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { ROOT } from './imports.ts'

/** One more than the cores: there is always one that waits for a disk, a block or a clock. */
const CONCURRENCY = availableParallelism() + 1
const SLOWEST_SHOWN = 10
const UNTRACKED = new URL('./untracked.ts', import.meta.url).href
/** As tests print it: in their names, their diagnostics and what they throw. */
const SEED = /(?:TEST_)?seed[ =]+\d+/gi

export type Failure = {
  readonly file: string
  /** The test and before it those that it is part of. */
  readonly name: string
  /** What its file printed to be run again with. */
  readonly seeds: readonly string[]
}

export type TestRun = { readonly passed: boolean; readonly failures: readonly Failure[] }

type Timed = { readonly what: string; readonly ms: number }

/** Resolves when everything has ended and the report is written. */
export async function runTests(files: readonly string[], { fast = false } = {}): Promise<TestRun> {
  // Tests on a database server are part of files that have the same on SQLite.
  if (fast) process.env.SIBYL_TEST_SERVER = 'false'
  // The flags of this process, a loader for instance, go to the children by themselves.
  const events = run({
    files: files.map((file) => join(ROOT, file)),
    concurrency: CONCURRENCY,
    execArgv: ['--import', UNTRACKED],
  })
  const failures: Failure[] = []
  const timedFiles: Timed[] = []
  const timedTests: Timed[] = []
  let passed = false

  // Reports come file after file, but name the file that a test is written in, which may be one of
  // `test/support`; whose they were is known at the end of a file.
  let failed: string[] = []
  let timed: { name: string; ms: number }[] = []
  let seeds = new Set<string>()
  /** The tests under way and the time that the subtests of each took, by nesting. */
  const names: string[] = []
  const innerMs: number[] = []

  function hear(text: string): void {
    for (const [seed] of text.matchAll(SEED)) seeds.add(seed)
  }
  function ended({ name, nesting, details: { duration_ms: ms } }: Ended): string {
    const path = [...names.slice(0, nesting), name].join(' > ')
    timed.push({ name: path, ms: ms - (innerMs[nesting + 1] ?? 0) })
    innerMs[nesting + 1] = 0
    innerMs[nesting] = (innerMs[nesting] ?? 0) + ms
    return path
  }
  function fileEnded(path: string): void {
    const file = relative(ROOT, path)
    for (const name of failed) failures.push({ file, name, seeds: [...seeds] })
    for (const { name, ms } of timed) timedTests.push({ what: `${file}: ${name}`, ms })
    failed = []
    timed = []
    seeds = new Set()
    innerMs.length = 0
  }

  events.on('test:start', ({ name, nesting }) => {
    names[nesting] = name
  })
  events.on('test:diagnostic', ({ message }) => hear(message))
  events.on('test:stdout', ({ message }) => hear(message))
  events.on('test:stderr', ({ message }) => hear(message))
  events.on('test:pass', ended)
  events.on('test:fail', (test) => {
    const path = ended(test)
    const { error } = test.details
    hear(`${path} ${error.message} ${(error.cause as Partial<Error> | undefined)?.message}`)
    const own = (error as { failureType?: string }).failureType !== 'subtestsFailed'
    const expected = test.todo !== undefined && test.todo !== false
    if (own && !expected) failed.push(path)
    // A file that could not be loaded, or ended before its tests, is itself the test that failed.
    if (test.name === test.file) fileEnded(test.file)
  })
  events.on('test:complete', ({ file, name, details }) => {
    if (name === file) timedFiles.push({ what: relative(ROOT, file), ms: details.duration_ms })
  })
  events.on('test:summary', ({ file, success }) => {
    // The one without a file is that of them all.
    if (file === undefined) passed = success
    else fileEnded(file)
  })

  for await (const text of events.compose(new spec())) process.stdout.write(text)
  showSlowest('files', timedFiles)
  showSlowest('tests, without their subtests', timedTests)
  return { passed, failures }
}

type Ended = {
  readonly name: string
  readonly nesting: number
  readonly details: { readonly duration_ms: number }
}

function showSlowest(of: string, timed: readonly Timed[]): void {
  const slowest = timed.toSorted((a, b) => b.ms - a.ms).slice(0, SLOWEST_SHOWN)
  const lines = slowest.map(({ what, ms }) => `${(ms / 1_000).toFixed(1).padStart(7)} s  ${what}\n`)
  process.stdout.write(`\nthe slowest ${of}\n${lines.join('')}`)
}
