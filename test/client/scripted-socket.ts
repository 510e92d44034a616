/**
 * A WebSocket without a network: the test sends the exchange's messages and receives those of the SDK. Like a real
 * WebSocket, `send` throws before the socket is open.
 */

import assert from 'node:assert/strict'
import { LocalBook } from '#client/local-book.ts'
import type { StreamSocket, WebSocketClass } from '#client/stream-types.ts'

export type Sent = { readonly op: string; readonly id?: number } & Readonly<Record<string, unknown>>

export type ScriptedSocket = StreamSocket & {
  readonly sent: readonly Sent[]
  /** Returns the frames with this `op` that the SDK has sent. */
  asked(op: string): readonly Sent[]
  /** Opens it, and sends hello. */
  greet(): void
  say(frame: object): void
  /** Answers a request with an error. */
  refuse(request: Sent | undefined, code: string): void
  drop(): void
}

/**
 * Returns a WebSocket class and its sockets, in the order of their opening. `answer` is called for each frame that the
 * stream sends.
 */
export function scriptedSockets(answer: (socket: ScriptedSocket, sent: Sent) => void = () => {}): {
  readonly WebSocket: WebSocketClass
  readonly sockets: readonly ScriptedSocket[]
} {
  const sockets: ScriptedSocket[] = []
  class Scripted implements ScriptedSocket {
    readyState = 0
    readonly sent: Sent[] = []
    readonly #listeners = new Map<string, (event: never) => void>()

    constructor() {
      sockets.push(this)
    }

    addEventListener(type: string, listener: (event: never) => void): void {
      this.#listeners.set(type, listener)
    }

    asked(op: string): Sent[] {
      return this.sent.filter((sent) => sent.op === op)
    }

    send(text: string): void {
      assert.notEqual(this.readyState, 0, 'it is still connecting')
      const sent = JSON.parse(text) as Sent
      this.sent.push(sent)
      answer(this, sent)
    }

    greet(): void {
      this.readyState = 1
      this.say({ type: 'hello', session: `s${sockets.indexOf(this)}`, heartbeatMs: 60_000 })
    }

    say(frame: object): void {
      this.#listeners.get('message')?.({ data: JSON.stringify(frame) } as never)
    }

    refuse(request: Sent | undefined, code: string): void {
      this.say({ type: 'error', id: request?.id, code, error: 'no' })
    }

    drop(): void {
      this.readyState = 3
      this.#listeners.get('close')?.({ code: 1006, reason: '' } as never)
    }

    close(): void {
      this.drop()
    }
  }
  return { WebSocket: Scripted, sockets }
}

/** Returns a stream frame of a book with one bid: a snapshot, or the change since `prevSeq` if given. */
export function bookFrame(sub: string, seq: number, prevSeq?: number): object {
  const book = new LocalBook()
  const bids: [number, number][] = [[420_000, seq]]
  book.load(seq, bids, [])
  const told = { sub, seq, bids, asks: [], checksum: book.checksum() }
  if (prevSeq === undefined) return { type: 'book.snapshot', ...told }
  return { type: 'book.delta', prevSeq, ...told }
}
