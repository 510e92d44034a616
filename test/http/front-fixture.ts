/** A front on a free port with a few routes that show each kind of behaviour, and a raw client. */

import { connect, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import Type from 'typebox'
import { reject } from '#domain/rejection.ts'
import { ok, type Route, route } from '#http/route.ts'
import { address, bytes32, flag, oneOf, safeInteger, uint64 } from '#http/schemas.ts'
import { type Front, type FrontOptions, type FrontSettings, startFront } from '#http/server.ts'

export const closed = { additionalProperties: false } as const

export type LogLine = { readonly level: string; readonly message: string; readonly fields: object }

export type TestFront = {
  readonly front: Front
  readonly url: string
  readonly lines: LogLine[]
  /** Functions to run at the end of the test, before the front closes. */
  readonly beforeClose: (() => Promise<void>)[]
  /** Resolves the promise that the `/slow` route waits for. */
  readonly finishSlow: () => void
  /** Resolves when a request has reached `/slow`. */
  readonly slowReached: Promise<void>
}

export function testRoutes(gate: { readonly wait: () => Promise<void> }): Route[] {
  const text = Type.Object({ said: Type.String() })
  return [
    route({
      method: 'GET',
      path: '/echo/{marketId}',
      auth: 'public',
      cost: 'read',
      summary: 'Says what it was asked',
      params: Type.Object({ marketId: bytes32() }, closed),
      query: Type.Object(
        {
          limit: Type.Optional(safeInteger({ min: 1, max: 100, description: 'How many' })),
          side: Type.Optional(oneOf(['buy', 'sell'])),
          quick: Type.Optional(flag()),
          name: Type.Optional(Type.String({ maxLength: 8 })),
        },
        closed,
      ),
      responses: { 200: Type.Object({ marketId: Type.String(), query: Type.Unknown() }) },
      handle: ({ path, query }) => ok({ marketId: path.marketId, query }),
    }),
    route({
      method: 'GET',
      path: '/needs',
      auth: 'public',
      cost: 'read',
      summary: 'Has a required parameter',
      query: Type.Object({ trader: address() }, closed),
      responses: { 200: Type.Object({ trader: Type.String() }) },
      errors: ['MARKET_NOT_FOUND'],
      handle: ({ query }) => ok({ trader: query.trader }),
    }),
    route({
      method: 'POST',
      path: '/orders',
      auth: 'write',
      cost: 'write',
      summary: 'Takes something like an order',
      bodyBytesMax: 65_536,
      body: Type.Object(
        {
          order: Type.Object(
            { nonce: uint64(), price: safeInteger(), trader: address(), side: Type.Integer() },
            closed,
          ),
          tags: Type.Optional(Type.Array(Type.String(), { maxItems: 3 })),
          more: Type.Optional(Type.Array(uint64())),
        },
        closed,
      ),
      responses: { 200: Type.Object({ got: Type.Unknown() }) },
      handle: ({ body }) => ok({ got: body }),
    }),
    route({
      method: 'POST',
      path: '/maybe',
      auth: 'public',
      cost: 'write',
      summary: 'Can do without a body',
      body: Type.Object({ a: Type.Optional(Type.Integer()) }, closed),
      bodyOptional: true,
      responses: { 200: Type.Object({ body: Type.Unknown() }) },
      handle: async ({ body }) => ok({ body: body ?? null }),
    }),
    route({
      method: 'DELETE',
      path: '/orders/{hash}',
      auth: 'write',
      cost: 'write',
      summary: 'Answers a rejection',
      params: Type.Object({ hash: bytes32() }, closed),
      responses: { 200: text },
      errors: ['ORDER_NOT_FOUND'],
      handle: async () => reject('ORDER_NOT_FOUND'),
    }),
    route({
      method: 'GET',
      path: '/slow',
      auth: 'public',
      cost: 'read',
      summary: 'Waits to be told',
      responses: { 200: text },
      async handle() {
        await gate.wait()
        return ok({ said: 'at last' })
      },
    }),
    route({
      method: 'POST',
      path: '/slow',
      auth: 'public',
      cost: 'write',
      summary: 'Waits to be told, too',
      responses: { 200: text },
      async handle() {
        await gate.wait()
        return ok({ said: 'at last' })
      },
    }),
    route({
      method: 'GET',
      path: '/throws',
      auth: 'public',
      cost: 'read',
      summary: 'Has a bug',
      responses: { 200: text },
      handle() {
        throw new Error('secret details')
      },
    }),
    route({
      method: 'GET',
      path: '/throws-later',
      auth: 'public',
      cost: 'read',
      summary: 'Has a bug behind an await',
      responses: { 200: text },
      async handle() {
        await null
        throw new Error('secret details')
      },
    }),
    route({
      method: 'GET',
      path: '/large',
      auth: 'public',
      cost: 'read',
      summary: 'Answers more than a socket buffer holds',
      responses: { 200: text },
      handle: () => ({ status: 200, raw: LARGE, contentType: 'text/plain' }),
    }),
    route({
      method: 'GET',
      path: '/sums',
      auth: 'public',
      cost: 'read',
      summary: 'Answers an integer beyond 2^53',
      responses: { 200: Type.Object({ total: Type.Unknown() }) },
      handle: () => ok({ total: 2n ** 64n - 1n }),
    }),
    route({
      method: 'GET',
      path: '/split-header',
      auth: 'public',
      cost: 'read',
      summary: 'Tries to answer a header with a line break',
      responses: { 200: text },
      handle: () => ({ status: 200, body: { said: '' }, headers: { 'x-a': 'b\r\nx-c: d' } }),
    }),
    route({
      method: 'GET',
      path: '/who',
      auth: 'public',
      cost: 'read',
      summary: 'Tells what it knows of the caller',
      headers: ['user-agent'],
      readsIp: true,
      responses: { 200: Type.Object({ ip: Type.String(), agent: Type.String() }) },
      handle: ({ ip, headers }) => ok({ ip, agent: headers['user-agent'] ?? '' }),
    }),
  ]
}

export const LARGE = 'x'.repeat(16 * 1024 * 1024)

export async function startTestFront(
  t: TestContext,
  settings: Partial<FrontSettings> = {},
  options: Partial<FrontOptions> = {},
): Promise<TestFront> {
  const lines: LogLine[] = []
  const log = (level: string) => (fields: object, message: string) => {
    lines.push({ level, fields, message })
  }
  const slow = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  const wait = () => {
    reached.resolve()
    return slow.promise
  }
  const { routes = [], ...rest } = options
  const front = await startFront({
    settings: {
      host: '127.0.0.1',
      port: 0,
      corsOrigins: ['*'],
      deadlineMs: 120_000,
      requestsInFlightMax: 100,
      ...settings,
    },
    services: { readiness: () => ({ store: { ok: true } }) },
    info: { title: 'Sibyl', version: '1.2.3' },
    log: { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') },
    ...rest,
    routes: [...testRoutes({ wait }), ...routes],
  })
  const beforeClose: (() => Promise<void>)[] = []
  t.after(async () => {
    for (const stop of beforeClose) await stop()
    await front.close({ drainMs: 0 })
  })
  return {
    front,
    beforeClose,
    url: `http://127.0.0.1:${front.port}`,
    lines,
    finishSlow: slow.resolve,
    slowReached: reached.promise,
  }
}

export type RawResponse = {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

/** Opens a connection on which a test sends raw bytes: each piece is sent right away and unchanged. */
export function openRaw(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    socket.once('error', reject)
    socket.once('connect', () => resolve(socket))
  })
}

/** Reads this many responses, or fewer if the server closes the connection before. */
export function readResponses(
  socket: Socket,
  count: number,
  method: 'head' | 'other' = 'other',
): Promise<RawResponse[]> {
  return new Promise((resolve, reject) => {
    let text = ''
    const responses: RawResponse[] = []
    const take = (ended: boolean): void => {
      for (;;) {
        const parsed = parseResponse(text, ended, method === 'head')
        if (parsed === undefined) break
        responses.push(parsed.response)
        text = parsed.rest
      }
      if (responses.length >= count || ended) resolve(responses)
    }
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      take(false)
    })
    socket.once('close', () => take(true))
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') reject(error)
    })
  })
}

