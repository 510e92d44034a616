/**
 * A proxy in front of an exchange. It changes answers and frames, so that they break the API's contract as a test
 * requires.
 */

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type RawData, WebSocket, WebSocketServer } from 'ws'

export type Faults = {
  /** Changes the answer to a request, or returns it unchanged. */
  readonly answer?: (request: string, answer: ProxiedAnswer) => ProxiedAnswer
  /** Changes a frame of the stream, or drops it. */
  readonly frame?: (frame: Record<string, unknown>) => Record<string, unknown> | undefined
}

export type ProxiedAnswer = { readonly status: number; readonly body: string }

const PASSED_ON = ['content-type', 'authorization']
const SHOWN = ['content-type', 'x-request-id', 'date', 'retry-after']

export async function startBrokenProxy(
  target: string,
  faults: Faults,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => void forward(request, response))

  async function forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { method = 'GET', url = '/' } = request
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    try {
      const answer = await fetch(`${target}${url}`, {
        method,
        headers: Object.fromEntries(
          PASSED_ON.flatMap((name) => {
            const value = request.headers[name]
            return typeof value === 'string' ? [[name, value]] : []
          }),
        ),
        ...(chunks.length === 0 ? {} : { body: Buffer.concat(chunks) }),
        signal: gone.signal,
      })
      for (const name of SHOWN) {
        const value = answer.headers.get(name)
        if (value !== null) response.setHeader(name, value)
      }
      if (answer.headers.get('content-type') === 'text/event-stream') {
        response.writeHead(answer.status)
        for await (const chunk of answer.body ?? []) response.write(chunk)
        response.end()
        return
      }
      const whole = { status: answer.status, body: await answer.text() }
      const { status, body } = faults.answer?.(`${method} ${url}`, whole) ?? whole
      response.writeHead(status).end(body)
    } catch {
      response.destroy()
    }
  }

  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (near, { url }) => {
    const far = new WebSocket(`${target.replace(/^http/, 'ws')}${url}`)
    const waiting: RawData[] = []
    near.on('message', (data) => {
      if (far.readyState === WebSocket.OPEN) far.send(String(data))
      else waiting.push(data)
    })
    far.on('open', () => {
      for (const data of waiting) far.send(String(data))
    })
    far.on('message', (data) => {
      const frame = JSON.parse(String(data)) as Record<string, unknown>
      const told = faults.frame === undefined ? frame : faults.frame(frame)
      if (told !== undefined) near.send(JSON.stringify(told))
    })
    near.on('close', () => far.close())
    far.on('close', () => near.close())
    far.on('error', () => near.terminate())
  })

  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      for (const socket of sockets.clients) socket.terminate()
      sockets.close()
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
