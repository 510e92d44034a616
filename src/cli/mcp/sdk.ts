/**
 * The parts of `@modelcontextprotocol/sdk` that the server uses. Only `sibyl mcp` needs the library, so it is loaded on
 * demand, and an exchange can be installed without it.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { CommandError } from '#devnet/command.ts'

/** A message of JSON-RPC 2.0: a request, a notification or an answer. */
type Message = {
  readonly id?: string | number
  readonly method?: string
  readonly params?: { readonly requestId?: unknown }
}

export type Transport = {
  start(): Promise<void>
  send(message: Message): Promise<void>
  close(): Promise<void>
  onmessage?: (message: Message) => void
  onclose?: () => void
}

type HttpTransport = Transport & {
  handleRequest(request: IncomingMessage, response: ServerResponse, body?: unknown): Promise<void>
}

type McpServer = {
  setRequestHandler(schema: unknown, handle: (request: never) => Promise<object>): void
  connect(transport: Transport): Promise<void>
  close(): Promise<void>
  onclose?: () => void
}

export type McpSdk = {
  readonly Server: new (info: object, options: object) => McpServer
  readonly StreamableHTTPServerTransport: new (options: object) => HttpTransport
  readonly JSONRPCMessageSchema: {
    safeParse(json: unknown): { readonly success: boolean; readonly data?: Message }
  }
  readonly ListToolsRequestSchema: unknown
  readonly CallToolRequestSchema: unknown
}

const LIBRARY = '@modelcontextprotocol/sdk'

export async function loadSdk(): Promise<McpSdk> {
  try {
    const parts = ['server/index.js', 'server/streamableHttp.js', 'types.js']
    const loaded = await Promise.all(parts.map((part) => import(`${LIBRARY}/${part}`)))
    return Object.assign({}, ...loaded) as McpSdk
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new CommandError(`sibyl mcp needs the package ${LIBRARY}: npm ci installs it (${why})`)
  }
}
