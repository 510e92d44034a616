/**
 * Writes one snapshot. The caller passes chunks and does not wait for the disk. Node's file threads write the chunks,
 * and sync every half a megabyte. At the end they rename the file, which publishes the snapshot. So a snapshot never
 * blocks its market.
 */

import assert from 'node:assert/strict'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { CHUNK_BYTES_MAX, type SnapshotMeta, type SnapshotWriter } from '../event-log.ts'
import type { RowHome } from '../partition/record.ts'
import {
  chunkCrc,
  draftOf,
  LABEL_BYTES,
  metaCrc,
  nameOf,
  type Subject,
  writeLabel,
} from './snapshot-format.ts'

/**
 * Chunks are collected in buffers of this size. Each buffer is written and synced separately. Otherwise a file system
 * might write all pending data of the snapshot during a commit of the log, and the commit would have to wait.
 */
const BUFFER_BYTES = 512 * 1024
const BUFFERS_UNDER_WAY_MAX = 2
const REMOVED_AT_ONCE_BYTES = 1024 * 1024

/** Buffers of finished snapshots, reused to avoid garbage. */
const spare: Buffer[] = []

function takeBuffer(): Buffer {
  return spare.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES)
}

function giveBack(buffer: Buffer): void {
  if (spare.length <= BUFFERS_UNDER_WAY_MAX) spare.push(buffer)
}

export class FileWriter implements SnapshotWriter {
  readonly ended: Promise<void>
  readonly #folder: string
  readonly #home: RowHome
  readonly #subject: Subject
  readonly #publish: (meta: SnapshotMeta) => void
  readonly #draft: string
  readonly #end: () => void
  /** Resolves when the newest disk operation has ended. Each operation begins when the one before has ended. */
  #work: Promise<void>
  #file: FileHandle | undefined
  #chunks = 0
  #filling = takeBuffer()
  #filled = 0
  #underWay = 0
  #fault: Fault | undefined
  #isOver = false

  constructor(
    folder: string,
    home: RowHome,
    subject: Subject,
    publish: (meta: SnapshotMeta) => void,
  ) {
    this.#folder = folder
    this.#home = home
    this.#subject = subject
    this.#publish = publish
    this.#draft = join(folder, draftOf(subject))
    const { promise, resolve } = Promise.withResolvers<void>()
    this.ended = promise
    this.#end = resolve
    this.#work = Promise.resolve()
    this.#then(async () => {
      this.#file = await open(this.#draft, 'wx')
    })
  }

  get marketId(): MarketId {
    return this.#subject.marketId
  }

  isReady(): boolean {
    this.#check()
    return this.#underWay < BUFFERS_UNDER_WAY_MAX
  }

  writeChunk(...parts: Uint8Array[]): void {
    this.#check()
    assert(!this.#isOver, 'a committed snapshot cannot get more chunks')
    const length = parts.reduce((sum, part) => sum + part.byteLength, 0)
    assert(length > 0 && length <= CHUNK_BYTES_MAX, 'a chunk is neither empty nor too large')
    const label = this.#reserve(LABEL_BYTES + length)
    const payload = label.subarray(LABEL_BYTES)
    let at = 0
    for (const part of parts) {
      payload.set(part, at)
      at += part.byteLength
    }
    writeLabel(label, length, chunkCrc(this.#home, this.#subject, this.#chunks, payload))
    this.#chunks++
  }

  async commit(): Promise<SnapshotMeta> {
    this.#check()
    assert(!this.#isOver, 'the snapshot was already committed')
    this.#isOver = true
    const meta: SnapshotMeta = { ...this.#subject, chunks: this.#chunks }
    const text = Buffer.from(JSON.stringify(meta))
    const end = this.#reserve(text.length + LABEL_BYTES)
    end.set(text)
    writeLabel(end.subarray(text.length), text.length, metaCrc(this.#home, text))
    this.#flush()
    this.#then(async () => {
      await this.#file!.sync()
      await this.#close()
      if (this.#fault !== undefined) return
      await rename(this.#draft, join(this.#folder, nameOf(meta)))
      await syncInBackground(this.#folder)
      // If the writer was aborted during the rename or the sync, this process does not use the snapshot. Its complete
      // file stays, and the next open of the partition may use it.
      if (this.#fault === undefined) this.#publish(meta)
    })
    await this.#work
    this.#check()
    this.#end()
    return meta
  }

  abort(): void {
    if (this.#fault !== undefined) return
    this.#fail(
      new Fault(
        'LOG_SNAPSHOT_FAILED',
        'the snapshot of a market was aborted before it was complete',
        { retryable: true },
      ),
    )
  }

  #check(): void {
    if (this.#fault !== undefined) throw this.#fault
  }

  /** Queues a disk operation; it is skipped if an earlier one has failed. */
  #then(work: () => Promise<void>): void {
    this.#work = this.#work.then(async () => {
      if (this.#fault !== undefined) return
      try {
        await work()
      } catch (error) {
        const why = (error as Error).message
        this.#fail(
          new Fault('LOG_SNAPSHOT_FAILED', `cannot write the snapshot ${this.#draft}: ${why}`, {
            retryable: true,
            cause: error,
          }),
        )
      }
    })
  }

  #fail(fault: Fault): void {
    if (this.#fault !== undefined) return
    this.#fault = fault
    this.#work = this.#work.then(async () => {
      await this.#close().catch(() => undefined)
      await removeSlowly(this.#draft).catch(() => undefined)
      this.#end()
    })
  }

  /** Returns the next bytes of the buffer; the caller fills them before any other call. */
  #reserve(bytes: number): Buffer {
    if (this.#filled + bytes > BUFFER_BYTES) {
      this.#flush()
      this.#filling = takeBuffer()
      this.#filled = 0
    }
    this.#filled += bytes
    return this.#filling.subarray(this.#filled - bytes, this.#filled)
  }

  #flush(): void {
    const buffer = this.#filling
    const bytes = buffer.subarray(0, this.#filled)
    this.#underWay++
    this.#then(async () => {
      await this.#file!.writeFile(bytes)
      await this.#file!.datasync()
      this.#underWay--
      giveBack(buffer)
    })
  }

  async #close(): Promise<void> {
    const file = this.#file
    this.#file = undefined
    await file?.close()
  }
}

/**
 * Deletes a file piece by piece. Deleting a whole file of 128 MiB would block a commit of the log for 30 ms, on ext4
 * with `discard`.
 */
export async function removeSlowly(path: string): Promise<void> {
  const file = await open(path, 'r+')
  try {
    let { size } = await file.stat()
    while (size > REMOVED_AT_ONCE_BYTES) {
      size -= REMOVED_AT_ONCE_BYTES
      await file.truncate(size)
      await file.datasync()
    }
  } finally {
    await file.close()
  }
  await rm(path)
}

async function syncInBackground(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
