/** A client of the stream that misbehaves: it stops reading, and disconnects silently. */

import { WebSocket } from 'ws'
import type { Frame } from './stream-fixture.ts'

export class RawStreamClient {
  readonly frames: Frame[] = []
  /** Close code, once the connection is closed. */
  closeCode: number | undefined
  gone = false
  onFrame: ((frame: Frame) => void) | undefined
  readonly #socket: WebSocket

  constructor(url: string) {
    this.#socket = new WebSocket(url)
    this.#socket.on('message', (data) => {
      const frame = JSON.parse(String(data)) as Frame
      this.frames.push(frame)
      this.onFrame?.(frame)
    })
    this.#socket.on('error', () => undefined)
    this.#socket.on('close', (code) => {
      this.closeCode = code
      this.gone = true
    })
  }

  pause(): void {
    this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /** Sends a frame, at once or when the connection has opened. */
  say(frame: object): void {
    const socket = this.#socket
    const send = (): void => socket.send(JSON.stringify(frame))
    if (socket.readyState === WebSocket.CONNECTING) socket.once('open', send)
    else send()
  }

  close(): void {
    this.#socket.terminate()
  }
}
