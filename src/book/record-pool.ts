/**
 * Memory for many small records of one size: pages of typed arrays, a free list, and no object per record. A pool
 * starts with a few records and then grows by whole pages, so growing never copies more than one page.
 *
 * While the pool is frozen for a snapshot, it calls the function `keep` before the first change of each record. `keep`
 * copies the record, so that the snapshot stays exact. Only this record is copied, not its page: a batch of a thousand
 * orders may touch a thousand pages, and copying them would delay the batch.
 */

import * as layout from './layout.ts'

const { NIL, PAGE_SHIFT, PAGE_RECORDS, PAGE_MASK } = layout

const FIRST_PAGE_RECORDS = 8

export class RecordPool {
  /** The pages as 32-bit words, and as doubles over the same bytes. */
  readonly words: Int32Array[] = []
  readonly doubles: Float64Array[] = []
  /** Number of slots that were ever allocated. Higher slots were never used. */
  used = 0
  /** Records in use. */
  live = 0

  readonly #shift: number
  readonly #state: number
  readonly #recordsMax: number
  #capacity = 0
  #freeHead = NIL
  /** Slots below this one are frozen, except those marked in `#kept`. */
  #frozenSlots = 0
  /**
   * For each frozen slot, 1 if the snapshot needs no further copy of the slot: its record was copied, or the slot had
   * no record. A slot with 1 may change freely.
   */
  #kept = new Uint8Array(0)
  #keep: (slot: number) => void = () => {}

  /**
   * Makes a pool whose records have `2 ** shift` words. The pool itself uses one word of each record, at index `state`,
   * by default the last.
   */
  constructor(shift: number, recordsMax: number, state = (1 << shift) - 1) {
    this.#shift = shift
    this.#state = state
    this.#recordsMax = recordsMax
  }

  get isFull(): boolean {
    return this.live >= this.#recordsMax
  }

  /** Returns the page of a record; the caller computes its place in the page. */
  page(slot: number): Int32Array {
    return this.words[slot >> PAGE_SHIFT]!
  }

  doublePage(slot: number): Float64Array {
    return this.doubles[slot >> PAGE_SHIFT]!
  }

  /** Returns the page of a record that is about to change. Call it before every write. */
  writable(slot: number): Int32Array {
    if (slot < this.#frozenSlots && this.#kept[slot] === 0) this.#keepNow(slot)
    return this.words[slot >> PAGE_SHIFT]!
  }

  /** Returns a slot for a new record. The record's words keep their old values. */
  allocate(): number {
    let slot = this.#freeHead
    if (slot === NIL) {
      slot = this.used
      if (slot === this.#capacity) this.#grow()
    }
    const page = this.writable(slot)
    const state = this.#stateAt(slot)
    if (slot === this.#freeHead) this.#freeHead = -2 - page[state]!
    else this.used++
    page[state] = slot
    this.live++
    return slot
  }

  free(slot: number): void {
    this.writable(slot)[this.#stateAt(slot)] = -2 - this.#freeHead
    this.#freeHead = slot
    this.live--
  }

  /**
   * Freezes the pool for a snapshot. Before the first change of a record in use, the pool calls `keep` with the
   * record's slot. It does not call `keep` if `takeKept` was already called for this slot. Returns the number of frozen
   * slots.
   */
  freeze(keep: (slot: number) => void): number {
    this.#frozenSlots = this.used
    this.#kept = new Uint8Array(this.used)
    this.#keep = keep
    return this.used
  }

  /**
   * Marks the slot as kept. Returns true if the slot has a record that the snapshot has not copied yet. The caller must
   * then copy it now.
   */
  takeKept(slot: number): boolean {
    if (this.#kept[slot] !== 0) return false
    this.#kept[slot] = 1
    return this.page(slot)[this.#stateAt(slot)]! >= 0
  }

  thaw(): void {
    this.#frozenSlots = 0
    this.#kept = new Uint8Array(0)
    this.#keep = () => {}
  }

  #keepNow(slot: number): void {
    if (this.takeKept(slot)) this.#keep(slot)
  }

  #stateAt(slot: number): number {
    return ((slot & PAGE_MASK) << this.#shift) + this.#state
  }

  #grow(): void {
    if (this.#capacity < PAGE_RECORDS) {
      const records = Math.max(FIRST_PAGE_RECORDS, this.#capacity * 4)
      const page = new Int32Array(Math.min(records, PAGE_RECORDS) << this.#shift)
      if (this.words.length > 0) page.set(this.words[0]!)
      this.words[0] = page
      this.doubles[0] = new Float64Array(page.buffer)
      this.#capacity = page.length >> this.#shift
      return
    }
    const page = new Int32Array(PAGE_RECORDS << this.#shift)
    this.words.push(page)
    this.doubles.push(new Float64Array(page.buffer))
    this.#capacity += PAGE_RECORDS
  }
}
