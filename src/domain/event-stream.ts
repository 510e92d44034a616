/**
 * Parses server-sent events (`text/event-stream`) from chunks of bytes, with the library `eventsource-parser`. This
 * file adds two things: an event without an id gets the id of the previous event, and an unfinished event has a maximum
 * size.
 */

import { createParser } from 'eventsource-parser'

type StreamEvent = { readonly id: string; readonly event: string; readonly data: string }

/** Maximum number of characters of an unfinished event; a longer event makes the parser throw. */
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
      // Unknown fields are ignored, as the standard requires. Only an overlong event is an error.
      if (type === 'max-buffer-size-exceeded') {
        throw new RangeError(`an event of the stream exceeds ${PENDING_CHARS_MAX} characters`)
      }
    },
  })
  /** Id of the newest event that had an id. */
  lastId = ''
  /** Pause before reconnecting, in milliseconds, as requested by the stream. */
  retryMs: number | undefined

  /** Returns the events that these bytes complete. */
  take(bytes: Uint8Array): StreamEvent[] {
    this.#events = []
    this.#parser.feed(this.#decoder.decode(bytes, { stream: true }))
    return this.#events
  }
}
