/**
 * A `fetch` function for viem, built on `node:http` and `node:https`. It takes a third of the time of Node's own
 * `fetch`. The promise resolves when the whole answer has arrived, so a request's deadline includes the body. If a node
 * stops in the middle of an answer, the request fails as if the node had not answered. Redirects are not followed.
 */

import {
  Agent as HttpAgent,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
} from 'node:http'
import { Agent as HttpsAgent, request as secureRequest } from 'node:https'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'

/**
 * Maximum bytes of an answer. The logs of one block always fit, because the block's gas limit bounds them. Each byte of
 * a log costs eight gas, and takes two characters in the answer. If an answer is longer, the caller requests a shorter
 * range of blocks.
 */
export const ANSWER_BYTES_MAX = 32 * 1_048_576
/** Maximum number of concurrent requests to one address; further requests wait. */
const SOCKETS_MAX = 64
/**
 * Milliseconds after which an idle connection is closed. The time is shorter than the idle time of servers, so that no
 * request is sent on a connection that the server is about to close.
 */
const IDLE_MS = 4_000

const kept = { keepAlive: true, maxSockets: SOCKETS_MAX, timeout: IDLE_MS }
const ways = {
  'http:': { request, agent: new HttpAgent(kept) },
  'https:': { request: secureRequest, agent: new HttpsAgent(kept) },
}

/** Options that viem passes; `body` is JSON as text. */
type Init = {
  readonly body?: unknown
  readonly headers?: unknown
  readonly method?: string
  readonly signal?: AbortSignal | null
}

/**
 * Sends a request of viem, which passes the URL as text. If the node closes an idle connection just as the request is
 * sent on it, sends the request once more.
 */
export async function rpcFetch(input: string | URL | Request, init: Init = {}): Promise<Response> {
  const url = new URL(input as string)
  const way = url.protocol === 'https:' ? ways['https:'] : ways['http:']
  try {
    return await attempt(url, init, way)
  } catch (error) {
    if (!(error instanceof StaleError)) throw error
    // Other idle connections may have been closed as well, so the retry opens a new connection.
    return await attempt(url, init, { ...way, agent: false })
  }
}

/** Thrown if the node closes an idle connection just as a request is sent on it. */
class StaleError extends Error {}
const STALE_CODES: readonly (string | undefined)[] = ['ECONNRESET', 'EPIPE']

function attempt(
  url: URL,
  { body, headers, method, signal }: Init,
  way: { readonly request: typeof request; readonly agent: HttpAgent | false },
): Promise<Response> {
  const text = String(body)
  const answered = Promise.withResolvers<Response>()
  const call = way.request(url, {
    method: method ?? 'POST',
    headers: {
      ...(headers as Record<string, string>),
      'accept-encoding': 'gzip',
      'content-length': Buffer.byteLength(text),
    },
    agent: way.agent,
    ...(signal == null ? {} : { signal }),
  })
  call.on('response', (response) => {
    readAll(response).then(answered.resolve, (error: unknown) => {
      // If the deadline ended the read, the promise rejects with the reason of the deadline's signal.
      answered.reject(signal?.aborted === true ? signal.reason : error)
    })
  })
  call.on('error', (error: NodeJS.ErrnoException) => {
    const isStale = call.reusedSocket && STALE_CODES.includes(error.code)
    answered.reject(isStale ? new StaleError() : error)
  })
  call.end(text)
  return answered.promise
}

async function readAll(response: IncomingMessage): Promise<Response> {
  const isPacked = response.headers['content-encoding'] === 'gzip'
  const unpacked = isPacked ? pipeline(response, createGunzip(), () => {}) : response
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of unpacked) {
    bytes += (part as Buffer).length
    if (bytes > ANSWER_BYTES_MAX) {
      response.destroy()
      throw new Error(`the response size is more than ${ANSWER_BYTES_MAX} bytes`)
    }
    parts.push(part as Buffer)
  }
  return answerOf(response, Buffer.concat(parts).toString())
}

/** Builds the response for viem, with only the fields that viem reads. */
function answerOf(
  { statusCode = 0, statusMessage, headers }: IncomingMessage,
  text: string,
): Response {
  const answer = {
    ok: statusCode >= 200 && statusCode < 300,
    status: statusCode,
    statusText: statusMessage ?? '',
    headers: { get: (name: string) => headerOf(headers, name) },
    body: null,
    text: async () => text,
  }
  return answer as unknown as Response
}

function headerOf(headers: IncomingHttpHeaders, name: string): string | null {
  const value = headers[name.toLowerCase()]
  return value === undefined ? null : String(value)
}
