/**
 * Sends server-sent events to very many readers. Each event is one text, which is written to every reader of its topic.
 * The hub never waits for a slow reader. While a reader has unsent data, it gets no further events. Once the data has
 * been sent, it gets only the newest event that it missed. So at most one event per reader waits here, besides the
 * system's buffers. A reader whose data stays unsent for `lagMsMax` is disconnected.
 */

import type { HttpResponse } from 'uWebSockets.js'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import { makeRangeCounts } from './range-counts.ts'
import type { Takeover } from './route.ts'

export type SseSettings = {
  readonly readersMax: number
  /** Maximum number of readers of one IPv4 address or IPv6 /64; unlimited by default. */
  readonly readersPerIpMax?: number
  /** Maximum number of readers of an IPv6 /48, as a multiple of `readersPerIpMax`; unlimited by default. */
  readonly siteTimes?: number
  readonly keepAliveMs: number
  readonly lagMsMax: number
}

type SseFigures = {
  readonly readers: number
  readonly published: number
  /** Number of events that slow readers skipped. */
  readonly skipped: number
  /** Number of readers that were disconnected because they were too slow. */
  readonly cut: number
}

export type SseHub = {
  /** Returns a rejection if this IP address must not open a further stream, otherwise undefined. */
  flawOf(ip: string): Rejection | undefined
  /** Adds a reader and writes the first events to it. */
  open(
    topic: string,
    takeover: Takeover,
    reader: { readonly ip: string; readonly first: string },
  ): void
  publish(topic: string, text: string): void
  /** Ends every stream cleanly and accepts no new reader. */
  shutdown(): void
  figures(): SseFigures
}

type Reader = {
  readonly res: HttpResponse
  readonly topic: Topic
  readonly ip: string
  /** Time since which the reader has had unsent data; undefined if the reader is up to date. */
  slowSinceMs: number | undefined
  /** The newest event published while data was unsent; it replaces older ones. */
  missed: Buffer | undefined
}

type Topic = {
  readonly name: string
  readonly readers: Set<Reader>
  publishedAtMs: number
}

const TOO_MANY = reject(
  'RATE_LIMITED',
  undefined,
  'too many streams of this IP address are open: close one first',
)
const CONTENT_TYPE = 'text/event-stream'
const COMMENT = Buffer.from(': \n\n')
const SWEEPS_PER_KEEP_ALIVE = 4

/** Writes to a reader. If the data cannot be sent at once, adds the reader to `slow` and records the time. */
function writeTo(reader: Reader, bytes: Buffer, slow: Set<Reader>, clock: Clock): void {
  const { res } = reader
  let taken = true
  // The write is corked, so that the chunk and its HTTP framing are sent together.
  res.cork(() => {
    taken = res.write(bytes)
  })
  if (taken) {
    if (reader.slowSinceMs !== undefined) slow.delete(reader)
    reader.slowSinceMs = undefined
  } else {
    reader.slowSinceMs ??= clock.nowMs()
    slow.add(reader)
  }
}

export function makeSseHub(settings: SseSettings, clock: Clock): SseHub {
  const topics = new Map<string, Topic>()
  const slow = new Set<Reader>()
  const { readersPerIpMax: perRangeMax = Number.POSITIVE_INFINITY, siteTimes } = settings
  const ranges = makeRangeCounts({ perRangeMax, siteTimes })
  let readers = 0
  let published = 0
  let skipped = 0
  let cut = 0
  let closing = false
  let sweeping = false
  const write = (reader: Reader, bytes: Buffer): void => writeTo(reader, bytes, slow, clock)

  function leave(reader: Reader): void {
    const { topic } = reader
    if (!topic.readers.delete(reader)) return
    slow.delete(reader)
    ranges.add(reader.ip, -1)
    readers--
    if (topic.readers.size === 0) topics.delete(topic.name)
  }

  /**
   * Disconnects readers whose data has been unsent for `lagMsMax`. If a topic had no event for `keepAliveMs`, sends a
   * comment to its readers that have no unsent data, to keep their connections open.
   */
  function sweep(): void {
    const nowMs = clock.nowMs()
    for (const reader of slow) {
      if (nowMs - (reader.slowSinceMs ?? nowMs) < settings.lagMsMax) continue
      cut++
      reader.res.close()
    }
    for (const topic of topics.values()) {
      if (nowMs - topic.publishedAtMs < settings.keepAliveMs) continue
      topic.publishedAtMs = nowMs
      for (const reader of topic.readers) {
        if (reader.slowSinceMs === undefined) write(reader, COMMENT)
      }
    }
    sweeping = readers > 0
    if (sweeping) clock.after(settings.keepAliveMs / SWEEPS_PER_KEEP_ALIVE, sweep)
  }

  return {
    flawOf(ip) {
      if (closing || readers >= settings.readersMax) return reject('OVERLOADED')
      return ranges.isFull(ip) ? TOO_MANY : undefined
    },
    open(name, takeover, { ip, first }) {
      let topic = topics.get(name)
      if (topic === undefined) {
        topic = { name, readers: new Set(), publishedAtMs: clock.nowMs() }
        topics.set(name, topic)
      }
      const { res } = takeover
      const reader: Reader = { res, topic, ip, slowSinceMs: undefined, missed: undefined }
      topic.readers.add(reader)
      ranges.add(ip, 1)
      readers++
      takeover.onAborted(() => leave(reader))
      // The library calls this handler when the client can receive more data. The library sends the rest of its own
      // buffer only with the next write. So this handler always writes something: the missed event, or a comment if the
      // reader missed no event.
      res.onWritable(() => {
        const next = reader.missed ?? COMMENT
        reader.missed = undefined
        write(reader, next)
        return true
      })
      res.cork(() => {
        takeover.writeHead(CONTENT_TYPE)
        // This header turns off buffering in proxies, which would delay the events.
        res.writeHeader('x-accel-buffering', 'no')
        res.write(first === '' ? COMMENT : first)
      })
      if (!sweeping) {
        sweeping = true
        clock.after(settings.keepAliveMs / SWEEPS_PER_KEEP_ALIVE, sweep)
      }
    },
    publish(name, text) {
      const topic = topics.get(name)
      if (topic === undefined) return
      published++
      topic.publishedAtMs = clock.nowMs()
      const bytes = Buffer.from(text)
      for (const reader of topic.readers) {
        if (reader.slowSinceMs === undefined) write(reader, bytes)
        else {
          reader.missed = bytes
          skipped++
        }
      }
    },
    shutdown() {
      closing = true
      for (const topic of [...topics.values()]) {
        for (const reader of [...topic.readers]) {
          leave(reader)
          reader.res.cork(() => void reader.res.end('', true))
        }
      }
    },
    figures: () => ({ readers, published, skipped, cut }),
  }
}
