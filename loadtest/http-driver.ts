/**
 * Sends prepared requests over keep-alive connections, and reads the answers. In a closed loop, each connection sends
 * its next request after the answer to the previous one. In an open loop, requests are sent at given times, so that a
 * slow server cannot hide its slowness. Supports just enough of HTTP for this. If a connection ends, its pending
 * request fails, and the connection is opened again.
 */

import type { Socket } from 'node:net'
import { addressOf, dial } from './dial.ts'

export type Answer = {
  /** 0 when there is no answer. */
  readonly status: number
  /** Body of the answer, or the reason why no answer arrived. */
  readonly body: string
  readonly latencyMs: number
  /** Part of the latency before the request was sent: the sender was late, or no connection was free. */
  readonly unsentMs: number
  /** The server's report about the stages of the request; '' unless it was requested. */
  readonly serverTiming: string
}

export type Request = Buffer

export function writeRequest(
  method: string,
  path: string,
  body: string | Buffer,
  headers: Record<string, string> = {},
): Request {
  const { host = 'localhost', ...others } = headers
  const extra = Object.entries(others).map(([name, value]) => `${name}: ${value}\r\n`)
  const length = Buffer.byteLength(body)
  const head =
    `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\n${extra.join('')}` +
    (length === 0 ? '\r\n' : `content-type: application/json\r\ncontent-length: ${length}\r\n\r\n`)
  return typeof body === 'string'
    ? Buffer.from(head + body)
    : Buffer.concat([Buffer.from(head), body])
}

type Waiting = {
  readonly request: Request
  readonly sinceMs: number
  readonly done: (answer: Answer) => void
}

type Line = {
  socket: Socket | undefined
  received: string
  waiting: Waiting | undefined
  sentAtMs: number
  /** Time since which the connection has been idle. */
  freeSinceMs: number
  /** True if the driver ended its connection to open a new one. */
  isRenewed: boolean
}

export type Driver = {
  /** Sends as soon as a connection is free; latency counts from `sinceMs`. */
  send(request: Request, sinceMs: number, done: (answer: Answer) => void): void
  /** Number of requests that wait for a free connection, or for their answer. */
  readonly unanswered: number
  /** Connections that are open now. */
  readonly connected: number
  /** Reason why the last attempt to connect failed; '' if it succeeded. */
  readonly trouble: string
  /**
   * Sends all requests. Each connection sends its next request after the answer to its last one, so answers
   * come in no particular order. Resolves with the duration in milliseconds.
   */
  closedLoop(requests: readonly Request[], onAnswer: (answer: Answer) => void): Promise<number>
  /** Sends at `perSecond`; latency counts from the intended time. */
  openLoop(
    requests: readonly Request[],
    perSecond: number,
    onAnswer: (answer: Answer) => void,
  ): Promise<number>
  close(): void
}

/** Maximum wait for an answer. A working server answers earlier, because its own deadline is shorter. */
const ANSWER_MS_MAX = 30_000
const RECONNECT_MS = 100
/**
 * A connection that was idle for longer is replaced before the next request. A server ends connections that are idle
 * for 10 s, and a request on such a connection would be lost.
 */
const IDLE_MS_MAX = 5_000
const SWEEP_MS = 500
const PACE_MS = 1
const TIMING = /\r\nserver-timing: (.*)/i

