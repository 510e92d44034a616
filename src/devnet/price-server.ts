/**
 * Serves the price simulator on a port, over HTTP and WebSocket. Each provider has its own path, such as `/pyth`,
 * instead of a host of its own. For operators, `POST /faults/{provider}/{fault}` makes a provider misbehave, and
 * `DELETE /faults/{provider}` ends the fault.
 */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { PRICE_SOURCES, type PriceSource, type ProviderSettings } from '#domain/price-providers.ts'
import {
  makePriceSimulator,
  PROVIDER_FAULTS,
  type PriceSimulator,
  type SimulatorOptions,
  simulatedSettings,
} from './price-simulator.ts'
import type { SimulatedRequest } from './providers/provider.ts'

/** Maximum size of one message from a client. */
const MESSAGE_BYTES_MAX = 65_536

export type PriceServer = {
  readonly port: number
  readonly simulator: PriceSimulator
  /** Settings that connect every price feed to this server. */
  readonly feeds: Readonly<Record<PriceSource, ProviderSettings>>
  close(): Promise<void>
}

type Addressed = { readonly source: PriceSource; readonly request: SimulatedRequest }

export async function startPriceServer(
  options: SimulatorOptions & { readonly port?: number },
): Promise<PriceServer> {
  const simulator = makePriceSimulator(options)
  const sockets = new Set<Duplex>()
  const upgrader = new WebSocketServer({ noServer: true, maxPayload: MESSAGE_BYTES_MAX })
  const server = createServer((request, response) => serve(request, response))
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })

  function serve(request: IncomingMessage, response: ServerResponse): void {
    const addressed = addressOf(request)
    if (addressed === undefined) {
      control(request, response)
      return
    }
    const answer = simulator.answer(addressed.source, addressed.request)
    if (answer === undefined) {
      request.socket.destroy()
    } else if ('body' in answer) {
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.body)
    } else {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
      response.flushHeaders()
      const leave = answer.follow({
        send: (text) => void response.write(text),
        close: () => void response.destroy(),
      })
      response.on('close', leave)
    }
  }

  function control(request: IncomingMessage, response: ServerResponse): void {
    const [, , name, fault] = new URL(request.url ?? '/', 'http://simulator').pathname.split('/')
    const source = PRICE_SOURCES.find((known) => known === name)
    const wanted = PROVIDER_FAULTS.find((known) => known === fault)
    const isSet = request.method === 'POST' && wanted !== undefined
    const isCleared = request.method === 'DELETE' && fault === undefined
    if (source === undefined || !(isSet || isCleared)) {
      response.writeHead(404).end()
      return
    }
    simulator.setFault(source, isSet ? wanted : undefined)
    response.writeHead(204).end()
  }

  server.on('upgrade', (request, socket, head) => {
    const addressed = addressOf(request)
    if (addressed === undefined) {
      socket.destroy()
      return
    }
    upgrader.handleUpgrade(request, socket, head, (client) => {
      const taken = simulator.accept(addressed.source, addressed.request, {
        send: (text) => client.send(text),
        close: () => client.close(),
      })
      client.on('message', (data) => taken?.message(String(data)))
      client.on('close', () => taken?.closed())
      // An error needs no handling, because a close event follows.
      client.on('error', () => undefined)
      if (taken === undefined) client.terminate()
    })
  })

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  const feeds = simulatedSettings(options.assets, (source) => ({
    http: `http://127.0.0.1:${port}/${source}`,
    socket: `ws://127.0.0.1:${port}/${source}`,
  }))
  return {
    port,
    simulator,
    feeds,
    async close() {
      simulator.stop()
      const closed = new Promise((resolve) => server.close(resolve))
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

/** Returns the provider that the request's path names, and the rest of the path. */
function addressOf(request: IncomingMessage): Addressed | undefined {
  const url = new URL(request.url ?? '/', 'http://simulator')
  const source = PRICE_SOURCES.find(
    (name) => url.pathname === `/${name}` || url.pathname.startsWith(`/${name}/`),
  )
  if (source === undefined) return undefined
  const path = url.pathname.slice(source.length + 1)
  const authorization = request.headers.authorization ?? ''
  return { source, request: { path, query: url.searchParams, authorization } }
}
