/**
 * A table of bounded size in memory that all front threads share. A key belongs to one set of a few
 * records; a set is locked for the few instructions that read and change it, so that what one thread
 * records the others see at once. It knows nothing of what the records mean.
 *
 * A record has six words: four of the key's digest, and one double for its owner's use. A record
 * whose double is 0 is free. Keys are hashed with a secret, so that nobody can crowd one set.
 */

import { createHash } from 'node:crypto'

const RECORD_WORDS = 6
const SET_RECORDS = 16
/** One word of lock, one of padding, so that doubles stay aligned. */
const SET_WORDS = 2 + RECORD_WORDS * SET_RECORDS

export type SharedTableMemory = { readonly words: SharedArrayBuffer; readonly secret: string }

/** Room for at least so many records. */
export function makeSharedTable(recordsMin: number, secret: string): SharedTableMemory {
  const sets = Math.max(1, Math.ceil(recordsMin / SET_RECORDS))
  return { words: new SharedArrayBuffer(sets * SET_WORDS * 4), secret }
}

export class SharedTable {
  readonly #words: Int32Array
  readonly #doubles: Float64Array
  readonly #sets: number
  readonly #secret: string
  readonly #digest = new Int32Array(8)

  constructor(memory: SharedTableMemory) {
    this.#words = new Int32Array(memory.words)
    this.#doubles = new Float64Array(memory.words)
    this.#sets = this.#words.length / SET_WORDS
    this.#secret = memory.secret
  }

  /**
   * Runs `update` with the double that is kept for the key, 0 if there is none, and keeps what it
   * returns; undefined changes nothing. Where the key is new and its set is full, `makeRoom` is asked
   * which double of the set may go: it gets each and returns whether that one is dispensable.
   * Answers false when there was no room.
   */
  update(
    key: string,
    update: (value: number) => number | undefined,
    dispensable: (value: number) => boolean,
  ): boolean {
    const digest = this.#digest
    createHash('sha256')
      .update(this.#secret)
      .update(key)
      .digest()
      .copy(new Uint8Array(digest.buffer))
    const base = ((digest[4]! >>> 0) % this.#sets) * SET_WORDS
    this.#lock(base)
    try {
      let free = -1
      for (let record = 0; record < SET_RECORDS; record++) {
        const at = base + 2 + record * RECORD_WORDS
        const value = this.#doubles[(at + 4) >> 1]!
        if (value !== 0 && this.#holds(at, digest)) {
          const next = update(value)
          if (next !== undefined) this.#doubles[(at + 4) >> 1] = next
          return true
        }
        if (free < 0 && (value === 0 || dispensable(value))) free = at
      }
      if (free < 0) return false
      const next = update(0)
      if (next === undefined) return true
      for (let word = 0; word < 4; word++) this.#words[free + word] = digest[word]!
      this.#doubles[(free + 4) >> 1] = next
      return true
    } finally {
      Atomics.store(this.#words, base, 0)
    }
  }

  #holds(at: number, digest: Int32Array): boolean {
    const words = this.#words
    return (
      words[at] === digest[0] &&
      words[at + 1] === digest[1] &&
      words[at + 2] === digest[2] &&
      words[at + 3] === digest[3]
    )
  }

  /** Spins: a set is never held longer than it takes to look at its records. */
  #lock(base: number): void {
    while (Atomics.compareExchange(this.#words, base, 0, 1) !== 0);
  }
}
