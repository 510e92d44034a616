/**
 * Which test files there are and what they need, as their imports say it: a file that reaches the
 * program that starts an exchange needs one. There is no list to keep.
 */

import { relative, resolve } from 'node:path'
import { ROOT, reachedFrom, sourceFiles, textOf } from './imports.ts'

/** From the most to the least that a file needs besides its own process. */
export const NEEDS = [
  'browser',
  'exchange',
  'chain',
  'process',
  'threads',
  'large data',
  'nothing',
] as const
export type Need = (typeof NEEDS)[number]

/** What says that a test file needs it: a file of ours, or a library with all its parts. */
const SIGNS: Record<Exclude<Need, 'nothing'>, readonly string[]> = {
  // And an exchange, whose page it shows.
  browser: ['playwright-core'],
  exchange: ['test/support/exchange.ts'],
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
 * The test files that are asked for, files or folders, all when none are. Those that need the most
 * come first: a long one that started last would leave the other cores without work.
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

/** What a test file has of its whole process: others beside it would notice, or be noticed. */
const PROCESS_WIDE = /\bprocess\.(?!env\.TEST_SEED\b|platform\b)|\bmock\b|\bglobalThis\b/

/** Whether a file may run in one process with others. */
export function sharesProcess(file: string): boolean {
  return needOf(file) === 'nothing' && !PROCESS_WIDE.test(textOf(file))
}
