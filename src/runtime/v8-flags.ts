/**
 * V8 flags of the whole process. Main sets them after the threads have loaded: V8 rejects cached code that was compiled
 * under other flags, and Node's own cache is compiled under none.
 *
 * Inlining: by default V8 stops in each function after 920 bytes of bytecode, and the book consists of many small
 * functions. With a higher limit an operation costs a seventh less. It affects only code that is optimised later.
 *
 * Garbage collection: a thread's heap is collected when it is twice the size left by the last collection. By default V8
 * lets it grow up to four times on a machine with much memory, and an exchange's memory grew for an hour without need.
 * Under full load the difference does not show.
 */

import { setFlagsFromString } from 'node:v8'

export function tuneV8(): void {
  setFlagsFromString('--max-inlined-bytecode-size-cumulative=8000')
  setFlagsFromString('--heap-growing-percent=100')
}
