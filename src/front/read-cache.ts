/**
 * Answers that many ask for, kept for a moment as the bytes that go out: numbers that are added up
 * anyway are the same for everybody within it, so that a crowd costs one query. Who asks while one is
 * being made waits for that one. Bounded in entries and in bytes; the oldest go first.
 */

import { isRejection, type Rejection } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import { entityTag } from './entity-tag.ts'
import { writeJson } from './json.ts'
import type { RawReply } from './route.ts'

export type ReadCache = {
  /** The answer of this name: at once where it is known, otherwise made now. */
  read(
    name: string,
    make: () => Promise<object | Rejection>,
  ): RawReply | Promise<RawReply | Rejection>
}

export type ReadCacheOptions = {
  /** How long an answer is good for; with 0 only those who ask at the same time share one. */
  readonly keepMs: number
  readonly entriesMax: number
  readonly bytesMax: number
  readonly clock: Pick<Clock, 'nowMs'>
}

type Kept = { readonly reply: RawReply; readonly bytes: number; readonly untilMs: number }

export function makeReadCache({
  keepMs,
  entriesMax,
  bytesMax,
  clock,
}: ReadCacheOptions): ReadCache {
  const kept = new Map<string, Kept>()
  const underWay = new Map<string, Promise<RawReply | Rejection>>()
  let bytes = 0

  function drop(name: string): void {
    const entry = kept.get(name)
    if (entry === undefined) return
    kept.delete(name)
    bytes -= entry.bytes
  }

  function keep(name: string, reply: RawReply, size: number): void {
    if (keepMs === 0 || size > bytesMax) return
    drop(name)
    kept.set(name, { reply, bytes: size, untilMs: clock.nowMs() + keepMs })
    bytes += size
    for (const oldest of kept.keys()) {
      if (kept.size <= entriesMax && bytes <= bytesMax) break
      drop(oldest)
    }
  }

  async function made(
    name: string,
    make: () => Promise<object | Rejection>,
  ): Promise<RawReply | Rejection> {
    const body = await make()
    if (isRejection(body)) return body
    const raw = Buffer.from(writeJson(body))
    const reply = { status: 200, raw, headers: { etag: entityTag(raw) } }
    keep(name, reply, raw.length)
    return reply
  }

  return {
    read(name, make) {
      const known = kept.get(name)
      if (known !== undefined) {
        if (known.untilMs > clock.nowMs()) return known.reply
        drop(name)
      }
      const waiting = underWay.get(name)
      if (waiting !== undefined) return waiting
      const making = made(name, make).finally(() => underWay.delete(name))
      underWay.set(name, making)
      return making
    },
  }
}
