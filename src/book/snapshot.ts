/**
 * Writes a snapshot of a book as of one instant, while the book is in use. Orders are copied a few at a time; an order
 * that is about to change is copied first. The result is a series of chunks of bounded size. They contain the records
 * in any order, each with its slot.
 *
 * A chunk begins with a header of 16 words: magic, version, number of the chunk, records in the chunk, orders and slots
 * of the whole book, and the expiry wheel's time as a double. The records follow in their memory layout (`layout.ts`),
 * little-endian.
 */

import assert from 'node:assert/strict'
import * as layout from './layout.ts'
import type { RecordPool } from './record-pool.ts'

const { PAGE_RECORDS, RECORD_WORDS } = layout

const MAGIC = 0x6b6f6f62 // "book"
const VERSION = 2
const HEADER_WORDS = 16
/** Maximum number of records in a chunk, so that a chunk with its header stays within 64 KiB. */
const CHUNK_RECORDS_MAX = 511
const CHUNK_WORDS_MAX = HEADER_WORDS + CHUNK_RECORDS_MAX * RECORD_WORDS

/**
 * Maximum number of chunks whose memory is kept for reuse. With fresh memory for each chunk, a snapshot of a large book
 * makes V8 collect the whole heap again and again, which stops the thread for milliseconds.
 */
const SPARE_MAX = 16
const spare: Int32Array<ArrayBuffer>[] = []

/** Takes back a chunk that the caller no longer needs, so that a later chunk reuses its memory. */
export function giveBack(chunk: Buffer<ArrayBuffer>): void {
  if (spare.length < SPARE_MAX) spare.push(new Int32Array(chunk.buffer, 0, CHUNK_WORDS_MAX))
}

function takeMemory(): Int32Array<ArrayBuffer> {
  return spare.pop() ?? new Int32Array(CHUNK_WORDS_MAX)
}

/**
 * Function that adds to the copy of a record the values that the record itself does not contain. The copy begins at
 * index `at` of `copy`.
 */
type Complete = (copy: Int32Array, at: number, slot: number) => void

export class BookSnapshot {
  /** Number of orders at the instant of the snapshot. */
  readonly orders: number
  readonly #pool: RecordPool
  readonly #complete: Complete
  readonly #slots: number
  readonly #nowSec: number
  readonly #ready: Buffer<ArrayBuffer>[] = []
  #nextSlot = 0
  #chunks = 0
  #copied = 0
  #open: Int32Array<ArrayBuffer> | undefined
  #openRecords = 0
  #done = false

  constructor(pool: RecordPool, nowSec: number, complete: Complete) {
    this.#pool = pool
    this.#complete = complete
    this.orders = pool.live
    this.#nowSec = nowSec
    this.#slots = pool.freeze((slot) => this.#copyRun(slot, slot + 1))
  }

  /**
   * True if the last chunk was returned or the snapshot was abandoned. The snapshot then no longer affects the book.
   */
  get done(): boolean {
    return this.#done
  }

  /**
   * Copies more orders until at least `ordersMin` are copied or `8 * ordersMin` slots are examined. Returns the full
   * chunks, which the caller may pass to `giveBack`.
   */
  copySome(ordersMin: number): Buffer<ArrayBuffer>[] {
    if (this.#done) return []
    const enough = this.#copied + ordersMin
    // Slots without an order are cheap to skip, so one call may examine eight times as many slots as it copies orders.
    const end = Math.min(this.#slots, this.#nextSlot + 8 * ordersMin)
    while (this.#nextSlot < end && this.#copied < enough) this.#copyNextRun(end)
    if (this.#nextSlot === this.#slots) {
      if (this.#openRecords > 0 || this.#chunks === 0) this.#closeChunk()
      this.abandon()
      assert.equal(this.#copied, this.orders, 'a snapshot must contain every order exactly once')
    }
    return this.#ready.splice(0)
  }

  /** Ends an unfinished snapshot; it no longer affects the book. */
  abandon(): void {
    if (this.#done) return
    this.#done = true
    this.#pool.thaw()
  }

  /** Copies the next run of adjacent records that are not copied yet, at most one chunk. */
  #copyNextRun(limit: number): void {
    while (this.#nextSlot < limit && !this.#pool.takeKept(this.#nextSlot)) this.#nextSlot++
    const from = this.#nextSlot
    // A run ends with its page, because the next page is elsewhere in memory.
    const end = Math.min(limit, (from | (PAGE_RECORDS - 1)) + 1, from + CHUNK_RECORDS_MAX)
    if (from >= end) return
    this.#nextSlot++
    while (this.#nextSlot < end && this.#pool.takeKept(this.#nextSlot)) this.#nextSlot++
    this.#copyRun(from, this.#nextSlot)
  }

  #copyRun(from: number, end: number): void {
    const words = this.#pool.page(from)
    const page = from - (from % PAGE_RECORDS)
    let slot = from
    while (slot < end) {
      this.#open ??= takeMemory()
      const count = Math.min(end - slot, CHUNK_RECORDS_MAX - this.#openRecords)
      const at = HEADER_WORDS + this.#openRecords * RECORD_WORDS
      const place = (slot - page) * RECORD_WORDS
      this.#open.set(words.subarray(place, place + count * RECORD_WORDS), at)
      for (let copied = 0; copied < count; copied++) {
        this.#complete(this.#open, at + copied * RECORD_WORDS, slot + copied)
      }
      this.#openRecords += count
      this.#copied += count
      slot += count
      if (this.#openRecords === CHUNK_RECORDS_MAX) this.#closeChunk()
    }
  }

  #closeChunk(): void {
    const chunk = this.#open ?? takeMemory()
    chunk[0] = MAGIC
    chunk[1] = VERSION
    chunk[2] = this.#chunks++
    chunk[3] = this.#openRecords
    chunk[4] = this.orders
    chunk[5] = this.#slots
    new Float64Array(chunk.buffer, 0, HEADER_WORDS / 2)[3] = this.#nowSec
    const words = HEADER_WORDS + this.#openRecords * RECORD_WORDS
    this.#ready.push(Buffer.from(chunk.buffer, 0, words * Int32Array.BYTES_PER_ELEMENT))
    this.#open = undefined
    this.#openRecords = 0
  }
}

type SnapshotChunk = {
  readonly number: number
  readonly orders: number
  readonly slots: number
  readonly nowSec: number
  readonly records: Int32Array
}

/**
 * Decodes one chunk. Throws if the bytes are not a chunk of this version, which means a bug in the code that
 * stored the chunk.
 */
export function readChunk(bytes: Uint8Array): SnapshotChunk {
  // Bytes from a file may begin anywhere, but words must be aligned, so unaligned bytes are copied.
  const aligned = bytes.byteOffset % 8 === 0 ? bytes : Uint8Array.from(bytes)
  assert.ok(aligned.byteLength >= HEADER_WORDS * 4, 'a snapshot chunk must contain a header')
  assert.equal(aligned.byteLength % 4, 0, 'a snapshot chunk must consist of whole words of 4 bytes')
  const words = new Int32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4)
  assert.equal(words[0], MAGIC, 'the bytes are not a chunk of a book snapshot')
  assert.equal(words[1], VERSION, 'the snapshot chunk has an unknown version')
  const records = words.subarray(HEADER_WORDS)
  assert.equal(
    records.length,
    words[3]! * RECORD_WORDS,
    'a snapshot chunk must be whole: its header states another number of records',
  )
  const header = new Float64Array(aligned.buffer, aligned.byteOffset, HEADER_WORDS / 2)
  return { number: words[2]!, orders: words[4]!, slots: words[5]!, nowSec: header[3]!, records }
}
