/**
 * The Model Context Protocol server: tools over standard input and output, or over HTTP for programs on this machine
 * only.
 */

import { timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { SibylError } from '#client/sibyl-error.ts'
import { showJson } from '../show.ts'
import type { McpSdk } from './sdk.ts'
import { argumentFlaw, Refusal, type Tool } from './tools.ts'

/** Writes one log line for a call: the tool, its arguments, and the result. */
export type CallLog = (line: {
  readonly tool: string
  readonly args: object
  readonly outcome: string
}) => void

type Args = Readonly<Record<string, unknown>>
type Answer = {
  readonly content: readonly { readonly type: 'text'; readonly text: string }[]
  readonly isError?: boolean
}

export type ServerParts = {
  readonly sdk: McpSdk
  readonly tools: readonly Tool[]
  /** Calls a tool; never rejects. */
  readonly call: (name: string, args: Args) => Promise<Answer>
  /** Text shown to the model at the start: the account and its limits. */
  readonly instructions: string
  readonly version: string
}

const BODY_BYTES_MAX = 65_536
/** Maximum number of calls in progress over all connections. */
const CALLS_MAX = 16
const ANSWER_CHARS_MAX = 262_144
const CONNECTIONS_MAX = 64
/** Maximum time for a client to send its request; after this time, the server closes the connection. */
const REQUEST_MS_MAX = 10_000
/**
 * Maximum length of a logged argument or name, in characters. `LOGGED_ARGS_MAX` limits the number of logged arguments.
 */
const LOGGED_CHARS_MAX = 100
const LOGGED_ARGS_MAX = 16

/**
 * Returns the function that calls tools. That function checks the arguments, limits the number of calls in progress,
 * and logs each call. It removes the private key `key` from the logged names and arguments.
 */
export function makeCaller(
  tools: readonly Tool[],
  log: CallLog,
  key: string | undefined,
): ServerParts['call'] {
  let underWay = 0
  const logged = (text: string) => shown(key === undefined ? text : withoutKey(text, key))

  /** Returns arguments in the form for the log: shortened, with each nested object replaced by a fixed text. */
  function loggedArgs(args: Args): object {
    const entries = Object.entries(args).slice(0, LOGGED_ARGS_MAX)
    return Object.fromEntries(
      entries.map(([name, value]) => [
        logged(name),
        typeof value === 'object' ? 'an object' : logged(String(value)),
      ]),
    )
  }

  async function answerOf(name: string, args: Args): Promise<string> {
    const tool = tools.find((each) => each.name === name)
    if (tool === undefined) throw new Refusal(`there is no tool ${logged(name)}`)
    const flaw = argumentFlaw(tool, args)
    if (flaw !== undefined) throw new Refusal(flaw)
    const text = showJson(await tool.run(args))
    if (text.length <= ANSWER_CHARS_MAX) return text
    throw new Refusal(`the answer has more than ${ANSWER_CHARS_MAX} characters`)
  }

  return async (name, args) => {
    const line = { tool: logged(name), args: loggedArgs(args) }
    if (underWay >= CALLS_MAX) {
      const said = `REFUSED: ${CALLS_MAX} calls are under way, which is the maximum: retry when a call has ended`
      log({ ...line, outcome: said })
      return { content: [{ type: 'text', text: said }], isError: true }
    }
    underWay++
    try {
      const text = await answerOf(name, args)
      log({ ...line, outcome: 'done' })
      return { content: [{ type: 'text', text }] }
    } catch (error) {
      const said = messageOf(error)
      log({ ...line, outcome: said })
      return { content: [{ type: 'text', text: said }], isError: true }
    } finally {
      underWay--
    }
  }
}

const shown = (text: string): string => text.slice(0, LOGGED_CHARS_MAX)

/** Replaces unprintable characters by `?`, and the hex digits of the key, in any letter case, by `…`. */
function withoutKey(text: string, key: string): string {
  const digits = key.slice(2).toLowerCase()
  const plain = text.replace(/[^ -~]/g, '?')
  const found = plain.toLowerCase().split(digits)
  let from = 0
  // `plain` contains only ASCII, so each position in the lower-case text is the same position in `plain`.
  const kept = found.map((part) => {
    const same = plain.slice(from, from + part.length)
    from += part.length + digits.length
    return same
  })
  return kept.join('…')
}

function messageOf(error: unknown): string {
  if (error instanceof Refusal) return `REFUSED: ${error.message}`
  if (error instanceof SibylError) return `${error.code}: ${error.message}`
  // Messages of unexpected errors may contain details of this machine, so they are not returned.
  return 'INTERNAL: the call failed'
}

export function makeMcpServer({ sdk, tools, call, instructions, version }: ServerParts) {
  const server = new sdk.Server(
    { name: 'sibyl', version },
    { capabilities: { tools: {} }, instructions },
  )
  server.setRequestHandler(sdk.ListToolsRequestSchema, async () => ({
    tools: tools.map(({ run: _, ...listed }) => listed),
  }))
  server.setRequestHandler(
    sdk.CallToolRequestSchema,
    async ({ params }: { params: { name: string; arguments?: Args } }) =>
      call(params.name, params.arguments ?? {}),
  )
  return server
}

/**
 * Serves until the signal aborts; returns the port. Requests need the token, and must come from a program on this
 * machine.
 */
export async function serveHttp(
  parts: ServerParts,
  {
    port,
    token,
    signal,
  }: { readonly port: number; readonly token: string; readonly signal: AbortSignal },
): Promise<number> {
  const http: Server = createServer(
    { requestTimeout: REQUEST_MS_MAX, headersTimeout: REQUEST_MS_MAX },
    (request, response) => {
      handle(parts, { token, port: portOf(http) }, request, response).catch(() =>
        response.destroy(),
      )
    },
  )
  http.maxConnections = CONNECTIONS_MAX
  await new Promise<void>((resolve, reject) => {
    http.once('error', reject)
    http.listen(port, '127.0.0.1', resolve)
  })
  signal.addEventListener('abort', () => {
    http.close()
    http.closeAllConnections()
  })
  return portOf(http)
}

function portOf(http: Server): number {
  const bound = http.address()
  return typeof bound === 'object' && bound !== null ? bound.port : 0
}

async function handle(
  parts: ServerParts,
  { token, port }: { readonly token: string; readonly port: number },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const refused = refusalOf(request, token, port)
  const body = refused === undefined ? await readJson(request) : undefined
  // A body with a list of calls is rejected: the protocol allows one call per request.
  if (refused !== undefined || body === undefined || Array.isArray(body)) {
    const [status, why] = refused ?? [400, 'the body must be one JSON object']
    // The connection closes after the answer, because the server does not read the rest of the request's body.
    response.writeHead(status, { 'content-type': 'text/plain', connection: 'close' })
    response.end(`${why}\n`)
    return
  }
  // Each request has its own server and transport, so no session is stored.
  const server = makeMcpServer(parts)
  const transport = new parts.sdk.StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
  response.on('close', () => void server.close())
  await server.connect(transport)
  await transport.handleRequest(request, response, body)
}

/** Returns the status and reason for rejecting a request before its body is read; undefined if it is accepted. */
function refusalOf(
  { method, headers }: IncomingMessage,
  token: string,
  port: number,
): readonly [status: number, why: string] | undefined {
  // A web page can reach this address under another host name (DNS rebinding), but its requests then carry that name as
  // the Host.
  if (![`127.0.0.1:${port}`, `localhost:${port}`].includes(headers.host ?? '')) {
    return [403, `the Host must be 127.0.0.1:${port} or localhost:${port}`]
  }
  if (headers.origin !== undefined) return [403, 'requests from web pages are refused']
  if (!isAuthorized(headers.authorization, token)) return [401, 'a bearer token is required']
  if (method !== 'POST') return [405, 'the method must be POST']
  const isLong = Number(headers['content-length'] ?? 0) > BODY_BYTES_MAX
  return isLong ? [413, `the body must have at most ${BODY_BYTES_MAX} bytes`] : undefined
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
