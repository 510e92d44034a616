/**
 * The snapshots of a partition's markets, each a file of its own. The owner hands over chunks and goes
 * on: Node's threads for files write them, wait for the disk every half a megabyte, and at the end
 * give the file its name, by which it exists. So a snapshot never makes its market wait, and a draft, or
 * a file that a newer one has replaced, can go at any time.
 *
 * A file: each chunk behind its length and its checksum, then the description of the snapshot as
 * JSON, then the length and the checksum of that. Numbers are big-endian.
 */

import assert from 'node:assert/strict'
import { closeSync, fstatSync, mkdirSync, openSync, readdirSync, readSync, rmSync } from 'node:fs'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Fault } from '#domain/fault.ts'
import type { MarketId, Sequence } from '#domain/ids.ts'
import {
  CHUNK_BYTES_MAX,
  type Snapshot,
  type SnapshotMeta,
  type SnapshotWriter,
} from './event-log.ts'
import { syncFolder } from './log-folder.ts'
import { corrupt, type RowHome, rowCrc } from './record.ts'
import { sqliteFault } from './sqlite-fault.ts'

/**
 * Chunks are gathered in buffers, each written and synced at one go. A commit of the log may have to
 * wait for as much as is under way, because a file system writes what other files have pending with it.
 */
const BUFFER_BYTES = 512 * 1024
const BUFFERS_UNDER_WAY_MAX = 2
const REMOVED_AT_ONCE_BYTES = 1024 * 1024
/** Before each chunk, and at the very end. */
const LABEL_BYTES = 8
/** A description is far smaller than this. */
const META_BYTES_MAX = 4_096
const NAME = /^(0x[0-9a-f]{64})-([1-9][0-9]{0,15})$/
const DRAFT = '.new'

/** Drafts of one thread have different names, whatever became of them. */
let drafts = 0

/** Buffers of snapshots past, as many as one uses, so that the next one leaves no garbage. */
const spare: Buffer[] = []

function takeBuffer(): Buffer {
  return spare.pop() ?? Buffer.allocUnsafeSlow(BUFFER_BYTES)
}

function giveBack(buffer: Buffer): void {
  if (spare.length <= BUFFERS_UNDER_WAY_MAX) spare.push(buffer)
}

/** Whether the log has what a snapshot stands for: it ends before it, knows nothing of it, or does. */
export type Fit = 'ahead' | 'useless' | 'fits'

type Named = Pick<SnapshotMeta, 'marketId' | 'atOffset'>

export class SnapshotFiles {
  readonly #folder: string
  readonly #home: RowHome
  readonly #newest = new Map<MarketId, SnapshotMeta>()
  /** What was found and nobody needs, and of it what nobody must ever meet again. */
  readonly #useless: string[] = []
  readonly #ahead: string[] = []
  readonly #writers = new Set<FileWriter>()
  /** The last of the files to be removed, one after the other. */
  #removing = Promise.resolve()

  /** Finds the newest snapshot of each market that fits the log, and changes nothing. */
  constructor(folder: string, home: RowHome, fitOf: (named: Named) => Fit) {
    this.#folder = folder
    this.#home = home
    mkdirSync(folder, { recursive: true })
    // Names that an earlier run gave may not be on the disk yet, and truncation will rely on them.
    syncFolder(dirname(folder))
    syncFolder(folder)
    const newest = new Map<MarketId, Named>()
    for (const name of readdirSync(folder)) {
      const named = parseName(name)
      if (named === undefined) {
        if (name.endsWith(DRAFT)) this.#useless.push(name)
        continue
      }
      const fit = fitOf(named)
      if (fit === 'ahead') this.#ahead.push(name)
      else if (fit === 'useless') this.#useless.push(name)
      else {
        const other = newest.get(named.marketId)
        const isNewer = other === undefined || other.atOffset < named.atOffset
        if (isNewer) newest.set(named.marketId, named)
        const older = isNewer ? other : named
        if (older !== undefined) this.#useless.push(nameOf(older))
      }
    }
    for (const named of newest.values()) {
      const path = join(folder, nameOf(named))
      const meta = readMeta(path, home)
      if (nameOf(meta) !== nameOf(named)) throw corrupt(`${path} is of another market or time`)
      this.#newest.set(meta.marketId, meta)
    }
  }

