/**
 * A topic: a chain of messages, each naming the previous one, and the latest of them, kept for clients that return.
 * Positions are the market's sequence numbers or, for topics of several markets, a count of this topic that clients see
 * as an opaque cursor. A topic does not use sockets.
 */

/** A published message. Several may share one position: the fills of one match. */
type Kept = { readonly at: number; readonly after: number; readonly text: string }

export type RingLimits = { readonly messages: number; readonly bytes: number }

/** Messages after a reader's position, up to the newest. */
export type Replay = {
  /** The reader's position: the first message names it as the previous one. */
  readonly from: number
  readonly texts: readonly string[]
}

export class Topic<Member> {
  readonly name: string
  /** Subscribers, whether up to date or not yet. */
  readonly members = new Set<Member>()
  /** Last published position. */
  last: number
  /** Messages published so far. */
  published = 0
  /** Identifies this incarnation of the topic in cursors. */
  readonly epoch: string
  #kept: Kept[] = []
  /** Index of the oldest message that counts; earlier ones are removed from time to time. */
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

  /** Adds a message to the chain. */
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

  /** Starts over at this position: drops all kept messages, so no subscription can resume from an earlier one. */
  rebase(at: number): void {
    this.#kept = []
    this.#first = 0
    this.#bytes = 0
    this.#base = at
    this.last = at
  }

  /**
   * Returns the messages after the position, which must not be ahead of `horizon`. Returns undefined if they are no
   * longer kept.
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

  /** Returns the position of a cursor of this incarnation. */
  positionOf(cursor: string): number | undefined {
    const dot = cursor.lastIndexOf('.')
    if (dot < 0 || cursor.slice(0, dot) !== this.epoch) return undefined
    const digits = cursor.slice(dot + 1)
    return /^[0-9]{1,15}$/.test(digits) ? Number(digits) : undefined
  }
}
