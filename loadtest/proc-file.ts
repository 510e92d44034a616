/**
 * Reads the beginning of a file of Linux's `/proc` repeatedly without garbage: `readFileSync` allocates 64 KiB each
 * time, which makes the garbage collector work in a measurement that reads often.
 */

import { openSync, readSync } from 'node:fs'

const BYTES = 256

export class ProcFile {
  readonly #file: number | undefined
  readonly #buffer = Buffer.alloc(BYTES)

  constructor(path: string) {
    try {
      this.#file = openSync(path, 'r')
    } catch {
      // Another system.
    }
  }

  /** Returns the words of the first line; none if there is no such file. */
  words(): string[] {
    if (this.#file === undefined) return []
    const length = readSync(this.#file, this.#buffer, 0, BYTES, 0)
    return this.#buffer.toString('latin1', 0, length).split('\n', 1)[0]!.split(/\s+/)
  }
}

/** Ticks per second of the kernel's CPU times. */
const TICKS_PER_SECOND = 100

/** Returns the CPU seconds that all threads of a process have used; NaN if the kernel does not report them. */
export function cpuSeconds(pid: number): number {
  const [user, system] = new ProcFile(`/proc/${pid}/stat`).words().slice(13, 15).map(Number)
  return ((user ?? Number.NaN) + (system ?? Number.NaN)) / TICKS_PER_SECOND
}
