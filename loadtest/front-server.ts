/**
 * One server of the front's benchmark in a process of its own, so that its CPU time can be measured: the whole route
 * table, or a bare uWebSockets.js handler that sends the same body. It sends its port and, on each request, the CPU
 * time that it has used.
 */

import { App, type us_listen_socket, us_socket_local_port } from 'uWebSockets.js'
import Type from 'typebox'
import { ok, route } from '#http/route.ts'
import { bytes32, safeInteger } from '#http/schemas.ts'
import { startFront } from '#http/server.ts'

export type ServerMessage = { readonly port: number } | { readonly cpuMs: number }

const MARKET = `0x${'5a'.repeat(32)}`
const levels = (from: number, step: number) =>
  Array.from({ length: 4 }, (_, at) => ({ price: from + at * step, size: 25_000_000 + at }))
const BOOK = {
  marketId: MARKET,
  bids: levels(480_000, -10_000),
  asks: levels(520_000, 10_000),
  lastUpdate: 1_790_000_000,
}

const level = Type.Object({ price: Type.Integer(), size: Type.Integer() })

async function startTable(): Promise<number> {
  const silent = { debug() {}, info() {}, warn() {}, error() {} }
  const front = await startFront({
    settings: {
      host: '127.0.0.1',
      port: 0,
      corsOrigins: ['*'],
      deadlineMs: 5_000,
      requestsInFlightMax: 4_096,
    },
    services: { readiness: () => ({}) },
    info: { title: 'Sibyl', version: '0.0.0' },
    log: silent,
    routes: [
      route({
        method: 'GET',
        path: '/api/v1/orderbook/{marketId}',
        auth: 'public',
        cost: 'read',
        summary: 'A small book',
        params: Type.Object({ marketId: bytes32() }, { additionalProperties: false }),
        query: Type.Object(
          { depth: Type.Optional(safeInteger({ min: 1, max: 100 })) },
          { additionalProperties: false },
        ),
        responses: {
          200: Type.Object({
            marketId: Type.String(),
            bids: Type.Array(level),
            asks: Type.Array(level),
            lastUpdate: Type.Integer(),
          }),
        },
        handle: ({ path }) => ok({ ...BOOK, marketId: path.marketId }),
      }),
    ],
  })
  return front.port
}

function startBare(): Promise<number> {
  return new Promise((resolve) => {
    App()
      .get('/api/v1/orderbook/:marketId', (res, req) => {
        const marketId = req.getParameter(0) ?? ''
        res.writeHeader('content-type', 'application/json')
        res.end(JSON.stringify({ ...BOOK, marketId }))
      })
      .listen('127.0.0.1', 0, (socket: us_listen_socket | false) => {
        if (socket === false)
          throw new Error('the bare server cannot listen on any port of 127.0.0.1')
        resolve(us_socket_local_port(socket as never))
      })
  })
}

function tell(message: ServerMessage): void {
  process.send?.(message)
}

tell({ port: await (process.argv.includes('bare') ? startBare() : startTable()) })
process.on('message', () => {
  const { user, system } = process.cpuUsage()
  tell({ cpuMs: (user + system) / 1_000 })
})
process.on('disconnect', () => process.exit(0))
