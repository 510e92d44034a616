/**
 * Sends requests that were written ahead over keep-alive connections, and reads the answers: as fast
 * as they are answered (closed loop), or at given times whatever the answers do (open loop, so that a
 * slow server cannot hide its slowness). It speaks just enough HTTP for that.
 */

import { connect, type Socket } from 'node:net'

export type Answer = { readonly status: number; readonly body: string; readonly latencyMs: number }

export type Request = Buffer

export function writeRequest(
  method: string,
  path: string,
  body: string,
  headers: Record<string, string> = {},
): Request {
  const extra = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const head =
    `${method} ${path} HTTP/1.1\r\nhost: localhost\r\n${extra.join('')}` +
    (body === ''
      ? '\r\n'
      : `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n`)
  return Buffer.from(head + body)
}

type Line = {
  readonly socket: Socket
  received: string
  waiting: { resolve: (answer: Answer) => void; reject: (error: Error) => void } | undefined
  sinceMs: number
}

export type Driver = {
  /** Sends all, each connection one after the other; answers come in no particular order. */
  closedLoop(requests: readonly Request[], onAnswer: (answer: Answer) => void): Promise<number>
  /** Sends at `perSecond`; latency counts from the intended time. */
  openLoop(
    requests: readonly Request[],
    perSecond: number,
    onAnswer: (answer: Answer) => void,
  ): Promise<number>
  close(): void
}

export async function openDriver(url: string, connections: number): Promise<Driver> {
  const { hostname, port } = new URL(url)
  const lines = await Promise.all(
    Array.from({ length: connections }, () => openLine(hostname, Number(port))),
  )
  return {
    async closedLoop(requests, onAnswer) {
      let next = 0
      const startedMs = performance.now()
      const work = async (line: Line): Promise<void> => {
        while (next < requests.length) {
          const request = requests[next++] as Request
          onAnswer(await send(line, request, performance.now()))
        }
      }
      await Promise.all(lines.map(work))
      return performance.now() - startedMs
    },
    async openLoop(requests, perSecond, onAnswer) {
      const free = [...lines]
      let next = 0
      const startedMs = performance.now()
      const answered: Promise<void>[] = []
      while (next < requests.length) {
        const dueMs = startedMs + (next * 1_000) / perSecond
        if (performance.now() < dueMs || free.length === 0) {
          await new Promise((resolve) => setImmediate(resolve))
          continue
        }
        const line = free.pop() as Line
        const request = requests[next++] as Request
        answered.push(
          send(line, request, dueMs).then((answer) => {
            free.push(line)
            onAnswer(answer)
          }),
        )
      }
      await Promise.all(answered)
      return performance.now() - startedMs
    },
    close() {
      for (const { socket } of lines) socket.destroy()
    },
  }
}

function openLine(host: string, port: number): Promise<Line> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true })
    const line: Line = { socket, received: '', waiting: undefined, sinceMs: 0 }
    socket.once('connect', () => resolve(line))
    socket.on('data', (chunk) => receive(line, chunk.toString('latin1')))
    const failed = (error: Error): void => {
      reject(error)
      line.waiting?.reject(error)
      line.waiting = undefined
    }
    socket.on('error', failed)
    socket.on('close', () => failed(new Error('the server closed a connection')))
  })
}

function send(line: Line, request: Request, sinceMs: number): Promise<Answer> {
  return new Promise((resolve, reject) => {
    line.waiting = { resolve, reject }
    line.sinceMs = sinceMs
    line.socket.write(request)
  })
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
  const { waiting } = line
  line.waiting = undefined
  const latencyMs = performance.now() - line.sinceMs
  waiting?.resolve({ status: Number(head.slice(9, 12)), body, latencyMs })
}
