/**
 * The mark: a small file beside each partition with the last offset that is certainly durable. The mark is written
 * after each commit, before the commands of that commit are answered. It is not synced, so after a power cut it may be
 * behind the log, but never ahead. A log that ends before its mark has lost acknowledged commands.
 */

import { closeSync, fsyncSync, openSync, readSync, writeSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { corrupt } from './record.ts'

const BYTES = 16

export class DurableMark {
  readonly #file: number
  readonly #bytes = Buffer.alloc(BYTES)

  constructor(path: string) {
    this.#file = openSync(path, 'r+')
  }

  write(offset: number): void {
    encode(this.#bytes, offset)
    writeSync(this.#file, this.#bytes, 0, BYTES, 0)
  }

  sync(): void {
    fsyncSync(this.#file)
  }

  close(): void {
    closeSync(this.#file)
  }
}

export function createMark(path: string, offset = 0): void {
  const file = openSync(path, 'wx')
  try {
    const bytes = Buffer.alloc(BYTES)
    encode(bytes, offset)
    writeSync(file, bytes, 0, BYTES, 0)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

export function readMark(path: string): number {
  const bytes = Buffer.alloc(BYTES)
  const file = openSync(path, 'r')
  try {
    // If another thread writes the mark during this read, the checksum may be wrong. Then repeat the read.
    for (let attempt = 0; attempt < 3; attempt++) {
      const length = readSync(file, bytes, 0, BYTES, 0)
      const whole = length === BYTES && crc32(bytes.subarray(0, 12)) === bytes.readUInt32BE(12)
      if (whole) return Number(bytes.readBigUInt64BE(0))
    }
  } finally {
    closeSync(file)
  }
  throw corrupt(`${path} is damaged: the file must contain the durable end of the partition`)
}

function encode(bytes: Buffer, offset: number): void {
  bytes.writeBigUInt64BE(BigInt(offset), 0)
  bytes.writeUInt32BE(0x53_4d_31_0a, 8)
  bytes.writeUInt32BE(crc32(bytes.subarray(0, 12)), 12)
}
