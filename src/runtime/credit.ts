/**
 * Counts the bytes that one end of a channel has sent and the other end (the peer) has not read yet. Both ends count
 * the bytes sent since the channel was opened. Sizes are estimates, because measuring a message would cost as much as
 * sending it. Each batch has its sender's total. The peer reports that total as taken, in its own next batch. If it has
 * nothing to send, it reports the total in a separate message after it has read a certain part of the limit.
 *
 * The limit protects against a peer whose event loop is blocked. The limit allows seconds of events of the busiest
 * market thread, so a pause of the garbage collector or the machine loses nothing. It is small compared with the memory
 * of a thread.
 */

/** Default limit of unread bytes: about 16 MiB for each direction of each link. */
const UNTAKEN_MAX = 16 * 1024 * 1024

/** Assumed number of bytes of a request without a given size; most requests are signed orders. */
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

  /**
   * Returns whether `bytes` more bytes may be sent. If the peer has read nearly everything, even a message above the
   * limit may be sent.
   */
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

  /** True if the peer must learn how many bytes were read here, even if no other message is sent. */
  get owesWord(): boolean {
    return this.#taken - this.#reported > this.#max * SILENT_PART
  }

  /** Returns the number of bytes read so far, to be sent with the current batch. */
  tellTaken(): number {
    this.#reported = this.#taken
    return this.#taken
  }
}
