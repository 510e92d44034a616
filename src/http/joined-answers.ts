/**
 * Answers that are lists of cached items. The bytes of the items are joined to one answer, which is reused until an
 * item changes. The answer is compressed once for all clients, on the thread pool. If a long list changes faster than
 * it can be compressed, it is sometimes sent uncompressed. The number of cached lists is bounded, and the least
 * recently used list is evicted.
 */

import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { remember } from '#domain/remember.ts'
import { entityTag } from './entity-tag.ts'
import { encodingFor } from './header-values.ts'
import type { RawReply } from './route.ts'

export type List = {
  /** The text before and after the items. */
  readonly before: string
  /** Cached items, each with its tag. */
  readonly items: readonly RawReply[]
  readonly after: string
}

type Joined = List & {
  readonly plain: Buffer
  readonly etag: string
  zipped: Promise<Buffer> | undefined
}

export type JoinedAnswers = {
  /**
   * Returns the list as an answer, in the best encoding that the client accepts. `name` identifies the list in the
   * cache.
   */
  answer(name: string, list: List, accepted: string): RawReply | Promise<RawReply>
}

/** Minimum size in bytes of a list that is compressed. */
const ZIPPED_BYTES_MIN = 4_096
/**
 * Minimum size in bytes of a long list, which takes milliseconds to compress. After each compression of a long list, a
 * pause of `PAUSE_TIMES` times its duration follows. So such compressions take at most a quarter of the time.
 */
const LONG_BYTES = 128 * 1024
/** Pause after compressing a long list, as a multiple of the time that the compression took. */
const PAUSE_TIMES = 3
/** The fastest compression level, because the lists of a busy exchange change quickly. */
const LEVEL = 1
const COMMA = ','.charCodeAt(0)
const GZIP = ['gzip'] as const

const zip = promisify(gzip)

export function joinAnswers(options: {
  readonly listsMax: number
  readonly nowMs?: () => number
}): JoinedAnswers {
  const { nowMs = () => performance.now() } = options
  /** Lists in the order of their last use, the most recent last. */
  const lists = new Map<string, Joined>()

  function joined(name: string, list: List): Joined {
    const before = lists.get(name)
    const now = before !== undefined && isSame(before, list) ? before : join(list)
    remember(lists, name, now, options.listsMax)
    return now
  }

  /** Time from which long lists may be compressed again. */
  let freeAtMs = Number.NEGATIVE_INFINITY

  function mayZip({ plain, zipped }: Joined): boolean {
    return zipped !== undefined || plain.length < LONG_BYTES || nowMs() >= freeAtMs
  }

  async function zipped({ plain }: Joined): Promise<Buffer> {
    if (plain.length < LONG_BYTES) return zip(plain, { level: LEVEL })
    const beganMs = nowMs()
    freeAtMs = Number.POSITIVE_INFINITY
    try {
      return await zip(plain, { level: LEVEL })
    } finally {
      freeAtMs = nowMs() + PAUSE_TIMES * (nowMs() - beganMs)
    }
  }

  async function zippedReply(list: Joined): Promise<RawReply> {
    list.zipped ??= zipped(list)
    const headers = { etag: list.etag, vary: 'accept-encoding', 'content-encoding': 'gzip' }
    return { status: 200, raw: await list.zipped, headers }
  }

  return {
    answer(name, list, accepted) {
      const found = joined(name, list)
      const { plain, etag } = found
      const zips = plain.length >= ZIPPED_BYTES_MIN && encodingFor(accepted, GZIP) !== undefined
      if (zips && mayZip(found)) return zippedReply(found)
      return { status: 200, raw: plain, headers: { etag, vary: 'accept-encoding' } }
    },
  }
}

function isSame(a: List, b: List): boolean {
  if (a.items === b.items) return true
  if (a.before !== b.before || a.after !== b.after || a.items.length !== b.items.length)
    return false
  return a.items.every((item, at) => item === b.items[at])
}

function join(list: List): Joined {
  const [before, after] = [Buffer.from(list.before), Buffer.from(list.after)]
  const items = list.items.map(({ raw }) => (typeof raw === 'string' ? Buffer.from(raw) : raw))
  const commas = Math.max(0, items.length - 1)
  let length = before.length + commas + after.length
  for (const item of items) length += item.length
  const plain = Buffer.allocUnsafeSlow(length)
  plain.set(before)
  let end = before.length
  for (const [at, item] of items.entries()) {
    if (at > 0) plain[end++] = COMMA
    plain.set(item, end)
    end += item.length
  }
  plain.set(after, end)
  // Hashes the tags of the items instead of their bytes, because the bytes are many times longer.
  const tags = list.items.map(({ raw, headers }) => headers?.etag ?? entityTag(raw))
  const etag = entityTag(`${list.before}${tags.join(',')}${list.after}`)
  return { ...list, plain, etag, zipped: undefined }
}
