/**
 * One end of a link between threads of two machines. The link sends the messages of its port as numbered
 * frames, and delivers frames from the other machine to the port. If a frame is missing, or the other end is
 * silent for longer than `mark` allows, the link ends and closes the port. The link itself stores only the
 * pieces of one batch; the two threads limit the messages in flight (`runtime/credit.ts`).
 */

import { deserialize, serialize } from 'node:v8'
import type { MessagePort } from 'node:worker_threads'
import { monotonicMs } from '#runtime/clock.ts'
import { FRAME, type Frame, frameOf, HEADER_BYTES } from './frames.ts'

/**
 * Maximum size of a batch. A valid batch, such as the states of many markets, may have several megabytes; a larger
 * batch is a mistake.
 */
const BATCH_BYTES_MAX = 64 * 1024 * 1024

type LinkPorts = {
  readonly port: MessagePort
  /** Maximum size of a NATS message, in bytes. */
  readonly payloadMax: number
  readonly send: (frame: Uint8Array) => void
  /** Called once, when either side has ended the link. */
  readonly ended: (why: string) => void
}

export class Link {
  readonly #id: Buffer
  readonly #ports: LinkPorts
  #sent = 0
  #received = 0
  #pieces: Buffer[] = []
  #pieceBytes = 0
  #open = true
  #lastFrameAtMs = monotonicMs()
  #deliveredAtMs = 0

  constructor(id: Buffer, ports: LinkPorts) {
    this.#id = id
    this.#ports = ports
    ports.port.on('message', (batch: unknown[]) => this.#forward(batch))
    ports.port.on('close', () => this.end('the thread at this end of the link has ended'))
  }

  get isOpen(): boolean {
    return this.#open
  }

  receive({ number, kind, body }: Frame): void {
    if (!this.#open) return
    this.#lastFrameAtMs = monotonicMs()
    if (kind === FRAME.close) {
      this.end('the other end has closed the link', false)
    } else if (number !== this.#received >>> 0) {
      this.end(`frame ${this.#received} is missing`)
    } else if (kind !== FRAME.mark) {
      this.#received++
      this.#take(kind, body)
    }
  }

  /**
   * Ends the link if the other end was silent for longer than `silentMsMax`; otherwise sends a mark, the number of
   * frames sent so far.
   */
  mark(silentMsMax: number): void {
    if (!this.#open) return
    const silentMs = monotonicMs() - this.#lastFrameAtMs
    if (silentMs > silentMsMax) this.end(`its peer was silent for ${Math.round(silentMs)} ms`)
    else this.#ports.send(frameOf(this.#id, this.#sent, FRAME.mark))
  }

  end(why: string, tell = true): void {
    if (!this.#open) return
    this.#open = false
    this.#pieces = []
    if (tell) this.#ports.send(frameOf(this.#id, this.#sent, FRAME.close))
    this.#ports.port.close()
    this.#ports.ended(why)
  }

  #forward(batch: unknown[]): void {
    if (!this.#open) return
    const bytes = serialize(batch)
    if (bytes.byteLength > BATCH_BYTES_MAX) {
      this.end(`a batch of ${bytes.byteLength} bytes is too large for a link`)
      return
    }
    const room = this.#ports.payloadMax - HEADER_BYTES
    for (let at = 0; at < bytes.byteLength; at += room) {
      const kind = at + room < bytes.byteLength ? FRAME.more : FRAME.last
      this.#ports.send(frameOf(this.#id, this.#sent++, kind, bytes.subarray(at, at + room)))
    }
  }

  #take(kind: number, body: Buffer): void {
    this.#pieceBytes += body.byteLength
    if (this.#pieceBytes > BATCH_BYTES_MAX) {
      this.end('a batch is too large for a link')
      return
    }
    this.#pieces.push(body)
    if (kind === FRAME.more) return
    // Copy the bytes: byte arrays in the batch are views into these bytes, and the connection reuses its
    // buffer.
    const bytes = Buffer.concat(this.#pieces)
    this.#pieces = []
    this.#pieceBytes = 0
    const batch = readBatch(bytes)
    if (batch === undefined) {
      this.end('a batch cannot be read')
      return
    }
    // The last value of a batch is its send time by the other machine's clock. Replace it with the current time of this
    // machine. If the previous batch has the same time, raise the new time slightly, because the time identifies the
    // batch. The time also shows how long the batch waited.
    this.#deliveredAtMs = Math.max(monotonicMs(), this.#deliveredAtMs + 0.001)
    batch[batch.length - 1] = this.#deliveredAtMs
    this.#ports.port.postMessage(batch)
  }
}

/** Parses a batch; returns undefined if the bytes are invalid. */
function readBatch(bytes: Buffer): unknown[] | undefined {
  try {
    const batch: unknown = deserialize(bytes)
    return Array.isArray(batch) ? batch : undefined
  } catch {
    return undefined
  }
}
