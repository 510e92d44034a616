/**
 * V8 flags for exchanges that tests start. Such an exchange does little more than start. So V8 optimises only code that
 * runs often, never optimises WebAssembly (which `fetch` uses), and begins with enough memory. This saves a fifth of
 * the start time. These flags follow the flags of the test's own process, and override some of them. Benchmarks, long
 * runs and users' exchanges do not use them.
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
