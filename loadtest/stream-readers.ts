/**
 * Opens very many WebSockets in one process. Each socket counts its messages and parses almost nothing. Only every
 * hundredth socket, a probe, reads the time of each message. On request, some sockets stop reading and resume later, or
 * all sockets lose their connection at the same moment and reconnect.
 */

import { openRawSocket, type RawSocket } from './raw-socket.ts'

export type ToReaders =
  /**
   * Opens `open` readers. `host` is their local address; one address has ports for about 28,000 connections to a
   * server.
   */
  | {
      readonly open: number
      readonly port: number
      readonly request: string
      readonly host?: string
    }
  /**
   * Closes the connections of all readers at the same moment. Each reader then reconnects and requests all messages
   * after `lastSeq`, the newest book change that a probe has received.
   */
  | {
      readonly reconnect: true
      readonly port: number
      readonly request: string
      readonly host?: string
    }
  | 'heartbeats'
  /** Subscribes `stall` readers, starting at index `from`, to a second book, and makes them stop reading. */
  | { readonly stall: number; readonly from: number; readonly request: string }
  /**
   * Lets the stalled readers read again. Each of them waits for a new snapshot of the first book, and then sends the
   * text `resume`, which unsubscribes it from the second book. The `done` message follows when all stalled readers have
   * sent this text.
   */
  | { readonly resume: string }
  /** Requests a `done` message when each reader has received this many more messages. Stalled readers do not count. */
  | { readonly expect: number }
  | 'latencies'

export type FromReaders =
  | { readonly done: true }
  | { readonly latenciesMs: number[] }
  /** Number of heartbeats since the last request. */
  | { readonly heartbeats: number }
  /**
   * `backAfterMs`: milliseconds from the loss of the connections until each reader had its book again. `failures`:
   * number of failed attempts by reason.
   */
  | { readonly backAfterMs: number[]; readonly failures: Record<string, number> }

type Reader = {
  socket: RawSocket
  readonly probe: boolean
  /** Number of channel messages that the reader has received so far. */
  got: number
  /** True if the reader reads again after a stall, but has no new snapshot of the first book yet. */
  recovering: boolean
  /** True if the reader has to stop reading as soon as it receives a snapshot. */
  stopping: boolean
}

const readers: Reader[] = []
/** Those that do not read. */
let stalled: Reader[] = []
let leaving = ''
/**
 * `goal` is the number of messages that each reader has to receive. `missing` is the number of readers that have not
 * received them yet.
 */
let goal = 0
let missing = 0
let recovering = 0
let stopping = 0
/** Minimum size of a frame with a message of the channel; a shorter frame is a greeting or a heartbeat. */
const FRAME_BYTES_MIN = 200
let latenciesMs: number[] = []
let heartbeats = 0
/** Sequence number of the newest book change that a probe has received. */
let lastSeq = 0

const done = (): void => void process.send?.({ done: true })

function count(reader: Reader, data: Buffer, body: number, length: number): void {
  if (length < FRAME_BYTES_MIN) {
    if (data[body + 9] === HEARTBEAT_MARK) heartbeats++
    return
  }
  const mark = data[body + 14]
  if (mark === SNAPSHOT_MARK && reader.stopping) stop(reader)
  if (mark === SNAPSHOT_MARK && reader.recovering) recover(reader, data, body)
  if (mark !== DELTA_MARK || reader.recovering) return
  reader.got++
  if (reader.probe) {
    const text = data.toString('latin1', body, body + length)
    const nowMs = performance.timeOrigin + performance.now()
    latenciesMs.push(nowMs - Number(/"ts":([0-9.]+)/.exec(text)?.[1]))
    lastSeq = Math.max(lastSeq, Number(/"seq":(\d+)/.exec(text)?.[1] ?? 0))
  }
  if (reader.got === goal && --missing === 0) done()
}

function recover(reader: Reader, data: Buffer, body: number): void {
  if (!data.toString('latin1', body, body + 200).includes('"outcome":0')) return
  reader.recovering = false
  reader.got = goal
  reader.socket.send(leaving)
  if (--recovering === 0) done()
}

