/**
 * Reads the text of server-sent events (`text/event-stream`) as it comes in pieces, by the rules of
 * the HTML standard. Comments count as signs of life and as nothing else.
 */

type StreamEvent = { readonly id: string; readonly event: string; readonly data: string }

/** Characters of one event that was not finished; a sender that goes beyond is not worth reading. */
const PENDING_CHARS_MAX = 1_048_576

export class EventStreamReader {
  #rest = ''
  #data: string[] = []
  #event = ''
  #pending = 0
  #afterReturn = false
  /** The last id the stream named; it stays until another one comes. */
  lastId = ''
  /** What the stream asked for before reconnecting. */
  retryMs: number | undefined

  /** The events that this piece completes. */
  take(piece: string): StreamEvent[] {
    const events: StreamEvent[] = []
    let text = this.#rest + piece
    // A line may end in CR and LF of two pieces; that is one end, not two.
    if (this.#afterReturn && text.startsWith('\n')) text = text.slice(1)
    if (text !== '') this.#afterReturn = false
    let at = 0
    for (;;) {
      const end = lineEnd(text, at)
      if (end < 0) break
      const event = this.#line(text.slice(at, end))
      if (event !== undefined) events.push(event)
      at = end + 1
      if (text[end] === '\r') {
        if (text[at] === '\n') at++
        else if (at === text.length) this.#afterReturn = true
      }
    }
    this.#rest = text.slice(at)
    if (this.#rest.length + this.#pending > PENDING_CHARS_MAX) {
      throw new RangeError('an event of the stream has no end')
    }
    return events
  }

  #line(line: string): StreamEvent | undefined {
    if (line === '') return this.#dispatch()
    const colon = line.indexOf(':')
    if (colon === 0) return undefined
    const field = colon < 0 ? line : line.slice(0, colon)
    const raw = colon < 0 ? '' : line.slice(colon + 1)
    const value = raw.startsWith(' ') ? raw.slice(1) : raw
    if (field === 'data') {
      this.#data.push(value)
      this.#pending += value.length
    } else if (field === 'event') this.#event = value
    else if (field === 'id' && !value.includes('\0')) this.lastId = value
    else if (field === 'retry' && /^[0-9]{1,9}$/.test(value)) this.retryMs = Number(value)
    return undefined
  }

  #dispatch(): StreamEvent | undefined {
    const data = this.#data
    const event = this.#event
    this.#data = []
    this.#event = ''
    this.#pending = 0
    if (data.length === 0) return undefined
    return { id: this.lastId, event: event || 'message', data: data.join('\n') }
  }
}

function lineEnd(text: string, from: number): number {
  for (let at = from; at < text.length; at++) {
    const character = text[at]
    if (character === '\n' || character === '\r') return at
  }
  return -1
}
