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
