/**
 * Lists whose items are cached as bytes. A list is joined again only when an item changed, and compressed once for all
 * clients, on the thread pool. The number of lists is bounded; the least recently used one is evicted.
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
  /** Returns the list as the answer to the request of this name, in the best accepted encoding. */
  answer(name: string, list: List, accepted: string): RawReply | Promise<RawReply>
}

/** A shorter list is not worth compressing. */
const ZIPPED_BYTES_MIN = 4_096
/** The fastest level: the lists of a busy exchange change quickly. */
const LEVEL = 1
const COMMA = Buffer.from(',')
const GZIP = ['gzip'] as const

const zip = promisify(gzip)

export function joinAnswers(options: { readonly listsMax: number }): JoinedAnswers {
  /** Most recently used last. */
  const lists = new Map<string, Joined>()

  function joined(name: string, list: List): Joined {
    const before = lists.get(name)
    const now = before !== undefined && isSame(before, list) ? before : join(list)
    remember(lists, name, now, options.listsMax)
    return now
  }

  async function zippedReply(list: Joined): Promise<RawReply> {
    list.zipped ??= zip(list.plain, { level: LEVEL })
    const headers = { etag: list.etag, vary: 'accept-encoding', 'content-encoding': 'gzip' }
    return { status: 200, raw: await list.zipped, headers }
  }

  return {
    answer(name, list, accepted) {
      const found = joined(name, list)
      const { plain, etag } = found
      const zips = plain.length >= ZIPPED_BYTES_MIN && encodingFor(accepted, GZIP) !== undefined
      if (zips) return zippedReply(found)
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
  const { before, items, after } = list
  const pieces: Uint8Array[] = [Buffer.from(before)]
  const tags: string[] = []
  for (const [at, { raw, headers }] of items.entries()) {
    if (at > 0) pieces.push(COMMA)
    pieces.push(typeof raw === 'string' ? Buffer.from(raw) : raw)
    // An item's tag stands for its bytes, which are many times as long.
    tags.push(headers?.etag ?? entityTag(raw))
  }
  pieces.push(Buffer.from(after))
  const etag = entityTag(`${before}${tags.join(',')}${after}`)
  return { ...list, plain: Buffer.concat(pieces), etag, zipped: undefined }
}