export async function openDriver(
  url: string,
  connections: number,
  idleMsMax = IDLE_MS_MAX,
): Promise<Driver> {
  const address = addressOf(url)
  const lines: Line[] = []
  const free: Line[] = []
  const queue: Waiting[] = []
  let queueFrom = 0
  let connected = 0
  let trouble = ''
  let closed = false

  function open(line: Line): Promise<void> {
    return new Promise((resolve, reject) => {
      let isOpen = false
      let why = 'the server closed the connection'
      const socket = dial(address, () => {
        isOpen = true
        connected++
        trouble = ''
        line.socket = socket
        line.received = ''
        resolve()
        release(line)
      })
      socket.on('data', (chunk: Buffer) => receive(line, chunk.toString('latin1')))
      socket.on('error', (error) => {
        why = error.message
      })
      socket.on('close', () => {
        if (isOpen) connected--
        else trouble = why
        reject(new Error(why))
        if (closed) return
        const at = free.indexOf(line)
        if (at >= 0) free.splice(at, 1)
        line.socket = undefined
        finish(line, 0, why)
        const reopen = () => {
          if (!closed) open(line).catch(() => undefined)
        }
        if (line.isRenewed) reopen()
        else setTimeout(reopen, RECONNECT_MS).unref()
        line.isRenewed = false
      })
    })
  }

  function release(line: Line): void {
    const next = queue[queueFrom]
    if (next === undefined) {
      line.freeSinceMs = performance.now()
      free.push(line)
      return
    }
    queueFrom++
    if (queueFrom > 1_000 && queueFrom * 2 > queue.length) {
      queue.splice(0, queueFrom)
      queueFrom = 0
    }
    transmit(line, next)
  }

  function transmit(line: Line, waiting: Waiting): void {
    line.waiting = waiting
    line.sentAtMs = performance.now()
    line.socket?.write(waiting.request)
  }

  function finish(line: Line, status: number, body: string, serverTiming = ''): void {
    const { waiting, sentAtMs } = line
    if (waiting === undefined) return
    line.waiting = undefined
    const { sinceMs, done } = waiting
    const latencyMs = performance.now() - sinceMs
    done({ status, body, latencyMs, unsentMs: sentAtMs - sinceMs, serverTiming })
  }

  function receive(line: Line, text: string): void {
    line.received += text
    const headEnd = line.received.indexOf('\r\n\r\n')
    if (headEnd < 0) return
    const head = line.received.slice(0, headEnd)
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
    if (line.received.length < headEnd + 4 + length) return
    const body = line.received.slice(headEnd + 4, headEnd + 4 + length)
    line.received = line.received.slice(headEnd + 4 + length)
    finish(line, Number(head.slice(9, 12)), body, TIMING.exec(head)?.[1])
    if (line.socket?.writable === true) release(line)
  }

  /**
   * Returns the connection that has been idle longest, so that few connections become idle for too long. A
   * connection that has been idle for too long is closed and opened again.
   */
  function takeFree(): Line | undefined {
    const nowMs = performance.now()
    for (let line = free.shift(); line !== undefined; line = free.shift()) {
      if (nowMs - line.freeSinceMs < idleMsMax) return line
      line.isRenewed = true
      line.socket?.destroy()
    }
    return undefined
  }

  const sweeper = setInterval(() => {
    const fresh = takeFree()
    if (fresh !== undefined) free.unshift(fresh)
    const nowMs = performance.now()
    for (const line of lines) {
      if (line.waiting === undefined || nowMs - line.sentAtMs < ANSWER_MS_MAX) continue
      finish(line, 0, `no answer within ${ANSWER_MS_MAX / 1_000} s`)
      line.socket?.destroy()
    }
  }, SWEEP_MS)
  sweeper.unref()

  const driver: Driver = {
    send(request, sinceMs, done) {
      const waiting = { request, sinceMs, done }
      const line = takeFree()
      if (line === undefined) queue.push(waiting)
      else transmit(line, waiting)
    },
    get unanswered() {
      const busy = lines.reduce((sum, { waiting }) => sum + (waiting === undefined ? 0 : 1), 0)
      return busy + queue.length - queueFrom
    },
    get connected() {
      return connected
    },
    get trouble() {
      return trouble
    },
    closedLoop(requests, onAnswer) {
      const startedMs = performance.now()
      return new Promise((resolve, reject) => {
        let next = 0
        let left = requests.length
        const more = (): void => {
          const request = requests[next++]
          if (request === undefined) return
          driver.send(request, performance.now(), (answer) => {
            // Sends the next request before the answer is handled, so that it uses the connection that has just become
            // free.
            more()
            try {
              onAnswer(answered(answer))
            } catch (error) {
              reject(error)
            }
            if (--left === 0) resolve(performance.now() - startedMs)
          })
        }
        for (let line = 0; line < connections; line++) more()
      })
    },
    openLoop(requests, perSecond, onAnswer) {
      const startedMs = performance.now()
      return new Promise((resolve, reject) => {
        let next = 0
        let left = requests.length
        const done = (answer: Answer): void => {
          try {
            onAnswer(answered(answer))
          } catch (error) {
            reject(error)
          }
          if (--left === 0) resolve(performance.now() - startedMs)
        }
        const pace = (): void => {
          for (; next < requests.length; next++) {
            const dueMs = startedMs + (next * 1_000) / perSecond
            if (performance.now() < dueMs) break
            driver.send(requests[next]!, dueMs, done)
          }
          if (next < requests.length) setTimeout(pace, PACE_MS)
        }
        pace()
      })
    },
    close() {
      closed = true
      clearInterval(sweeper)
      for (const { socket } of lines) socket?.destroy()
    },
  }

  try {
    await Promise.all(
      Array.from({ length: connections }, () => {
        const line: Line = {
          ...{ socket: undefined, received: '', waiting: undefined },
          ...{ sentAtMs: 0, freeSinceMs: 0, isRenewed: false },
        }
        lines.push(line)
        return open(line)
      }),
    )
  } catch (error) {
    driver.close()
    throw error
  }
  return driver
}

/** Throws if the answer is missing: a benchmark cannot use a connection that breaks. */
function answered(answer: Answer): Answer {
  if (answer.status === 0) throw new Error(answer.body)
  return answer
}
