/**
 * A small file beside the local copy of a partition whose log is in a database server. The file describes the last row
 * that the server acknowledged or that this machine read: the row's number, and a checksum over all rows up to it. If
 * that row is missing in the database, or differs there, the database has lost acknowledged commands. Like the mark of
 * a local log, the file is not synced: after a power cut it may name an older row, but never a newer one.
 */

import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { type Copied, isOf } from './mysql-copy.ts'
import { lost } from './mysql-rows.ts'

const BYTES = 16
const CHECKED_BYTES = 12

type Acked = { readonly seq: number; readonly crc: number }

export class AckedMark {
  readonly #file: number
  readonly #bytes = Buffer.alloc(BYTES)

  constructor(path: string) {
    // Creates the file if it is missing.
    closeSync(openSync(path, 'a'))
    this.#file = openSync(path, 'r+')
  }

  /** Returns the mark; undefined if the file is empty or damaged. */
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

/**
 * Throws if the database lacks the last row that this machine knows as acknowledged, or has a different row in its
 * place. A row that is older than all rows in the database is not lost: a base (a stored copy of the files) has it.
 */
export async function checkAcked({ partition, rows }: Copied, acked: AckedMark): Promise<void> {
  const known = acked.read()
  if (known === undefined || (await isOf(rows, known))) return
  const last = await rows.last()
  const first = await rows.firstSeq()
  if (known.seq < first) return
  throw lost(
    partition,
    rows.server.name,
    `row ${known.seq} was acknowledged, but ` +
      (last.seq < known.seq ? `the log ends with row ${last.seq}` : 'another row is in its place'),
  )
}
