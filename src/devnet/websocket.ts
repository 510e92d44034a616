/**
 * The server's side of a WebSocket, as little of RFC 6455 as the price simulator needs: text frames
 * out, masked text frames in, pings answered, a clean close. It is for the devnet and its tests; the
 * exchange's own sockets are the front's.
 */

import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const TEXT = 1
const CLOSE = 8
const PING = 9
const PONG = 10
/** What a client may send in one frame. */
const FRAME_BYTES_MAX = 65_536

type ServerSocket = { send(text: string): void; close(): void }

/** Completes the handshake; undefined when it is none. */
export function upgrade(
  request: IncomingMessage,
  socket: Duplex,
  hears: { message(text: string): void; closed(): void },
): ServerSocket | undefined {
  const key = request.headers['sec-websocket-key']
  if (key === undefined) return undefined
  const accept = createHash('sha1').update(`${key}${GUID}`).digest('base64')
  socket.write(
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
      `Sec-WebSocket-Accept: ${accept}\r\n\r\n`,
  )
  let pending = Buffer.alloc(0)
  let over = false
  const end = (): void => {
    if (over) return
    over = true
    socket.end()
    hears.closed()
  }
  socket.on('data', (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk])
    for (let frame = readFrame(pending); frame !== undefined; frame = readFrame(pending)) {
      pending = pending.subarray(frame.bytes)
      if (frame.opcode === TEXT) hears.message(frame.payload.toString())
      else if (frame.opcode === PING) socket.write(frameOf(PONG, frame.payload))
      else if (frame.opcode === CLOSE) {
        socket.write(frameOf(CLOSE, frame.payload.subarray(0, 2)))
        end()
        return
      }
    }
    if (pending.length > FRAME_BYTES_MAX) end()
  })
  socket.on('close', end)
  socket.on('error', end)
  return {
    send(text) {
      if (!over) socket.write(frameOf(TEXT, Buffer.from(text)))
    },
    close() {
      if (over) return
      socket.write(frameOf(CLOSE, Buffer.from([0x03, 0xe8])))
      end()
    },
  }
}

function frameOf(opcode: number, payload: Buffer): Buffer {
  const { length } = payload
  if (length < 126) return Buffer.concat([Buffer.from([0x80 | opcode, length]), payload])
  if (length < 65_536) {
    const head = Buffer.from([0x80 | opcode, 126, length >> 8, length & 0xff])
    return Buffer.concat([head, payload])
  }
  const head = Buffer.alloc(10)
  head[0] = 0x80 | opcode
  head[1] = 127
  head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, payload])
}

function readFrame(data: Buffer): { opcode: number; payload: Buffer; bytes: number } | undefined {
  if (data.length < 2) return undefined
  let length = data[1]! & 0x7f
  let at = 2
  if (length === 126) {
    if (data.length < 4) return undefined
    length = data.readUInt16BE(2)
    at = 4
  } else if (length === 127) {
    if (data.length < 10) return undefined
    length = Number(data.readBigUInt64BE(2))
    at = 10
  }
  const isMasked = (data[1]! & 0x80) !== 0
  const start = at + (isMasked ? 4 : 0)
  if (data.length < start + length) return undefined
  const payload = Buffer.from(data.subarray(start, start + length))
  if (isMasked) {
    for (let index = 0; index < length; index++) payload[index]! ^= data[at + (index % 4)]!
  }
  return { opcode: data[0]! & 0x0f, payload, bytes: start + length }
}
