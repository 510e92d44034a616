/**
 * Answers that many ask for, shared as the bytes that go out: numbers that are added up anyway are
 * the same for every client within a moment.
 */

import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import { entityTag } from './entity-tag.ts'
import { writeJson } from './json.ts'
import type { RawReply } from './route.ts'
import { shareReads } from './shared-reads.ts'

export type ReadCache = {
  /** The answer of this name: at once where it is known, otherwise made now. */
  read(
    name: string,
    make: () => Promise<object | Rejection>,
  ): RawReply | Rejection | Promise<RawReply | Rejection>
}

type ReadCacheOptions = {
  /** How long an answer is good for; with 0 only those who ask at the same time share one. */
  readonly keepMs: number
  readonly entriesMax: number
  readonly bytesMax: number
  readonly clock: Pick<Clock, 'nowMs'>
}

export function makeReadCache(options: ReadCacheOptions): ReadCache {
  const { keepMs, entriesMax, bytesMax, clock } = options
  const replies = shareReads<RawReply | Rejection>({
    keepMs,
    entriesMax,
    clock,
    weightMax: bytesMax,
    weigh: (reply) => (isRejection(reply) ? Number.POSITIVE_INFINITY : reply.raw.length),
  })

  async function made(make: () => Promise<object | Rejection>): Promise<RawReply | Rejection> {
    const body = await make()
    if (isRejection(body)) return body
    const raw = Buffer.from(writeJson(body))
    return { status: 200, raw, headers: { etag: entityTag(raw) } }
  }

  return { read: (name, make) => replies.read(name, () => made(make)) }
}
