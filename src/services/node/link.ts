/**
 * One end of a link between threads of two machines. Messages of the port are sent as numbered frames, and the peer's
 * frames go into the port. If a frame is missing, or nothing arrives for too long, the link ends and closes the port.
 * It queues only the pieces of one batch; the two threads limit what is in flight (`runtime/credit.ts`).
 */

import { deserialize, serialize } from 'node:v8'
import type { MessagePort } from 'node:worker_threads'
import { monotonicMs } from '#runtime/clock.ts'
import { FRAME, type Frame, frameOf, HEADER_BYTES } from './frames.ts'

/** A batch may have several megabytes, such as views of many markets. More than this is a mistake. */
const BATCH_BYTES_MAX = 64 * 1024 * 1024

type LinkPorts = {
  readonly port: MessagePort
  /** Maximum size of a message. */
  readonly payloadMax: number
  readonly send: (frame: Uint8Array) => void
  /** Called once when either side ends it. */
  readonly ended: (why: string) => void
}

export class Link {
  readonly #id: Buffer
  readonly #ports: LinkPorts
  #sent = 0
  #heard = 0
  #pieces: Buffer[] = []
  #pieceBytes = 0
  #open = true
  #heardAtMs = monotonicMs()
  #deliveredAtMs = 0

  constructor(id: Buffer, ports: LinkPorts) {
    this.#id = id
    this.#ports = ports
    ports.port.on('message', (batch: unknown[]) => this.#forward(batch))
    ports.port.on('close', () => this.end('its thread has ended'))
  }

  get isOpen(): boolean {
    return this.#open
  }

  hear({ number, kind, body }: Frame): void {
    if (!this.#open) return
    this.#heardAtMs = monotonicMs()
    if (kind === FRAME.close) {
      this.end('its peer has ended', false)
    } else if (number !== this.#heard >>> 0) {
      this.end(`frame ${this.#heard} is missing`)
    } else if (kind !== FRAME.mark) {
      this.#heard++
      this.#take(kind, body)
    }
  }

  /** Sends the number of frames so far. Ends the link if its peer was silent for too long. */
  mark(silentMsMax: number): void {
    if (!this.#open) return
    const silentMs = monotonicMs() - this.#heardAtMs
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
    // Copied: rows are views into it, and the connection reuses its buffer.
    const bytes = Buffer.concat(this.#pieces)
    this.#pieces = []
    this.#pieceBytes = 0
    const batch = readBatch(bytes)
    if (batch === undefined) {
      this.end('a batch cannot be read')
      return
    }
    // The last value is the send time by the other machine's clock. It is replaced by this machine's time, strictly
    // increasing, because it identifies batches and measures their waiting time.
    this.#deliveredAtMs = Math.max(monotonicMs(), this.#deliveredAtMs + 0.001)
    batch[batch.length - 1] = this.#deliveredAtMs
    this.#ports.port.postMessage(batch)
  }
}

/** Undefined if the bytes are invalid. */
function readBatch(bytes: Buffer): unknown[] | undefined {
  try {
    const batch: unknown = deserialize(bytes)
    return Array.isArray(batch) ? batch : undefined
  } catch {
    return undefined
  }
}
