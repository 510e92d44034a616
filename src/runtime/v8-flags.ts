/**
 * V8 flags of the whole process. Main sets them only after the threads have loaded their modules. Node compiles its
 * code cache without these flags, and V8 rejects cached code that was compiled under other flags.
 *
 * Inlining (first flag): by default V8 inlines at most 920 bytes of bytecode per function, and the book consists of
 * many small functions. With a limit of 8000 bytes, an operation of the book costs one seventh less. The flag affects
 * only code that is optimised later.
 *
 * Garbage collection (second flag): V8 collects a thread’s heap when the heap is twice as large as after the last
 * collection. By default, on a machine with much memory, V8 lets the heap grow to four times that size. With this
 * default, the memory of an exchange grew for an hour without need. Under full load, the flag makes no visible
 * difference.
 */

import { setFlagsFromString } from 'node:v8'

export function tuneV8(): void {
  setFlagsFromString('--max-inlined-bytecode-size-cumulative=8000')
  setFlagsFromString('--heap-growing-percent=100')
}
