/**
 * Lists the test files and their needs, which follow from their imports: a file that imports `exchange.ts`,
 * directly or indirectly, needs an exchange. There is no list to maintain.
 */

import { relative, resolve } from 'node:path'
import { ROOT, reachedFrom, sourceFiles, textOf } from './imports.ts'

/** Needs of a file besides its own process, the most expensive first. */
export const NEEDS = [
  'browser',
  'exchange',
  'simulation',
  'chain',
  'process',
  'threads',
  'large data',
  'nothing',
] as const
export type Need = (typeof NEEDS)[number]

/** Source files and libraries by need. A test that imports one of them, even indirectly, has this need. */
const SIGNS: Record<Exclude<Need, 'nothing'>, readonly string[]> = {
  // A browser test also needs an exchange, because the browser shows the exchange's page.
  browser: ['playwright-core'],
  exchange: ['test/support/exchange.ts'],
  // A simulation computes for a minute in one process, so it starts early.
  simulation: ['test/simulate/simulation.ts'],
  chain: ['hardhat', 'src/devnet/chain-process.ts', 'contracts/compile.ts'],
  process: ['node:child_process'],
  // The exchange's threads without its process.
  threads: ['src/runtime/supervisor.ts'],
  'large data': ['test/store/reads/large-seed.ts'],
}

export function needOf(file: string): Need {
  const reached = [...reachedFrom(file)]
  const needs = (need: Exclude<Need, 'nothing'>): boolean =>
    SIGNS[need].some((sign) => reached.some((each) => each === sign || each.startsWith(`${sign}/`)))
  return (Object.keys(SIGNS) as (keyof typeof SIGNS)[]).find(needs) ?? 'nothing'
}

/**
 * Returns the requested test files, or all of them; with `fast`, only those without needs. Files with the
 * most expensive need come first, because a long file that starts last would leave the other cores idle.
 */
export function selectTests(asked: readonly string[], { fast = false } = {}): string[] {
  const wanted = asked.map((path) => relative(ROOT, resolve(path)))
  const isWanted = (file: string): boolean =>
    wanted.length === 0 || wanted.some((path) => file === path || file.startsWith(`${path}/`))
  const found = sourceFiles()
    .filter((file) => file.endsWith('.test.ts') && isWanted(file))
    .map((file) => ({ file, need: needOf(file) }))
    .filter(({ need }) => !fast || need === 'nothing')
    .sort((a, b) => NEEDS.indexOf(a.need) - NEEDS.indexOf(b.need))
  if (found.length === 0) throw new Error(`no test files in ${wanted.join(', ')}`)
  return found.map(({ file }) => file)
}

/**
 * Matches code that changes global state, which would affect other test files in the same process. Code that only reads
 * process settings does not match, and neither does the path of a file such as `chain-process`.
 */
const PROCESS_WIDE =
  /\bprocess\.(?=\w)(?!ts\b|execPath\b|execArgv\b|platform\b|versions\b|env\b(?!\.\w+ \??\??=[^=]|\[))|\bdelete process\b|\bmock\b|\bglobalThis\b/

/**
 * Maximum number of files that share a process, by their needs: few enough that no core is idle at the end of a run.
 */
const SHARING_MAX: Record<Need, number> = {
  browser: 1,
  exchange: 3,
  simulation: 1,
  chain: 4,
  process: 3,
  threads: 2,
  'large data': 3,
  nothing: 12,
}

/** Returns whether a file may run in one process with others. */
export function sharesProcess(file: string): boolean {
  return SHARING_MAX[needOf(file)] > 1 && !PROCESS_WIDE.test(textOf(file))
}

/**
 * Returns the files of each process, in the order of their start. Only files with the same need share a process. For
 * each need, the sharing files are spread over at least `atATime` processes. If there are too few files for two per
 * process, fewer processes are used.
 */
export function shareProcesses(files: readonly string[], atATime: number): string[][] {
  return NEEDS.flatMap((need) => {
    const needing = files.filter((file) => needOf(file) === need)
    const sharing = needing.filter(sharesProcess)
    const alone = needing.filter((file) => !sharing.includes(file)).map((file) => [file])
    const few = Math.min(atATime, Math.ceil(sharing.length / 2))
    const count = Math.max(few, Math.ceil(sharing.length / SHARING_MAX[need]))
    // Distributes neighbouring files over different processes. Neighbours are similar, so several of them may be long,
    // and long files must not share a process.
    const dealt = Array.from({ length: count }, (_, first) =>
      sharing.filter((_file, index) => index % count === first),
    )
    return [...alone, ...dealt]
  })
}
