/**
 * Runs test files, some processes at a time, in the given order (`node --test` has its own order), and reports failures
 * and slow files. A file has its own process, or shares one with others if all of them allow it.
 */

import { rmSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { ROOT } from './imports.ts'
import { makeSnapshot, snapshotFlags } from './node-snapshot.ts'
import { shareProcesses } from './select-tests.ts'
import { makeExchangesSnapshot } from './test-flags.ts'
import { makeTestsFolder } from './tests-folder.ts'

/**
 * More than the cores: a file with an exchange uses less than half of one, because it waits for a block, a clock, a disk
 * or another process.
 */
const CONCURRENCY = availableParallelism() + 4
const SLOWEST_SHOWN = 10
/** A file, or several in one process, that takes longer hangs: a busy machine needs a tenth of it. */
const TIMEOUT_MS = 20 * 60_000
/**
 * Room for new objects from the beginning: V8 gives it little by little, and a file has ended before it
 * has enough. Code is made faster later than usual, and that of `fetch`, which is WebAssembly, not at
 * all: in most processes it would not be worth its cost.
 */
const PROCESS_FLAGS = [
  '--min-semi-space-size=16',
  '--invocation-count-for-turbofan=6000',
  '--invocation-count-for-osr=2000',
  '--liftoff-only',
]
/** Flags of these processes. */
const NAME = 'tests'
const UNTRACKED = new URL('./untracked.ts', import.meta.url).href
const SEVERAL_FILES = new URL('./several-files.ts', import.meta.url).href
/** Output of tests: their names, diagnostics and errors. */
const SEED = /(?:TEST_)?seed[ =]+\d+/gi

export type Failure = {
  readonly file: string
  /** The test and before it those that it is part of. */
  readonly name: string
  /** Seed that the file printed, for running it again. */
  readonly seeds: readonly string[]
}

export type TestRun = { readonly passed: boolean; readonly failures: readonly Failure[] }

type Timed = { readonly what: string; readonly ms: number }

/** Resolves when everything has ended and the report is written. */
export async function runTests(files: readonly string[], { fast = false } = {}): Promise<TestRun> {
  // Tests on a database server are part of files that have the same on SQLite.
  if (fast) process.env.SIBYL_TEST_SERVER = 'false'
  // The flags of this process, a loader for instance, go to the children by themselves.
  const folder = makeTestsFolder()
  process.env.TMPDIR = folder
  makeSnapshot(folder, NAME, PROCESS_FLAGS)
  if (!fast) makeExchangesSnapshot(folder)
  const { entries, together } = entriesFor(files, folder)
  /** Those that share a process and have not ended. */
  const sharing = new Set([...together.values()].flat())
  const events = run({
    files: entries,
    concurrency: CONCURRENCY,
    timeout: TIMEOUT_MS,
    execArgv: ['--import', UNTRACKED, ...PROCESS_FLAGS, ...snapshotFlags(folder, NAME)],
  })
  const failures: Failure[] = []
  const timedFiles: Timed[] = []
  const timedTests: Timed[] = []
  let passed = false

  // Reports come process after process, but name the file that a test is written in, which may be one of
  // `test/support`; whose they were is known at the end of a file. Files that share a process are its
  // outermost suites.
  let failed: string[] = []
  let timed: { name: string; ms: number }[] = []
  let seeds = new Set<string>()
  /** The tests under way and the time that the subtests of each took, by nesting. */
  const names: string[] = []
  const innerMs: number[] = []

  function hear(text: string): void {
    for (const [seed] of text.matchAll(SEED)) seeds.add(seed)
  }
  const isShared = (name: string | undefined, nesting: number): boolean =>
    nesting === 0 && name !== undefined && sharing.has(name)
  function ended({ name, nesting, details: { duration_ms: ms } }: Ended): string {
    const outer = names.slice(isShared(names[0], 0) ? 1 : 0, nesting)
    const path = [...outer, name].join(' > ')
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
  /** One of those that share a process is done. */
  function sharedEnded({ name, details }: Ended): void {
    sharing.delete(name)
    timedFiles.push({ what: name, ms: details.duration_ms })
    fileEnded(join(ROOT, name))
    names.length = 0
  }
  /** If several files shared it, the one under way when it ended, or one of them. */
  function processFailed(entry: string): void {
    const shared = together.get(entry) ?? []
    const underWay = shared.find((file) => file === names[0])
    if (shared.length === 0 || underWay !== undefined) fileEnded(join(ROOT, underWay ?? entry))
    else fileEnded(join(ROOT, `one of ${shared.join(', ')}`))
  }
  events.on('test:pass', (test) => {
    if (isShared(test.name, test.nesting)) sharedEnded(test)
    else ended(test)
  })
  events.on('test:fail', (test) => {
    const path = ended(test)
    const { error } = test.details
    hear(`${path} ${error.message} ${(error.cause as Partial<Error> | undefined)?.message}`)
    const own = (error as { failureType?: string }).failureType !== 'subtestsFailed'
    const expected = test.todo !== undefined && test.todo !== false
    if (own && !expected) failed.push(path)
    // A file that could not be loaded, or ended before its tests, is itself the test that failed.
    if (test.name === test.file) processFailed(test.file)
    else if (isShared(test.name, test.nesting)) sharedEnded(test)
  })
  events.on('test:complete', ({ file, name, details }) => {
    if (name === file && !file.startsWith(folder)) {
      timedFiles.push({ what: relative(ROOT, file), ms: details.duration_ms })
    }
  })
  events.on('test:summary', ({ file, success }) => {
    // The one without a file is that of them all.
    if (file === undefined) passed = success
    else fileEnded(file)
  })

  try {
    for await (const text of events.compose(new spec())) process.stdout.write(text)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  // The process ended before its tests, whatever it printed.
  for (const file of sharing) {
    process.stdout.write(`\n${file} did not come to its end\n`)
    failures.push({ file, name: 'did not come to its end', seeds: [] })
  }
  if (sharing.size > 0) passed = false
  showSlowest('files', timedFiles)
  showSlowest('tests, without their subtests', timedTests)
  return { passed, failures }
}

type Entries = {
  /** Processes to start, in this order. */
  readonly entries: readonly string[]
  /** The files of each entry that is several. */
  readonly together: ReadonlyMap<string, readonly string[]>
}

/** A file that has a process of its own is its own entry. */
function entriesFor(files: readonly string[], folder: string): Entries {
  const together = new Map<string, readonly string[]>()
  const entries = shareProcesses(files, CONCURRENCY).map((own, at) => {
    if (own.length === 1) return join(ROOT, own[0] ?? '')
    const entry = join(folder, `several-files-${at + 1}.mjs`)
    const call = `await runFiles(${JSON.stringify(own)})`
    writeFileSync(entry, `import { runFiles } from '${SEVERAL_FILES}'\n${call}\n`)
    together.set(entry, own)
    return entry
  })
  return { entries, together }
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
