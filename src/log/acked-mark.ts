/**
 * A small file beside the local copy of a partition whose log lies in a database: the last row that the
 * database has acknowledged, by its number and its checksum over all rows up to it. A database that does
 * not have that row any more, or has another one there, has lost what was answered. Like the mark of a
 * local log it is not synced: after a power cut it may be behind, and never ahead.
 */

import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { crc32 } from 'node:zlib'

const BYTES = 16
const CHECKED_BYTES = 12

type Acked = { readonly seq: number; readonly crc: number }

export class AckedMark {
  readonly #file: number
  readonly #bytes = Buffer.alloc(BYTES)

  constructor(path: string) {
    // Made if it is not there, and left as it is if it is.
    closeSync(openSync(path, 'a'))
    this.#file = openSync(path, 'r+')
  }

  /** Undefined where none was written, or it is damaged: then nothing is known here. */
  read(): Acked | undefined {
    const length = readSync(this.#file, this.#bytes, 0, BYTES, 0)
    const checked = this.#bytes.subarray(0, CHECKED_BYTES)
    if (length !== BYTES || crc32(checked) !== this.#bytes.readUInt32BE(CHECKED_BYTES)) {
      return undefined
    }
    return { seq: Number(this.#bytes.readBigUInt64BE(0)), crc: this.#bytes.readUInt32BE(8) }
  }

  write({ seq, crc }: Acked): void {
    this.#bytes.writeBigUInt64BE(BigInt(seq), 0)
    this.#bytes.writeUInt32BE(crc, 8)
    this.#bytes.writeUInt32BE(crc32(this.#bytes.subarray(0, CHECKED_BYTES)), CHECKED_BYTES)
    writeSync(this.#file, this.#bytes, 0, BYTES, 0)
  }

  close(): void {
    closeSync(this.#file)
  }
}
