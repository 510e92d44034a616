/**
 * Server-sent events (`text/event-stream`) from bytes that come in pieces. `eventsource-parser` knows
 * the format. What it leaves to us is here: an event without an id has the id of the one before, and
 * an event that has no end is not gathered for ever.
 */

import { createParser } from 'eventsource-parser'

type StreamEvent = { readonly id: string; readonly event: string; readonly data: string }

/** Characters of one event that was not finished; a sender that goes beyond is not worth reading. */
const PENDING_CHARS_MAX = 1_048_576

export class EventStreamReader {
  #events: StreamEvent[] = []
  readonly #decoder = new TextDecoder()
  readonly #parser = createParser({
    maxBufferSize: PENDING_CHARS_MAX,
    onEvent: ({ id = this.lastId, event = 'message', data }) => {
      this.lastId = id
      this.#events.push({ id, event, data })
    },
    onRetry: (retryMs) => {
      this.retryMs = retryMs
    },
    onError({ type }) {
      // Fields that the standard does not know are passed over, as it says.
      if (type === 'max-buffer-size-exceeded') {
        throw new RangeError('an event of the stream has no end')
      }
    },
  })
  /** The last id the stream named; it stays until another one comes. */
  lastId = ''
  /** What the stream asked for before reconnecting. */
  retryMs: number | undefined

  /** The events that these bytes complete. */
  take(bytes: Uint8Array): StreamEvent[] {
    this.#events = []
    this.#parser.feed(this.#decoder.decode(bytes, { stream: true }))
    return this.#events
  }
}
