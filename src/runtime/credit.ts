/**
 * How much of what one end of a channel has sent its peer has not taken yet. Both ends count what was
 * sent since the beginning, in bytes that are estimated: a message travels as it is, and to measure it
 * would cost as much as to send it. Each batch says how much its sender had sent with it, which the
 * peer says back with the next batch of its own as taken, or after a part of the limit by itself.
 *
 * The limit is there for a peer whose event loop does not turn. It holds what the busiest market thread
 * tells within seconds, so that a pause of the collector or of the machine loses nothing, and is little
 * beside the memory of a thread.
 */

/** About 16 MiB for each direction of each link. */
const UNTAKEN_MAX = 16 * 1024 * 1024

/** What messages take that say nothing else: a signed order is the usual request. */
export const REQUEST_BYTES = 512
export const ANSWER_BYTES = 256
export const TOLD_BYTES = 256

/** A part of the limit this small is taken without a word, unless there is something to say anyway. */
const SILENT_PART = 1 / 8

export class Credit {
  readonly #max: number
  #sent = 0
  /** What the peer has said that it took, and what it took of ours. */
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

  /** Whether so much more may be sent. Where nothing is under way, anything may. */
  has(bytes: number): boolean {
    const { untaken } = this
    return untaken + bytes <= this.#max || untaken <= this.#max * SILENT_PART
  }

  send(bytes: number): void {
    this.#sent += bytes
  }

  /** What the peer had sent with a batch that is taken now, and had taken of ours. */
  heard(sentByPeer: number, takenByPeer: number): void {
    this.#taken = sentByPeer
    this.#takenByPeer = takenByPeer
  }

  /** Whether the peer should be told what was taken, even though there is nothing else to say. */
  get owesWord(): boolean {
    return this.#taken - this.#told > this.#max * SILENT_PART
  }

  /** How much was taken, which is told with the batch that is sent now. */
  tellTaken(): number {
    this.#told = this.#taken
    return this.#taken
  }
}