function stop(reader: Reader): void {
  reader.stopping = false
  reader.socket.pause()
  if (--stopping === 0) done()
}

/** The s of `{"type":"book.snapshot"`. */
const SNAPSHOT_MARK = 's'.charCodeAt(0)
/** The d of `{"type":"book.delta"`. */
const DELTA_MARK = 'd'.charCodeAt(0)

/** The h of `{"type":"heartbeat"`. */
const HEARTBEAT_MARK = 'h'.charCodeAt(0)

/** Opens one reader. Resolves when the reader's book is complete. `isBook` decides which frame completes the book. */
function open(port: number, request: string, probe: boolean, host?: string): Promise<Reader> {
  return new Promise((resolve, reject) => {
    let isGreeted = false
    let isOpen = false
    const socket = openRawSocket(
      { host: '127.0.0.1', port, secure: false },
      {
        text(data, at, length) {
          if (!isGreeted) {
            isGreeted = true
            socket.send(request)
          } else if (isOpen) count(reader, data, at, length)
          else if (isBook(data.toString('latin1', at, at + length), request)) {
            isOpen = true
            resolve(reader)
          }
        },
        closed(why) {
          if (isOpen) throw new Error(`a connection ended unexpectedly: ${why}`)
          reject(new Error(why))
        },
      },
      host,
    )
    const reader: Reader = { socket, probe, got: 0, recovering: false, stopping: false }
  })
}

/**
 * Returns whether the reader's book is complete after this frame. A snapshot is a complete book. If the request has
 * `since`, the confirmation of the subscription counts too, because the server sends it together with the missed
 * messages.
 */
function isBook(text: string, request: string): boolean {
  return (
    text.includes('book.snapshot') || (request.includes('"since"') && text.includes('subscribed'))
  )
}

/**
 * Mean pause in milliseconds between a failed attempt to connect and the next attempt. Each pause is random, between
 * 0.5 and 1.5 times this value.
 */
const RETRY_MS = 1_000
/**
 * Maximum number of concurrent attempts to connect. The queue of a listening socket holds this many attempts. If the
 * queue is full, the operating system drops an attempt and repeats it only later.
 */
const ATTEMPTS_AT_ONCE = 500

async function comeBack(
  { port, request, host }: Extract<ToReaders, { reconnect: true }>,
  failures: Record<string, number>,
  beganMs: number,
): Promise<number> {
  for (;;) {
    try {
      readers.push(await open(port, request, readers.length % 100 === 50, host))
      return performance.now() - beganMs
    } catch (error) {
      const why = (error as Error).message
      failures[why] = (failures[why] ?? 0) + 1
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS * (0.5 + Math.random())))
    }
  }
}

process.on('message', async (message: ToReaders) => {
  if (message === 'latencies') {
    process.send?.({ latenciesMs })
    latenciesMs = []
  } else if (message === 'heartbeats') {
    process.send?.({ heartbeats })
    heartbeats = 0
  } else if ('reconnect' in message) {
    const lost = readers.splice(0)
    const request = JSON.stringify({ ...JSON.parse(message.request), since: lastSeq })
    const failures: Record<string, number> = {}
    const beganMs = performance.now()
    for (const { socket } of lost) socket.close()
    const backAfterMs: number[] = []
    let left = lost.length
    const attempt = async (): Promise<void> => {
      while (left-- > 0) {
        backAfterMs.push(await comeBack({ ...message, request }, failures, beganMs))
      }
    }
    await Promise.all(Array.from({ length: ATTEMPTS_AT_ONCE }, attempt))
    process.send?.({ backAfterMs, failures })
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
          open(message.port, message.request, (at + index) % 100 === 50, message.host),
        ),
      )
      readers.push(...opened)
    }
    done()
  } else if ('stall' in message) {
    stalled = readers.slice(message.from, message.from + message.stall)
    stopping = stalled.length
    for (const reader of stalled) {
      reader.stopping = true
      reader.socket.send(message.request)
    }
  } else {
    goal += message.expect
    const idle = new Set(stalled)
    missing = readers.filter((reader) => reader.got < goal && !idle.has(reader)).length
    if (missing === 0) done()
  }
})
process.on('disconnect', () => process.exit(0))
