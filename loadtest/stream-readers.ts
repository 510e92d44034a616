/**
 * Very many WebSockets in one process, which count what they get and parse next to nothing: every
 * hundredth looks at the time a message was made. Told to, some of them stop reading, and go on.
 */

import { connect, type Socket } from 'node:net'

export type ToReaders =
  | { readonly open: number; readonly port: number; readonly request: string }
  /** So many of them, from this one on, follow something else besides, and stop reading. */
  | { readonly stall: number; readonly from: number; readonly request: string }
  /** They go on without that; done when each has been given a new start. */
  | { readonly resume: string }
  /** Tell when each reader that reads has got so many more. */
  | { readonly expect: number }
  | 'latencies'

export type FromReaders = { readonly done: true } | { readonly latenciesMs: number[] }

type Reader = {
  readonly socket: Socket
  readonly probe: boolean
  upgraded: boolean
  greeted: boolean
  /** A frame that came in part. */
  rest: Buffer
  /** Messages of the channel so far. */
  got: number
  /** It missed something, and waits for the snapshot that makes up for it. */
  recovering: boolean
  /** It stops reading with the next snapshot. */
  stopping: boolean
}

const readers: Reader[] = []
/** Those that do not read. */
let stalled: Reader[] = []
let leaving = ''
/** How many messages each is to have, and how many readers have not. */
let goal = 0
let missing = 0
let recovering = 0
let stopping = 0
/** Whatever is shorter is no message of the channel: a greeting, a heartbeat. */
const FRAME_BYTES_MIN = 200
let latenciesMs: number[] = []

const done = (): void => void process.send?.({ done: true })

function take(reader: Reader, chunk: Buffer): void {
  let data = reader.rest.length === 0 ? chunk : Buffer.concat([reader.rest, chunk])
  reader.rest = Buffer.alloc(0)
  if (!reader.upgraded) {
    const end = data.indexOf('\r\n\r\n')
    if (end < 0) {
      reader.rest = data
      return
    }
    reader.upgraded = true
    data = data.subarray(end + 4)
  }
  let at = 0
  while (at < data.length) {
    if (data.length < at + 4) break
    let length = data[at + 1]! & 0x7f
    let body = at + 2
    if (length === 126) {
      length = data.readUInt16BE(at + 2)
      body = at + 4
    } else if (length === 127) {
      if (data.length < at + 10) break
      length = Number(data.readBigUInt64BE(at + 2))
      body = at + 10
    }
    if (data.length < body + length) break
    const opcode = data[at]! & 0x0f
    if (opcode === TEXT) count(reader, data, body, length)
    else if (opcode === PING) reader.socket.write(PONG)
    at = body + length
  }
  if (at < data.length) reader.rest = Buffer.from(data.subarray(at))
}

function count(reader: Reader, data: Buffer, body: number, length: number): void {
  reader.greeted = true
  if (length < FRAME_BYTES_MIN) return
  const mark = data[body + 14]
  if (mark === SNAPSHOT_MARK && reader.stopping) stop(reader)
  if (mark === SNAPSHOT_MARK && reader.recovering) recover(reader, data, body)
  if (mark !== DELTA_MARK || reader.recovering) return
  reader.got++
  if (reader.probe) {
    const text = data.toString('latin1', body, body + length)
    const nowMs = performance.timeOrigin + performance.now()
    latenciesMs.push(nowMs - Number(/"ts":([0-9.]+)/.exec(text)?.[1]))
  }
  if (reader.got === goal && --missing === 0) done()
}

function recover(reader: Reader, data: Buffer, body: number): void {
  if (!data.toString('latin1', body, body + 200).includes('"outcome":0')) return
  reader.recovering = false
  reader.got = goal
  reader.socket.write(frameOf(leaving))
  if (--recovering === 0) done()
}

function stop(reader: Reader): void {
  reader.stopping = false
  reader.socket.pause()
  if (--stopping === 0) done()
}

const TEXT = 1
const PING = 9
/** Whoever answers no ping is taken for dead. */
const PONG = Buffer.from([0x8a, 0x80, 0, 0, 0, 0])

/** The s of `{"type":"book.snapshot"`. */
const SNAPSHOT_MARK = 's'.charCodeAt(0)
/** The d of `{"type":"book.delta"`. */
const DELTA_MARK = 'd'.charCodeAt(0)

function frameOf(text: string): Buffer {
  const payload = Buffer.from(text)
  const head =
    payload.length < 126
      ? [0x81, 0x80 | payload.length]
      : [0x81, 0x80 | 126, payload.length >> 8, payload.length & 0xff]
  return Buffer.concat([Buffer.from(head), Buffer.alloc(4), payload])
}

/** Opens one reader; done when it has its snapshot. */
function open(port: number, request: string, probe: boolean): Promise<Reader> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' })
    const reader: Reader = {
      socket,
      probe,
      upgraded: false,
      greeted: false,
      rest: Buffer.alloc(0),
      got: 0,
      recovering: false,
      stopping: false,
    }
    let asked = false
    socket.on('error', reject)
    socket.on('close', () => {
      throw new Error('a connection ended that nobody asked to end')
    })
    socket.on('data', (chunk: Buffer) => {
      take(reader, chunk)
      if (reader.greeted && !asked) {
        asked = true
        socket.write(frameOf(request))
      }
      if (chunk.includes('book.snapshot')) resolve(reader)
    })
    socket.write(
      'GET /api/v1/stream HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
        'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
    )
  })
}

process.on('message', async (message: ToReaders) => {
  if (message === 'latencies') {
    process.send?.({ latenciesMs })
    latenciesMs = []
  } else if ('resume' in message) {
    leaving = message.resume
    recovering = stalled.length
    for (const reader of stalled.splice(0)) {
      reader.recovering = true
      reader.socket.resume()
    }
  } else if ('open' in message) {
    for (let at = 0; at < message.open; at += 100) {
      const some = Math.min(100, message.open - at)
      const opened = await Promise.all(
        Array.from({ length: some }, (_, index) =>
          open(message.port, message.request, (at + index) % 100 === 50),
        ),
      )
      readers.push(...opened)
    }
    for (const reader of readers) {
      reader.socket.removeAllListeners('data')
      reader.socket.on('data', (chunk: Buffer) => take(reader, chunk))
    }
    done()
  } else if ('stall' in message) {
    stalled = readers.slice(message.from, message.from + message.stall)
    stopping = stalled.length
    for (const reader of stalled) {
      reader.stopping = true
      reader.socket.write(frameOf(message.request))
    }
  } else {
    goal += message.expect
    const idle = new Set(stalled)
    missing = readers.filter((reader) => reader.got < goal && !idle.has(reader)).length
    if (missing === 0) done()
  }
})
process.on('disconnect', () => process.exit(0))
