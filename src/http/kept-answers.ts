/**
 * Cache of frequent answers as response bytes. An entry is valid for one version of its data; a lookup with another
 * version finds nothing. The cache is bounded in bytes, and the least recently used entry is evicted first.
 */

import { entityTag } from './entity-tag.ts'
import type { RawReply } from './route.ts'

export type KeptAnswers = {
  /** Returns the answer of this name if it was stored with exactly this version. */
  find(name: string, version: unknown): RawReply | undefined
  /**
   * Stores the answer in place of any other version. If no tag is given, it is computed from the bytes of the answer.
   */
  keep(name: string, version: unknown, json: string, tag?: string): RawReply
  /** Size of all entries in bytes, including their names. */
  readonly bytes: number
}

type Kept = { readonly version: unknown; readonly reply: RawReply; readonly weight: number }

/** Overhead of an entry in bytes, besides its name and body. */
const ENTRY_BYTES = 300

export function keepAnswers(options: { readonly bytesMax: number }): KeptAnswers {
  /** Entries, least recently used first. */
  const kept = new Map<string, Kept>()
  let total = 0

  function drop(name: string, { weight }: Kept): void {
    kept.delete(name)
    total -= weight
  }

  return {
    find(name, version) {
      const known = kept.get(name)
      if (known === undefined) return undefined
      if (known.version !== version) {
        drop(name, known)
        return undefined
      }
      kept.delete(name)
      kept.set(name, known)
      return known.reply
    },
    keep(name, version, json, tag) {
      const raw = Buffer.from(json)
      const reply = { status: 200, raw, headers: { etag: tag ?? entityTag(raw) } }
      const before = kept.get(name)
      if (before !== undefined) drop(name, before)
      const weight = raw.length + name.length + ENTRY_BYTES
      if (weight > options.bytesMax) return reply
      kept.set(name, { version, reply, weight })
      total += weight
      for (const [oldest, entry] of kept) {
        if (total <= options.bytesMax) break
        drop(oldest, entry)
      }
      return reply
    },
    get bytes() {
      return total
    },
  }
}
