/**
 * A topic: a chain of messages in which each message names the position of the previous one. The latest messages are
 * kept for clients that reconnect. Positions are the sequence numbers of one market's log, or the topic's own count,
 * which clients see as an opaque cursor. A topic does not use sockets.
 */

/** A published message. The messages about the fills of one match share one position. */
type Kept = { readonly at: number; readonly after: number; readonly text: string }

export type RingLimits = { readonly messages: number; readonly bytes: number }

/** Messages after a reader's position, up to the newest. */
export type Replay = {
  /** The reader's position. The first message names this position as its previous one. */
  readonly from: number
  readonly texts: readonly string[]
}

export class Topic<Member> {
  readonly name: string
  /** Subscribers, including those that are not up to date yet. */
  readonly members = new Set<Member>()
  /** Last published position. */
  last: number
  /** Number of messages published so far. */
  published = 0
  /** Identifies this incarnation of the topic in cursors. */
  readonly epoch: string
  #kept: Kept[] = []
  /**
   * Index of the oldest kept message. Earlier entries of the array are dropped messages; they are removed from time to
   * time.
   */
  #first = 0
  #bytes = 0
  /** All messages after this position are kept. */
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

  /**
   * Drops all kept messages and continues at this position, so that no subscriber can resume from an earlier position.
   */
  rebase(at: number): void {
    this.#kept = []
    this.#first = 0
    this.#bytes = 0
    this.#base = at
    this.last = at
  }

  /**
   * Returns the messages after `since`. Returns undefined if some of them are no longer kept, or if `since` is greater
   * than `horizon`.
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

  /** Returns the position in a cursor; undefined if the cursor is malformed or belongs to another incarnation. */
  positionOf(cursor: string): number | undefined {
    const dot = cursor.lastIndexOf('.')
    if (dot < 0 || cursor.slice(0, dot) !== this.epoch) return undefined
    const digits = cursor.slice(dot + 1)
    return /^[0-9]{1,15}$/.test(digits) ? Number(digits) : undefined
  }
}
