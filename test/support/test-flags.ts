/**
 * Flags of V8 for an exchange that a test starts. It does little more than start: V8 may make its code
 * faster only where it runs often, and begins with room for what a start makes: that is a fifth of what
 * a start takes. WebAssembly, here that of `fetch`, is not made faster at all. They come after the flags
 * of the test's own process, some of which they replace. A benchmark or a long run is of the exchange as
 * users start it, and has none of them.
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

/** Makes their starts in this run quicker, whose folder it is. */
export function makeExchangesSnapshot(folder: string): void {
  makeSnapshot(folder, NAME, FLAGS)
}
