/**
 * A proxy between the load tester and a real exchange that can answer in the exchange's place, change its answers, or
 * drop messages of the stream.
 */

import { once } from 'node:events'
import { createServer, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { Duplex } from 'node:stream'

export type Lie = {
  /** Answers in place of the exchange. If it returns undefined, the exchange gets the request. */
  readonly answer?: (method: string, path: string, body: string) => Promise<object | undefined>
  /** Changes an answer of the exchange. */
  readonly change?: (method: string, path: string, body: string) => string
  /** Returns whether a message of the stream is passed on. */
  readonly passes?: (message: string) => boolean
}

export async function startLyingProxy(upstream: string, lie: Lie) {
  const { hostname, port } = new URL(upstream)
  const sockets = new Set<Duplex>()
  const server = createServer(async (incoming, outgoing) => {
    const body = await textOf(incoming)
    const { method = 'GET', url = '/' } = incoming
    const lied = await lie.answer?.(method, url, body)
    if (lied !== undefined) {
      outgoing.writeHead(200, { 'content-type': 'application/json' })
      outgoing.end(JSON.stringify(lied))
      return
    }
    const passed = request(
      // The proxy changes answers as text, so it requests them without compression.
      {
        hostname,
        port,
        method,
        path: url,
        headers: { ...incoming.headers, 'accept-encoding': '' },
      },
      async (answer) => {
        const text = await textOf(answer)
        const told = lie.change?.(method, url, text) ?? text
        const headers = { ...answer.headers, 'content-length': Buffer.byteLength(told) }
        outgoing.writeHead(answer.statusCode ?? 502, headers)
        outgoing.end(told)
      },
    )
    passed.on('error', () => outgoing.destroy())
    passed.end(body)
  })
  server.on('connection', (socket) => sockets.add(socket))
  server.on('upgrade', (incoming, socket) => {
    const far = connect(Number(port), hostname)
    sockets.add(far)
    const lines = [`GET ${incoming.url} HTTP/1.1`]
    for (let at = 0; at < incoming.rawHeaders.length; at += 2) {
      lines.push(`${incoming.rawHeaders[at]}: ${incoming.rawHeaders[at + 1]}`)
    }
    far.write(`${lines.join('\r\n')}\r\n\r\n`)
    socket.pipe(far)
    const passOn = frameFilter((message) => lie.passes?.(message) ?? true)
    far.on('data', (chunk: Buffer) => socket.write(passOn(chunk)))
    for (const each of [far, socket]) each.on('error', () => undefined)
    far.on('close', () => socket.destroy())
    socket.on('close', () => far.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

async function textOf(stream: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

/** Drops single frames from the exchange's data. The answer to the upgrade passes unchanged. */
function frameFilter(passes: (message: string) => boolean): (chunk: Buffer) => Buffer {
  let rest: Buffer = Buffer.alloc(0)
  let upgraded = false
  return (chunk) => {
    let data = Buffer.concat([rest, chunk])
    const out: Buffer[] = []
    if (!upgraded) {
      const end = data.indexOf('\r\n\r\n')
      if (end < 0) {
        rest = data
        return Buffer.alloc(0)
      }
      upgraded = true
      out.push(data.subarray(0, end + 4))
      data = data.subarray(end + 4)
    }
    while (data.length >= 2) {
      const short = data[1]! & 0x7f
      const head = short < 126 ? 2 : short === 126 ? 4 : 10
      if (data.length < head) break
      const length =
        short < 126 ? short : short === 126 ? data.readUInt16BE(2) : Number(data.readBigUInt64BE(2))
      if (data.length < head + length) break
      const frame = data.subarray(0, head + length)
      if (passes(frame.toString('utf8', head))) out.push(frame)
      data = data.subarray(head + length)
    }
    rest = data
    return Buffer.concat(out)
  }
}
