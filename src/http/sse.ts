/**
 * Server-sent events to very many readers: one text per event, written to every reader of its topic.
 * Nothing waits for a slow reader. One that does not take what it was sent is passed over until it
 * does, then gets the newest. It never has more than one event waiting besides what the system's own
 * buffers hold, and a reader that takes nothing for too long is cut off.
 */

import type { HttpResponse } from 'uWebSockets.js'
import type { Clock } from '#runtime/clock.ts'
import type { Takeover } from './route.ts'

export type SseSettings = {
  readonly readersMax: number
  readonly keepAliveMs: number
  readonly lagMsMax: number
}

type SseFigures = {
  readonly readers: number
  readonly published: number
  /** Events that a slow reader was passed over with. */
  readonly skipped: number
  /** Readers that were cut off. */
  readonly cut: number
}

export type SseHub = {
  /** Whether one more reader can be taken. */
  hasRoom(): boolean
  /** Takes a reader over, and writes the first events to it at once. */
  open(topic: string, takeover: Takeover, first: string): void
  publish(topic: string, text: string): void
  /** Ends every reader in good order; no new reader is taken. */
  shutdown(): void
  figures(): SseFigures
}

type Reader = {
  readonly res: HttpResponse
  readonly topic: Topic
  /** Since when it has not taken what it was sent. */
  slowSinceMs: number | undefined
  /** What was published meanwhile; the newest stands for all. */
  missed: Buffer | undefined
}

type Topic = {
  readonly name: string
  readonly readers: Set<Reader>
  publishedAtMs: number
}

const CONTENT_TYPE = 'text/event-stream'
const COMMENT = Buffer.from(': \n\n')
const SWEEPS_PER_KEEP_ALIVE = 4

export function makeSseHub(settings: SseSettings, clock: Clock): SseHub {
  const topics = new Map<string, Topic>()
  const slow = new Set<Reader>()
  let readers = 0
  let published = 0
  let skipped = 0
  let cut = 0
  let closing = false
  let sweeping = false

  function write(reader: Reader, bytes: Buffer): void {
    const { res } = reader
    let taken = true
    // Corked, so that the frame of the chunk and the chunk leave as one.
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

  function leave(reader: Reader): void {
    const { topic } = reader
    if (!topic.readers.delete(reader)) return
    slow.delete(reader)
    readers--
    if (topic.readers.size === 0) topics.delete(topic.name)
  }

  /** Cuts off the readers that are too slow, and shows the others that the connection lives. */
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
    hasRoom: () => !closing && readers < settings.readersMax,
    open(name, takeover, first) {
      let topic = topics.get(name)
      if (topic === undefined) {
        topic = { name, readers: new Set(), publishedAtMs: clock.nowMs() }
        topics.set(name, topic)
      }
      const { res } = takeover
      const reader: Reader = { res, topic, slowSinceMs: undefined, missed: undefined }
      topic.readers.add(reader)
      readers++
      takeover.onAborted(() => leave(reader))
      // With this the library leaves it to us to empty what it holds; any write does that.
      res.onWritable(() => {
        const next = reader.missed ?? COMMENT
        reader.missed = undefined
        write(reader, next)
        return true
      })
      res.cork(() => {
        takeover.writeHead(CONTENT_TYPE)
        // A proxy that gathers answers would keep the events.
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
