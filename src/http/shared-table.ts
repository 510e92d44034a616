/**
 * A hash table of bounded size in memory that all front threads share. The records are divided into sets of 64, and
 * each key belongs to one set. A thread locks a set for the few instructions that read and change it. Other threads see
 * a change at once. The table does not know the meaning of the records.
 *
 * Threads cannot share a `Map`. If one thread kept the table for all threads, each message to it would cost about 3 µs
 * through a busy channel (`bench:channel`). The message would also wait for a turn of two event loops. An update of the
 * shared memory took 1 µs, and is complete when the call returns.
 *
 * A record has six words: four for the digest of its key, and two for a double. The user of the table defines the
 * meaning of the double. A record whose double is 0 is free. Keys are hashed with a secret, so no client can choose
 * keys that fill one set.
 */

import { hash } from 'node:crypto'

const RECORD_WORDS = 6
/** Large sets fill evenly: with half of the records in use, one set in two million is full. */
const SET_RECORDS = 64
const SLACK = 2
/** Words of a set: one for the lock, one of padding to keep doubles aligned, and the records. */
const SET_WORDS = 2 + RECORD_WORDS * SET_RECORDS

const SPINS_MAX = 1_000
const NAP_MS = 1
/**
 * Time in milliseconds that a thread waits for a locked set. After this time it uses the set anyway, because
 * the thread that locked the set must have died.
 */
const ABANDONED_MS = 2_000

export type SharedTableMemory = { readonly words: SharedArrayBuffer; readonly secret: string }

/**
 * Makes a table with room for this many records even if their keys are unevenly distributed. With an even distribution
 * it has room for about twice as many.
 */
export function makeSharedTable(records: number, secret: string): SharedTableMemory {
  const sets = Math.max(1, Math.ceil((records * SLACK) / SET_RECORDS))
  return { words: new SharedArrayBuffer(sets * SET_WORDS * 4), secret }
}

export class SharedTable {
  readonly #words: Int32Array
  readonly #doubles: Float64Array
  readonly #sets: number
  readonly #secret: string
  readonly #digestsMax: number
  /** Cached digests, because hashing is most of the cost of an update; cleared when full. */
  readonly #digests = new Map<string, string>()

  /** `digestsMax`: maximum number of digests that this thread caches, for repeated keys. */
  constructor(memory: SharedTableMemory, digestsMax = 0) {
    this.#words = new Int32Array(memory.words)
    this.#doubles = new Float64Array(memory.words)
    this.#sets = this.#words.length / SET_WORDS
    this.#secret = memory.secret
    this.#digestsMax = digestsMax
  }

  /**
   * Updates the record of a key. Calls `update` with the record's double, or with 0 if the key has no record. Stores
   * the double that `update` returns, or changes nothing if it returns undefined. If the key is new and its set is
   * full, `dispensable` decides whether the record with the lowest double is evicted. Returns false if there was no
   * room for the key.
   */
  update(
    key: string,
    update: (value: number) => number | undefined,
    dispensable: (lowest: number) => boolean,
  ): boolean {
    const digest = this.#digests.get(key) ?? this.#digestOf(key)
    const a = wordAt(digest, 0)
    const b = wordAt(digest, 4)
    const c = wordAt(digest, 8)
    const d = wordAt(digest, 12)
    const base = ((wordAt(digest, 16) >>> 0) % this.#sets) * SET_WORDS
    const words = this.#words
    const doubles = this.#doubles
    this.#lock(base)
    try {
      let lowestAt = -1
      let lowest = Number.POSITIVE_INFINITY
      for (let record = 0; record < SET_RECORDS; record++) {
        const at = base + 2 + record * RECORD_WORDS
        const value = doubles[(at + 4) >> 1]!
        if (
          value !== 0 &&
          words[at] === a &&
          words[at + 1] === b &&
          words[at + 2] === c &&
          words[at + 3] === d
        ) {
          const next = update(value)
          if (next !== undefined) doubles[(at + 4) >> 1] = next
          return true
        }
        if (value < lowest) {
          lowest = value
          lowestAt = at
        }
        // Records are never freed, so all records after the first free one are free too.
        if (value === 0) break
      }
      if (lowest !== 0 && !dispensable(lowest)) return false
      const next = update(0)
      if (next === undefined) return true
      words[lowestAt] = a
      words[lowestAt + 1] = b
      words[lowestAt + 2] = c
      words[lowestAt + 3] = d
      doubles[(lowestAt + 4) >> 1] = next
      return true
    } finally {
      Atomics.store(words, base, 0)
    }
  }

  #digestOf(key: string): string {
    // The digest is a string, because making a buffer costs twice as much as the hash.
    const digest = hash('sha256', this.#secret + key, 'binary')
    if (this.#digests.size >= this.#digestsMax) this.#digests.clear()
    if (this.#digestsMax > 0) this.#digests.set(key, digest)
    return digest
  }

  /**
   * Locks a set. A thread that finds the set locked spins at first, because a set is usually locked for less than a
   * microsecond. Then the thread sleeps briefly between attempts: on a crowded machine, the thread that holds the lock
   * may be waiting for a core.
   */
  #lock(base: number): void {
    const words = this.#words
    for (let spins = 0; spins < SPINS_MAX; spins++) {
      if (Atomics.compareExchange(words, base, 0, 1) === 0) return
    }
    const giveUpAtMs = performance.now() + ABANDONED_MS
    while (Atomics.compareExchange(words, base, 0, 1) !== 0) {
      if (performance.now() > giveUpAtMs) return
      Atomics.wait(words, base, 1, NAP_MS)
    }
  }
}

function wordAt(bytes: string, at: number): number {
  return (
    bytes.charCodeAt(at) |
    (bytes.charCodeAt(at + 1) << 8) |
    (bytes.charCodeAt(at + 2) << 16) |
    (bytes.charCodeAt(at + 3) << 24)
  )
}