function parseResponse(
  text: string,
  ended: boolean,
  isHead: boolean,
): { response: RawResponse; rest: string } | undefined {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const [first = '', ...fields] = text.slice(0, end).split('\r\n')
  const headers = new Map(
    fields.map((field) => {
      const colon = field.indexOf(':')
      return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()]
    }),
  )
  const rest = text.slice(end + 4)
  const announced = headers.get('content-length') ?? (ended ? rest.length : Number.NaN)
  const length = isHead ? 0 : Number(announced)
  if (Number.isNaN(length) || rest.length < length) return undefined
  const status = Number(first.split(' ')[1])
  return { response: { status, headers, body: rest.slice(0, length) }, rest: rest.slice(length) }
}

export async function sendRaw(
  port: number,
  text: string,
  count = 1,
  method: 'head' | 'other' = 'other',
): Promise<RawResponse[]> {
  const socket = await openRaw(port)
  const responses = readResponses(socket, count, method)
  socket.write(Buffer.from(text, 'latin1'))
  const read = await responses
  socket.destroy()
  return read
}

export function postText(url: string, body: string | Uint8Array): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    body: body as BodyInit,
    headers: { 'content-type': 'application/json' },
  })
}

export const MARKET = `0x${'Ab'.repeat(32)}`
export const TRADER = `0x${'Cd'.repeat(20)}`