  /** To be called once all of the partition was found in order: what is refused stays as it is. */
  removeUseless(): void {
    for (const name of this.#ahead) rmSync(join(this.#folder, name))
    for (const name of this.#useless) removeIfPossible(join(this.#folder, name))
    syncFolder(this.#folder)
  }

  get(marketId: MarketId): SnapshotMeta | undefined {
    return this.#newest.get(marketId)
  }

  all(): SnapshotMeta[] {
    return [...this.#newest.values()]
  }

  read(marketId: MarketId): Snapshot | undefined {
    const meta = this.#newest.get(marketId)
    if (meta === undefined) return undefined
    return { meta, chunks: readChunks(join(this.#folder, nameOf(meta)), this.#home, meta) }
  }

  begin(marketId: MarketId, atOffset: number, seq: Sequence): SnapshotWriter {
    const writer = new FileWriter(this.#folder, this.#home, { marketId, atOffset, seq }, (meta) => {
      const old = this.#newest.get(marketId)
      if (old !== undefined && old.atOffset > atOffset) return
      this.#newest.set(marketId, meta)
      if (old !== undefined && old.atOffset < atOffset) this.#discard(old)
    })
    this.#writers.add(writer)
    void writer.ended.then(() => this.#writers.delete(writer))
    return writer
  }

  /** The market is over: it needs none any more. */
  remove(marketId: MarketId): void {
    for (const writer of this.#writers) if (writer.marketId === marketId) writer.abort()
    const meta = this.#newest.get(marketId)
    this.#newest.delete(marketId)
    if (meta !== undefined) this.#discard(meta)
  }

  /** Ends what is being written; settles when nothing of it is under way. */
  async close(): Promise<void> {
    const writers = [...this.#writers]
    for (const writer of writers) writer.abort()
    for (const writer of writers) await writer.ended
    await this.#removing
  }

  /** What stays behind, whatever the reason, goes when the partition is opened again. */
  #discard(meta: SnapshotMeta): void {
    const path = join(this.#folder, nameOf(meta))
    const draft = `${path}.${++drafts}${DRAFT}`
    this.#removing = this.#removing
      .then(() => rename(path, draft))
      .then(() => removeSlowly(draft))
      .catch(() => undefined)
  }
}

/** Its name says which market it is of, and which of two is the newer. */
function nameOf({ marketId, atOffset }: Named): string {
  return `${marketId}-${atOffset}`
}

function parseName(name: string): Named | undefined {
  const [, marketId, atOffset] = NAME.exec(name) ?? []
  return marketId === undefined
    ? undefined
    : { marketId: marketId as MarketId, atOffset: Number(atOffset) }
}

/** What nobody needs does no harm either, and the next open tries again. */
function removeIfPossible(path: string): void {
  try {
    rmSync(path, { force: true })
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error
  }
}

type Subject = Omit<SnapshotMeta, 'chunks'>

class FileWriter implements SnapshotWriter {
  readonly ended: Promise<void>
  readonly #folder: string
  readonly #home: RowHome
  readonly #subject: Subject
  readonly #publish: (meta: SnapshotMeta) => void
  readonly #draft: string
  readonly #end: () => void
  /** The last of what was asked of the disk; each begins when the one before has ended. */
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
    this.#draft = join(folder, `${nameOf(subject)}.${++drafts}${DRAFT}`)
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
    assert(!this.#isOver, 'a snapshot that was committed or aborted takes nothing more')
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
    assert(!this.#isOver, 'a snapshot is committed once')
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
      // One that was aborted meanwhile is as good as any: the next open may take it.
      if (this.#fault === undefined) this.#publish(meta)
    })
    await this.#work
    this.#check()
    this.#end()
    return meta
  }

  abort(): void {
    if (this.#fault !== undefined) return
    this.#fail(new Fault('LOG_SNAPSHOT_FAILED', 'the snapshot was aborted', { retryable: true }))
  }

  #check(): void {
    if (this.#fault !== undefined) throw this.#fault
  }

  /** Does one more thing, unless something went wrong before it. */
  #then(work: () => Promise<void>): void {
    this.#work = this.#work.then(async () => {
      if (this.#fault !== undefined) return
      try {
        await work()
      } catch (error) {
        const why = (error as Error).message
        this.#fail(
          new Fault('LOG_SNAPSHOT_FAILED', `cannot write ${this.#draft}: ${why}`, {
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

  /** The next so many bytes of the file, to be filled in at once. */
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
 * Removes a file piece by piece. At one go it would keep a file system busy for long, and a commit of
 * the log would wait: 30 ms for 128 MiB, on ext4 with `discard`.
 */
async function removeSlowly(path: string): Promise<void> {
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

function writeLabel(label: Buffer, length: number, crc: number): void {
  label.writeUInt32BE(length, 0)
  label.writeUInt32BE(crc, 4)
}

function chunkCrc(home: RowHome, of: Subject, place: number, payload: Buffer): number {
  return rowCrc('snapshot chunk', home, [of.marketId, of.atOffset, of.seq, place], payload)
}

function metaCrc(home: RowHome, text: Buffer): number {
  return rowCrc('snapshot', home, [], text)
}

function readMeta(path: string, home: RowHome): SnapshotMeta {
  const file = openSync(path, 'r')
  try {
    const { size } = fstatSync(file)
    const label = readBytes(file, size - LABEL_BYTES, LABEL_BYTES)
    const length = label?.readUInt32BE(0) ?? 0
    const text =
      length > 0 && length <= META_BYTES_MAX
        ? readBytes(file, size - LABEL_BYTES - length, length)
        : undefined
    if (text === undefined || metaCrc(home, text) !== label?.readUInt32BE(4)) {
      throw damaged(path, 'its description')
    }
    return JSON.parse(text.toString('utf8')) as SnapshotMeta
  } finally {
    closeSync(file)
  }
}

function* readChunks(path: string, home: RowHome, meta: SnapshotMeta): Generator<Buffer> {
  let file: number | undefined
  try {
    file = openSync(path, 'r')
    let at = 0
    for (let place = 0; place < meta.chunks; place++) {
      const label = readBytes(file, at, LABEL_BYTES)
      const length = label?.readUInt32BE(0) ?? 0
      at += LABEL_BYTES
      const payload =
        length > 0 && length <= CHUNK_BYTES_MAX ? readBytes(file, at, length) : undefined
      if (
        payload === undefined ||
        chunkCrc(home, meta, place, payload) !== label?.readUInt32BE(4)
      ) {
        throw damaged(path, `chunk ${place}`)
      }
      at += length
      yield payload
    }
  } catch (error) {
    throw sqliteFault('LOG_READ_FAILED', path, error)
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

function readBytes(file: number, at: number, length: number): Buffer | undefined {
  if (at < 0) return undefined
  const bytes = Buffer.allocUnsafe(length)
  return readSync(file, bytes, 0, length, at) === length ? bytes : undefined
}

function damaged(path: string, what: string): Fault {
  return corrupt(
    `${path}: ${what} is damaged; without this file the log opens if it still has the market's events`,
  )
}
