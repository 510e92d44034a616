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
 * Maximum number of files that run at the same time. It exceeds the number of cores, because a file with an
 * exchange uses less than half a core: it waits for blocks, timers, the disk or another process.
 */
const CONCURRENCY = availableParallelism() + 4
const SLOWEST_SHOWN = 10
/**
 * Timeout for a file, or for several files in one process. Even on a busy machine they need only a tenth of this time.
 */
const TIMEOUT_MS = 20 * 60_000
/**
 * V8 starts with enough memory for new objects. Otherwise it would enlarge the memory step by step, and most files end
 * before it is large enough.
 *
 * V8 optimises code later than usual, and never optimises WebAssembly, which `fetch` uses. Most processes are too short
 * to benefit from optimisation.
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
/** Matches the seeds in the output of tests: in their names, diagnostics and errors. */
const SEED = /(?:TEST_)?seed[ =]+\d+/gi

export type Failure = {
  readonly file: string
  /** Name of the test, after the names of the tests that contain it. */
  readonly name: string
  /** Seeds that the file printed, for running it again with the same ones. */
  readonly seeds: readonly string[]
}

export type TestRun = { readonly passed: boolean; readonly failures: readonly Failure[] }

type Timed = { readonly what: string; readonly ms: number }

/** Runs test files; resolves when all have ended and the report is written. */
export async function runTests(files: readonly string[], { fast = false } = {}): Promise<TestRun> {
  // Skips the tests on a database server. The tests on SQLite in the same files still run.
  if (fast) process.env.SIBYL_TEST_SERVER = 'false'
  // Child processes inherit `TMPDIR` from this process.
  const folder = makeTestsFolder()
  process.env.TMPDIR = folder
  makeSnapshot(folder, NAME, PROCESS_FLAGS)
  if (!fast) makeExchangesSnapshot(folder)
  const { entries, together } = entriesFor(files, folder)
  /** Files that share a process and have not ended. */
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

  // Results since the last file ended. A result names the file with the test's code, which may be in `test/support`, so
  // the test file's name is known only when the file ends. In a shared process, each file is an outermost suite.
  let failed: string[] = []
  let timed: { name: string; ms: number }[] = []
  let seeds = new Set<string>()
  /** Names of the running tests, by nesting level. `innerMs`: total time of the ended tests at each level. */
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
  /** Handles the end of a file that shares a process. */
  function sharedEnded({ name, details }: Ended): void {
    sharing.delete(name)
    timedFiles.push({ what: name, ms: details.duration_ms })
    fileEnded(join(ROOT, name))
    names.length = 0
  }
  /**
   * Records the failed tests of a process that has failed. They are recorded under the file that was running. In a
   * process with several files, none may have been running. Then the record names all of these files.
   */
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
    // A file that cannot be loaded, or exits before its tests end, is reported as a failed test with the file's name.
    if (test.name === test.file) processFailed(test.file)
    else if (isShared(test.name, test.nesting)) sharedEnded(test)
  })
  events.on('test:complete', ({ file, name, details }) => {
    if (name === file && !file.startsWith(folder)) {
      timedFiles.push({ what: relative(ROOT, file), ms: details.duration_ms })
    }
  })
  events.on('test:summary', ({ file, success }) => {
    // The summary without a file is that of the whole run.
    if (file === undefined) passed = success
    else fileEnded(file)
  })

  try {
    for await (const text of events.compose(new spec())) process.stdout.write(text)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
  // The process of these files ended before their tests, so the files have failed.
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
  /**
   * Test files of each process that runs several files. The key is the path of the program that the process starts with
   * (its entry).
   */
  readonly together: ReadonlyMap<string, readonly string[]>
}

/**
 * Returns the programs to start (entries), one for each process. A single test file is its own entry. For several
 * files, the entry is a generated program that runs them.
 */
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
