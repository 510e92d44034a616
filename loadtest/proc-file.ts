/**
 * The beginning of a file of Linux's `/proc`, read again and again without a trace: `readFileSync`
 * takes 64 KiB for each, of which a measurement that reads often makes a collector work.
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

  /** The words of the first line; none where there is no such file. */
  words(): string[] {
    if (this.#file === undefined) return []
    const length = readSync(this.#file, this.#buffer, 0, BYTES, 0)
    return this.#buffer.toString('latin1', 0, length).split('\n', 1)[0]!.split(/\s+/)
  }
}

/** The clock of the kernel's CPU times. */
const TICKS_PER_SECOND = 100

/** Returns the CPU seconds that a process has used, of all its threads; NaN where the kernel does not tell. */
export function cpuSeconds(pid: number): number {
  const [user, system] = new ProcFile(`/proc/${pid}/stat`).words().slice(13, 15).map(Number)
  return ((user ?? Number.NaN) + (system ?? Number.NaN)) / TICKS_PER_SECOND
}
