/**
 * A WebSocket client that can do what no honest client does: stop reading, send any bytes, vanish.
 * It speaks just enough of the protocol, on a plain socket.
 */

import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import type { Frame } from './stream-fixture.ts'

export class RawStreamClient {
  readonly socket: Socket
  readonly frames: Frame[] = []
  /** The code of the close frame, once there is one. */
  closeCode: number | undefined
  gone = false
  onFrame: ((frame: Frame) => void) | undefined
  #buffer: Buffer = Buffer.alloc(0)
  #upgraded = false

  constructor(url: string) {
    const { hostname, port, pathname } = new URL(url)
    this.socket = connect({ host: hostname, port: Number(port), noDelay: true })
    this.socket.write(
      `GET ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nConnection: Upgrade\r\n` +
        `Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
        `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n\r\n`,
    )
    this.socket.on('data', (chunk: Buffer) => this.#take(chunk))
    this.socket.on('error', () => undefined)
    this.socket.on('close', () => {
      this.gone = true
    })
  }

  pause(): void {
    this.socket.pause()
  }

  resume(): void {
    this.socket.resume()
  }

  say(frame: object): void {
    this.send(Buffer.from(JSON.stringify(frame)), 1)
  }

  send(payload: Buffer, opcode: number): void {
    const length = payload.length
    const head =
      length < 126
        ? Buffer.from([0x80 | opcode, 0x80 | length])
        : length < 65_536
          ? Buffer.from([0x80 | opcode, 0x80 | 126, length >> 8, length & 0xff])
          : Buffer.concat([Buffer.from([0x80 | opcode, 0x80 | 127]), long(length)])
    // A mask of zeros leaves the payload as it is.
    this.socket.write(Buffer.concat([head, Buffer.alloc(4), payload]))
  }

  close(): void {
    this.socket.destroy()
  }

  #take(chunk: Buffer): void {
    this.#buffer = this.#buffer.length === 0 ? chunk : Buffer.concat([this.#buffer, chunk])
    if (!this.#upgraded) {
      const end = this.#buffer.indexOf('\r\n\r\n')
      if (end < 0) return
      this.#upgraded = true
      this.#buffer = this.#buffer.subarray(end + 4)
    }
    let at = 0
    for (;;) {
      const next = this.#readFrame(at)
      if (next === undefined) break
      at = next
    }
    this.#buffer = this.#buffer.subarray(at)
  }

  #readFrame(at: number): number | undefined {
    const buffer = this.#buffer
    if (buffer.length < at + 2) return undefined
    const opcode = buffer[at]! & 0x0f
    let length = buffer[at + 1]! & 0x7f
    let body = at + 2
    if (length === 126) {
      if (buffer.length < at + 4) return undefined
      length = buffer.readUInt16BE(at + 2)
      body = at + 4
    } else if (length === 127) {
      if (buffer.length < at + 10) return undefined
      length = Number(buffer.readBigUInt64BE(at + 2))
      body = at + 10
    }
    if (buffer.length < body + length) return undefined
    const payload = buffer.subarray(body, body + length)
    if (opcode === 1) {
      const frame = JSON.parse(payload.toString()) as Frame
      this.frames.push(frame)
      this.onFrame?.(frame)
    } else if (opcode === 8) this.closeCode = payload.readUInt16BE(0)
    else if (opcode === 9) this.send(Buffer.from(payload), 10)
    return body + length
  }
}

function long(length: number): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(BigInt(length))
  return bytes
}
