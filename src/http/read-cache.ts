/**
 * Cache of frequent answers as response bytes. An answer is computed once and sent to every client for a short time.
 */

import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import { entityTag } from './entity-tag.ts'
import { writeJson } from './json.ts'
import type { RawReply } from './route.ts'
import { shareReads } from './shared-reads.ts'

export type ReadCache = {
  /** Returns the answer of this name: immediately if it is cached, otherwise after computing it. */
  read(
    name: string,
    make: () => Promise<object | Rejection>,
  ): RawReply | Rejection | Promise<RawReply | Rejection>
  /** Same as `read`, for an answer that `make` returns as JSON text. */
  readJson(
    name: string,
    make: () => Promise<string | Rejection>,
  ): RawReply | Rejection | Promise<RawReply | Rejection>
}

type ReadCacheOptions = {
  /** Time in milliseconds for which an answer is reused. With 0, only simultaneous requests share an answer. */
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

  async function made(make: () => Promise<string | Rejection>): Promise<RawReply | Rejection> {
    const json = await make()
    if (isRejection(json)) return json
    const raw = Buffer.from(json)
    return { status: 200, raw, headers: { etag: entityTag(raw) } }
  }

  const readJson: ReadCache['readJson'] = (name, make) => replies.read(name, () => made(make))
  return {
    readJson,
    read: (name, make) =>
      readJson(name, async () => {
        const body = await make()
        return isRejection(body) ? body : writeJson(body)
      }),
  }
}
