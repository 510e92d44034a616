/** The Model Context Protocol server: tools over standard input and output, or over HTTP on this machine alone. */

import { timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { SibylError } from '#client/sibyl-error.ts'
import { showJson } from '../show.ts'
import type { McpSdk } from './sdk.ts'
import { argumentFlaw, Refusal, type Tool } from './tools.ts'

/** One log line per call: the tool, its arguments, and the result. */
export type CallLog = (line: {
  readonly tool: string
  readonly args: object
  readonly outcome: string
}) => void

type ServerParts = {
  readonly sdk: McpSdk
  readonly tools: readonly Tool[]
  readonly log: CallLog
  readonly version: string
}

const BODY_BYTES_MAX = 65_536

export function makeMcpServer({ sdk, tools, log, version }: ServerParts) {
  const server = new sdk.Server({ name: 'sibyl', version }, { capabilities: { tools: {} } })
  server.setRequestHandler(sdk.ListToolsRequestSchema, async () => ({
    tools: tools.map(({ run: _, ...shown }) => shown),
  }))
  server.setRequestHandler(
    sdk.CallToolRequestSchema,
    async ({
      params,
    }: {
      params: { name: string; arguments?: Readonly<Record<string, unknown>> }
    }) => {
      const args = params.arguments ?? {}
      const tool = tools.find(({ name }) => name === params.name)
      const outcome = (said: string) => log({ tool: params.name, args, outcome: said })
      try {
        if (tool === undefined) throw new Refusal(`there is no tool ${params.name}`)
        const flaw = argumentFlaw(tool, args)
        if (flaw !== undefined) throw new Refusal(flaw)
        const answer = await tool.run(args)
        outcome('done')
        return { content: [{ type: 'text', text: showJson(answer) }] }
      } catch (error) {
        const said = messageOf(error)
        outcome(said)
        return { content: [{ type: 'text', text: said }], isError: true }
      }
    },
  )
  return server
}

function messageOf(error: unknown): string {
  if (error instanceof Refusal) return `REFUSED: ${error.message}`
  if (error instanceof SibylError) return `${error.code}: ${error.message}`
  // Other errors may contain details of this machine.
  return 'INTERNAL: the call failed'
}

/** Serves until the signal; returns the port. Requests need the token, and come from this machine. */
export async function serveHttp(
  parts: ServerParts,
  {
    port,
    token,
    signal,
  }: { readonly port: number; readonly token: string; readonly signal: AbortSignal },
): Promise<number> {
  const http = createServer((request, response) => {
    handle(parts, token, request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve, reject) => {
    http.once('error', reject)
    http.listen(port, '127.0.0.1', resolve)
  })
  signal.addEventListener('abort', () => http.close())
  const bound = http.address()
  return typeof bound === 'object' && bound !== null ? bound.port : port
}

async function handle(
  parts: ServerParts,
  token: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  // No browser page may reach the server, whatever host name it uses for this address.
  if (request.headers.origin !== undefined || !isAuthorized(request.headers.authorization, token)) {
    response.writeHead(401, { 'content-type': 'text/plain' }).end('a bearer token is required\n')
    return
  }
  const body = await readJson(request)
  if (request.method !== 'POST' || body === undefined) {
    response.writeHead(request.method === 'POST' ? 400 : 405).end()
    return
  }
  // Each request has its own server and transport, so no session is stored.
  const server = makeMcpServer(parts)
  const transport = new parts.sdk.StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
  response.on('close', () => void server.close())
  await server.connect(transport)
  await transport.handleRequest(request, response, body)
}

function isAuthorized(header: string | undefined, token: string): boolean {
  const given = Buffer.from(header ?? '')
  const expected = Buffer.from(`Bearer ${token}`)
  return given.length === expected.length && timingSafeEqual(given, expected)
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) return undefined
    chunks.push(chunk)
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown
  } catch {
    return undefined
  }
}
