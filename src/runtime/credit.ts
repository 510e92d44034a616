/**
 * Counts the bytes that one end of a channel has sent and the other end (the peer) has not read yet. Both ends keep
 * totals since the channel was opened. Sizes are estimates, because measuring a message would cost as much as sending
 * it. Each batch contains the total that its sender has sent. After the peer has read a batch, its next batch reports
 * this total as read. If the peer has nothing to send, it reports the total in a separate message when the unreported
 * bytes exceed a share of the limit.
 *
 * The limit protects against a peer whose event loop is blocked. It has room for several seconds of events of the
 * busiest market thread. So a pause of the garbage collector or the machine loses no event. The limit is small compared
 * with the memory of a thread.
 */

/** Default limit of unread bytes: about 16 MiB for each direction of each link. */
const UNTAKEN_MAX = 16 * 1024 * 1024

/** Assumed number of bytes of a request without a given size; most requests are signed orders. */
export const REQUEST_BYTES = 512
export const ANSWER_BYTES = 256
export const TOLD_BYTES = 256

/** Share of the limit. If the bytes that were read and not reported exceed it, a separate message reports them. */
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
   * Returns whether a message of `bytes` bytes may be sent. A message larger than the limit may also be sent, if at
   * most `SILENT_PART` of the limit is unread.
   */
  has(bytes: number): boolean {
    const { untaken } = this
    return untaken + bytes <= this.#max || untaken <= this.#max * SILENT_PART
  }

  send(bytes: number): void {
    this.#sent += bytes
  }

  /** Records the totals that the peer reports in a received batch: its sent bytes and its read bytes. */
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
