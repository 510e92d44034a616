/**
 * Answers that many ask for, kept as the bytes that go out until what they are of changes: each is of
 * a version, and of another version it is not found. Bounded in bytes; the one that was asked for
 * longest ago goes first.
 */

import { entityTag } from './entity-tag.ts'
import type { RawReply } from './route.ts'

export type KeptAnswers = {
  /** The answer of this name, where it is of this very version. */
  find(name: string, version: unknown): RawReply | undefined
  /** Keeps it in the place of any other version. Without a tag of its own it gets that of its bytes. */
  keep(name: string, version: unknown, json: string, tag?: string): RawReply
  /** What is kept, names too. */
  readonly bytes: number
}

type Kept = { readonly version: unknown; readonly reply: RawReply; readonly weight: number }

/** What an entry takes besides its name and its body: headers, and its place in the table. */
const ENTRY_BYTES = 300

export function keepAnswers(options: { readonly bytesMax: number }): KeptAnswers {
  /** The one that was asked for last is the last. */
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
