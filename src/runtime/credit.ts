/**
 * Counts the bytes that one end of a channel has sent and the other end (the peer) has not read yet. Both ends count
 * the bytes sent since the beginning. Sizes are estimates: measuring a message would cost as much as sending it. Each
 * batch has its sender's total. The peer returns that total as taken with its own next batch, or in a separate message
 * after a part of the limit.
 *
 * The limit protects against a peer whose event loop does not turn. It covers seconds of events of the busiest market
 * thread, so a pause of the garbage collector or the machine loses nothing; and it is small beside the memory of a
 * thread.
 */

/** Default limit of unread bytes: about 16 MiB for each direction of each link. */
const UNTAKEN_MAX = 16 * 1024 * 1024

/** Assumed number of bytes of a message whose size is not given; most requests are signed orders. */
export const REQUEST_BYTES = 512
export const ANSWER_BYTES = 256
export const TOLD_BYTES = 256

/** When the bytes read since the last report exceed this share of the limit, a separate message reports them. */
const SILENT_PART = 1 / 8

export class Credit {
  readonly #max: number
  #sent = 0
  /**
   * Number of bytes sent here that the peer has reported as read, and number of bytes from the peer that were read
   * here.
   */
  #takenByPeer = 0
  #taken = 0
  #reported = 0

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

  /** Records the peer's totals from a batch that is read now. */
  received(sentByPeer: number, takenByPeer: number): void {
    this.#taken = sentByPeer
    this.#takenByPeer = takenByPeer
  }

  /** True if the peer must be notified how many bytes were read, even without other messages. */
  get owesWord(): boolean {
    return this.#taken - this.#reported > this.#max * SILENT_PART
  }

  /** Returns the number of bytes read so far, to be sent with the current batch. */
  tellTaken(): number {
    this.#reported = this.#taken
    return this.#taken
  }
}
