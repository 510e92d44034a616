/**
 * One thing that can be subscribed to: a chain of messages, each naming the one before it, and the
 * latest of them, kept for clients that come back. The positions of a chain are the market's sequence
 * numbers, or, where several markets meet in one topic, a count of this topic alone that goes out as
 * an opaque cursor. A topic knows nothing of sockets.
 */

/** A message as it was published. Several may stand at one position: the fills of one match. */
type Kept = { readonly at: number; readonly after: number; readonly text: string }

export type RingLimits = { readonly messages: number; readonly bytes: number }

/** What lies between a reader's position and the end of the chain. */
export type Replay = {
  /** Where the reader stands: what the first message names as the one before it. */
  readonly from: number
  readonly texts: readonly string[]
}

export class Topic<Member> {
  readonly name: string
  /** Those who subscribed, in step with it or waiting to be. */
  readonly members = new Set<Member>()
  /** The last position that was published. */
  last: number
  /** Messages published so far. */
  published = 0
  /** Names this life of the topic in cursors. */
  readonly epoch: string
  #kept: Kept[] = []
  /** Index of the oldest that still counts; those before it are cut off now and then. */
  #first = 0
  #bytes = 0
  /** Everything after this position is kept. */
  #base: number

  constructor(name: string, last: number, epoch = '') {
    this.name = name
    this.last = last
    this.#base = last
    this.epoch = epoch
  }

  get keptBytes(): number {
    return this.#bytes
  }

  /** Takes a message into the chain. */
  push(text: string, at: number, limits: RingLimits): void {
    this.#kept.push({ at, after: this.last, text })
    this.#bytes += text.length
    this.last = at
    this.published++
    while (
      this.#kept.length - this.#first > limits.messages ||
      (this.#bytes > limits.bytes && this.#first < this.#kept.length)
    ) {
      const oldest = this.#kept[this.#first++]!
      this.#base = oldest.at
      this.#bytes -= oldest.text.length
    }
    if (this.#first > 64 && this.#first * 2 > this.#kept.length) {
      this.#kept = this.#kept.slice(this.#first)
      this.#first = 0
    }
  }

  /** Starts the chain anew: what was published before does not lead to this position. */
  rebase(at: number): void {
    this.#kept = []
    this.#first = 0
    this.#bytes = 0
    this.#base = at
    this.last = at
  }

  /**
   * What followed the position, which must not be ahead of `horizon`; undefined when that is not
   * known any more.
   */
  replay(since: number, horizon: number): Replay | undefined {
    if (since < this.#base || since > horizon) return undefined
    let at = this.#kept.length
    while (at > this.#first && this.#kept[at - 1]!.at > since) at--
    const texts: string[] = []
    const from = this.#kept[at]?.after ?? this.last
    for (let next = at; next < this.#kept.length; next++) texts.push(this.#kept[next]!.text)
    return { from, texts }
  }

  cursor(at: number): string {
    return `${this.epoch}.${at}`
  }

  /** The position that a cursor of this topic's life names. */
  positionOf(cursor: string): number | undefined {
    const dot = cursor.lastIndexOf('.')
    if (dot < 0 || cursor.slice(0, dot) !== this.epoch) return undefined
    const digits = cursor.slice(dot + 1)
    return /^[0-9]{1,15}$/.test(digits) ? Number(digits) : undefined
  }
}
