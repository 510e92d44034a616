/**
 * Bytes that one end of a channel has sent and its peer has not taken yet. Both ends count the bytes sent since the
 * beginning. Sizes are estimates: measuring a message would cost as much as sending it. Each batch has its sender's
 * total. The peer returns that total as taken with its own next batch, or in a separate message after a part of the
 * limit.
 *
 * The limit protects against a peer whose event loop does not turn. It covers seconds of events of the busiest market
 * thread, so a pause of the garbage collector or the machine loses nothing; and it is small beside the memory of a
 * thread.
 */

/** About 16 MiB for each direction of each link. */
const UNTAKEN_MAX = 16 * 1024 * 1024

/** Assumed size of a message that gives no other; a signed order is the usual request. */
export const REQUEST_BYTES = 512
export const ANSWER_BYTES = 256
export const TOLD_BYTES = 256

/** Share of the limit that is taken before a separate message reports it. */
const SILENT_PART = 1 / 8

export class Credit {
  readonly #max: number
  #sent = 0
  /** Bytes of ours that the peer has reported as taken, and bytes of the peer that were taken here. */
  #takenByPeer = 0
  #taken = 0
  #told = 0

  constructor(max: number = UNTAKEN_MAX) {
    this.#max = max
  }

  get sent(): number {
    return this.#sent
  }

  get untaken(): number {
    return this.#sent - this.#takenByPeer
  }

  /** Returns whether this many more bytes may be sent. If nothing is in flight, anything may be sent. */
  has(bytes: number): boolean {
    const { untaken } = this
    return untaken + bytes <= this.#max || untaken <= this.#max * SILENT_PART
  }

  send(bytes: number): void {
    this.#sent += bytes
  }

  /** Records the peer's totals of a batch that is taken now. */
  heard(sentByPeer: number, takenByPeer: number): void {
    this.#taken = sentByPeer
    this.#takenByPeer = takenByPeer
  }

  /** True if the peer needs a report of taken bytes, even without other messages. */
  get owesWord(): boolean {
    return this.#taken - this.#told > this.#max * SILENT_PART
  }

  /** Returns the bytes taken so far, for the batch that is sent now. */
  tellTaken(): number {
    this.#told = this.#taken
    return this.#taken
  }
}
