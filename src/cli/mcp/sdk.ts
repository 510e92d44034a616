/**
 * The parts of `@modelcontextprotocol/sdk` that the server uses. Only `sibyl mcp` needs the library, so it is loaded on
 * demand, and an exchange can be installed without it.
 */

import type { IncomingMessage, ServerResponse } from 'node:http'
import { CommandError } from '#devnet/command.ts'

type Transport = { close(): Promise<void> }

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
  readonly StdioServerTransport: new (
    input: NodeJS.ReadableStream,
    output: NodeJS.WritableStream,
    options: object,
  ) => Transport
  readonly StreamableHTTPServerTransport: new (options: object) => HttpTransport
  readonly ListToolsRequestSchema: unknown
  readonly CallToolRequestSchema: unknown
}

const LIBRARY = '@modelcontextprotocol/sdk'

export async function loadSdk(): Promise<McpSdk> {
  try {
    const parts = ['server/index.js', 'server/stdio.js', 'server/streamableHttp.js', 'types.js']
    const loaded = await Promise.all(parts.map((part) => import(`${LIBRARY}/${part}`)))
    return Object.assign({}, ...loaded) as McpSdk
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new CommandError(`sibyl mcp needs the package ${LIBRARY}: npm ci installs it (${why})`)
  }
}
