/**
 * V8 flags for an exchange that a test starts. Such an exchange does little more than start. With these flags
 * V8 optimises only code that runs often, and begins with enough memory for a start, which saves a fifth of
 * the start time. WebAssembly, which `fetch` uses, is not optimised. The flags come after those of the test's
 * own process and replace some of them. Benchmarks, long runs and the exchanges of users run without these
 * flags.
 */

import { tmpdir } from 'node:os'
import { makeSnapshot, snapshotFlags } from './node-snapshot.ts'

export const IS_TEST = process.env.NODE_TEST_CONTEXT !== undefined

const NAME = 'exchanges'
const FLAGS = [
  '--no-maglev',
  '--invocation-count-for-turbofan=60000',
  '--invocation-count-for-osr=16000',
  '--min-semi-space-size=16',
  '--liftoff-only',
]

export const TEST_FLAGS: readonly string[] = IS_TEST
  ? [...FLAGS, ...snapshotFlags(tmpdir(), NAME)]
  : []

/** Makes a snapshot in the folder of the run, which shortens the start of exchanges. */
export function makeExchangesSnapshot(folder: string): void {
  makeSnapshot(folder, NAME, FLAGS)
}
