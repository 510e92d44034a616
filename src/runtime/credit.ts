/**
 * Counts the bytes that one end of a channel has sent and the other end (the peer) has not read yet. Both ends count
 * the bytes sent since the channel was opened. Sizes are estimates, because measuring a message would cost as much as
 * sending it. Each batch contains its sender's total. When the peer has read a batch, the peer's next batch reports
 * that total as read. If the peer has nothing to send, it reports the total in a separate message after it has read a
 * certain share of the limit.
 *
 * The limit protects against a peer whose event loop is blocked. It allows several seconds of events of the busiest
 * market thread, so no event is lost in a pause of the garbage collector or the machine. The limit is small compared
 * with the memory of a thread.
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
   * Number of sent bytes that the peer has reported as read (`#takenByPeer`), and number of bytes read from the peer
   * (`#taken`).
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
   * Returns whether `bytes` more bytes may be sent. If at most `SILENT_PART` of the limit is unread, even a
   * message above the limit may be sent.
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

  /** True if the bytes read so far must be reported to the peer, even if no other message is sent. */
  get owesWord(): boolean {
    return this.#taken - this.#reported > this.#max * SILENT_PART
  }

  /** Returns the number of bytes read so far, to be sent with the current batch. */
  tellTaken(): number {
    this.#reported = this.#taken
    return this.#taken
  }
}
