/**
 * The transport of `sibyl mcp` over standard input and output: one JSON-RPC message per line. A line that is not a
 * message gets an error. After the input ends, calls in progress are still answered.
 */

import type { McpSdk, Transport } from './sdk.ts'

const LINE_BYTES_MAX = 1_048_576
/** Maximum wait for calls in progress after the input ends. */
const LAST_CALLS_MS_MAX = 10_000

const [PARSE_ERROR, INVALID_REQUEST] = [-32_700, -32_600]
const LINE_FEED = 10

type Streams = {
  readonly input: NodeJS.ReadableStream
  readonly output: NodeJS.WritableStream
  readonly lastCallsMsMax?: number
}

export function makeStdioTransport(
  { JSONRPCMessageSchema }: Pick<McpSdk, 'JSONRPCMessageSchema'>,
  { input, output, lastCallsMsMax = LAST_CALLS_MS_MAX }: Streams,
): Transport {
  /** Ids of requests that have no answer yet. */
  const underWay = new Set<string | number>()
  let isClosed = false
  let ending: NodeJS.Timeout | undefined

  function refuse(code: number, message: string, id: unknown = null): void {
    output.write(`${JSON.stringify({ jsonrpc: '2.0', id, error: { code, message } })}\n`)
  }

  function take(line: string): void {
    if (line.trim() === '') return
    let json: unknown
    try {
      json = JSON.parse(line)
    } catch {
      refuse(PARSE_ERROR, 'the line must be JSON')
      return
    }
    const { success, data } = JSONRPCMessageSchema.safeParse(json)
    if (!success || data === undefined) {
      const id = (json as { id?: unknown } | null)?.id
      const known = typeof id === 'string' || typeof id === 'number' ? id : null
      refuse(INVALID_REQUEST, 'the line must be one message of JSON-RPC 2.0', known)
      return
    }
    const { id, method, params } = data
    if (method !== undefined && id !== undefined) underWay.add(id)
    // A cancelled request gets no answer.
    if (method === 'notifications/cancelled') answered(params?.requestId)
    transport.onmessage?.(data)
  }

  const read = makeLineReader(take, () =>
    refuse(INVALID_REQUEST, `a line must have at most ${LINE_BYTES_MAX} bytes`),
  )

  function answered(id: unknown): void {
    underWay.delete(id as string | number)
    if (ending !== undefined && underWay.size === 0) close()
  }

  function end(): void {
    ending ??= setTimeout(close, lastCallsMsMax)
    if (underWay.size === 0) close()
  }

  function close(): void {
    if (isClosed) return
    isClosed = true
    clearTimeout(ending)
    input.off('data', read).off('end', end)
    input.pause()
    transport.onclose?.()
  }

  const transport: Transport = {
    start() {
      input.on('data', read).on('end', end)
      // An output error means that the client has stopped reading, so no answer can reach the client.
      output.on('error', close)
      return Promise.resolve()
    },
    send(message) {
      return new Promise((resolve) => {
        output.write(`${JSON.stringify(message)}\n`, () => {
          resolve()
          if (message.method === undefined) answered(message.id)
        })
      })
    },
    close() {
      close()
      return Promise.resolve()
    },
  }
  return transport
}

/**
 * Returns a function that splits chunks into lines. The function reports an overlong line at once, and skips the
 * remainder of that line.
 */
function makeLineReader(take: (line: string) => void, tooLong: () => void) {
  let parts: Buffer[] = []
  let bytes = 0

  function add(part: Buffer): void {
    const before = bytes
    bytes += part.length
    if (bytes <= LINE_BYTES_MAX) {
      parts.push(part)
      return
    }
    parts = []
    if (before <= LINE_BYTES_MAX) tooLong()
  }

  return (chunk: Buffer): void => {
    let from = 0
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, from)) {
      add(chunk.subarray(from, end))
      const line = Buffer.concat(parts).toString()
      parts = []
      bytes = 0
      take(line)
      from = end + 1
    }
    if (from < chunk.length) add(chunk.subarray(from))
  }
}
