/**
 * Sends one request of the SDK, and returns its answer or throws a `SibylError`. Retries are safe, because
 * every request that is retried is idempotent. A rejection by the server is final, except if its
 * `Retry-After` header asks for a later attempt.
 */

import { backoff } from '#domain/backoff.ts'
import { trimEnd } from '#domain/trim-end.ts'
import { parseExactJson } from './exact-json.ts'
import { SibylError } from './sibyl-error.ts'

export type TransportOptions = {
  readonly url: string
  /** Headers of a request; the function is called for each attempt, because a bearer token can be used only once. */
  readonly headers?: (() => HeaderLines | Promise<HeaderLines>) | undefined
  /** True to request receipts of orders and cancels. */
  readonly receipts?: boolean | undefined
  /** Timeout of one attempt; 15 s by default. */
  readonly timeoutMs?: number | undefined
  /** Maximum number of retries; 5 by default. A request is retried only if a retry is safe and can help. */
  readonly retries?: number | undefined
  /** Pause before the first retry, 100 ms by default; the pause doubles with each retry. */
  readonly backoffMs?: number | undefined
  readonly fetch?: typeof fetch | undefined
}

export type HeaderLines = Readonly<Record<string, string>>

export type CallOptions = {
  /** Aborts the request and its retries. A request that was sent may still be executed. */
  readonly signal?: AbortSignal
  /** Timeout of each attempt, instead of the client's. */
  readonly timeoutMs?: number
}

export type Request = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly body?: object
  /** `file` if the answer is a `FileAnswer`; by default, the answer is JSON. */
  readonly answers?: 'file'
}

/** A file with the headers of its answer. */
export type FileAnswer = { readonly bytes: Uint8Array<ArrayBuffer>; readonly headers: Headers }

export type Transport = <Answer>(request: Request, options?: CallOptions) => Promise<Answer>

/**
 * Returns the address of the exchange. Rejects a missing address, often caused by an unset variable, with an error that
 * names `url`.
 */
function readUrl(url: unknown): string {
  if (typeof url === 'string' && /^https?:\/\/./.test(url)) return url
  const given = typeof url === 'string' ? `'${url}'` : String(url)
  const message = `url must be the address of an exchange, such as 'http://127.0.0.1:8080', and not ${given}`
  throw new SibylError(url === undefined ? 'MISSING_FIELD' : 'INVALID_FIELD', message, {
    field: 'url',
  })
}

/**
 * Maximum pause before a retry, in milliseconds. If the server asks for a longer pause, the request fails, and the
 * caller may retry later.
 */
const PAUSE_MS_MAX = 30_000
const BACKOFF_MS_MAX = 5_000
export const BACKOFF_MS = 100
const TIMEOUT_MS = 15_000
const RETRIES = 5

export function createTransport(options: TransportOptions): Transport {
  const base = trimEnd(readUrl(options.url), '/')
  const { timeoutMs = TIMEOUT_MS, retries = RETRIES, backoffMs = BACKOFF_MS } = options
  const fetchIt: typeof fetch = options.fetch ?? ((input, init) => fetch(input, init))

  async function attempt(request: Request, url: string, call: CallOptions): Promise<Attempt> {
    const timeout = AbortSignal.timeout(call.timeoutMs ?? timeoutMs)
    const signal = call.signal === undefined ? timeout : AbortSignal.any([timeout, call.signal])
    const headers = await options.headers?.()
    try {
      const response = await fetchIt(url, {
        method: request.method,
        headers: {
          accept: request.answers === 'file' ? '*/*' : 'application/json',
          ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(options.receipts === true ? { 'accept-receipt': '1' } : {}),
          ...headers,
        },
        signal,
        ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
      })
      if (request.answers === 'file' && response.ok) {
        return { response, text: '', bytes: new Uint8Array(await response.arrayBuffer()) }
      }
      return { response, text: await response.text() }
    } catch (error) {
      if (call.signal?.aborted === true) return { failure: 'ABORTED', cause: call.signal.reason }
      return { failure: timeout.aborted ? 'TIMEOUT' : 'NETWORK', cause: error }
    }
  }

  return async <Answer>(request: Request, call: CallOptions = {}): Promise<Answer> => {
    const url = `${base}${request.path}${queryText(request.query)}`
    // True if an earlier attempt may have been executed. Stays true until the answer to a later attempt shows the
    // outcome.
    let unsure = false
    for (let attempts = 1; ; attempts++) {
      if (call.signal?.aborted === true) throw calledOff(request, attempts - 1, unsure, call.signal)
      const result = await attempt(request, url, call)
      const read = readAttempt(request, result, attempts, unsure)
      if (!(read instanceof SibylError)) return read.answer as Answer
      unsure = read.outcomeUnknown
      const pauseMs = attempts > retries ? undefined : pauseAfter(read, result, attempts)
      if (pauseMs === undefined) throw read
      await pause(pauseMs, call.signal)
    }
  }

  /** Returns the pause before the next attempt; undefined if a retry cannot help. */
  function pauseAfter(error: SibylError, result: Attempt, attempts: number): number | undefined {
    // The pause is random, so that clients that failed together do not retry together.
    const jitteredMs = backoff(backoffMs, BACKOFF_MS_MAX, attempts - 1) * (0.5 + Math.random() / 2)
    if ('failure' in result) return result.failure === 'ABORTED' ? undefined : jitteredMs
    const askedMs = retryAfterMs(result.response)
    if (askedMs !== undefined) {
      return askedMs > PAUSE_MS_MAX ? undefined : Math.max(jitteredMs, askedMs)
    }
    // A proxy could not reach the exchange, or lost the connection to the exchange, so a retry may succeed.
    const lost = error.code === 'UNEXPECTED_ANSWER' && GATEWAY_STATUSES.has(error.status ?? 0)
    return lost ? jitteredMs : undefined
  }
}

const GATEWAY_STATUSES = new Set([502, 503, 504])

/**
 * Statuses with which the server rejects a request after it has checked the order itself. Such a rejection also applies
 * to earlier attempts whose outcome was unknown. Rejections with other statuses (401, 403, 413, 429 and the like) come
 * before that check, so they say nothing about earlier attempts.
 */
const DECIDING_STATUSES = new Set([400, 404, 409, 422])

/**
 * Codes that leave the outcome of an earlier attempt unknown, although their status is in `DECIDING_STATUSES`. A market
 * that was removed no longer knows whether it accepted the order.
 */
const UNDECIDING_CODES = new Set(['MARKET_CLOSED'])

type Attempt =
  | {
      readonly response: Response
      readonly text: string
      readonly bytes?: Uint8Array<ArrayBuffer>
    }
  | { readonly failure: 'NETWORK' | 'TIMEOUT' | 'ABORTED'; readonly cause: unknown }

function readAttempt(
  request: Request,
  result: Attempt,
  attempts: number,
  unsure: boolean,
): { readonly answer: unknown } | SibylError {
  const what = `${request.method} ${request.path}`
  // A read changes nothing, so its outcome is never unknown.
  const isWrite = request.method !== 'GET'
  if ('failure' in result) {
    const { failure, cause } = result
    const details = { attempts, outcomeUnknown: isWrite, cause }
    return new SibylError(failure, `${what}: ${WORDS[failure]}`, details)
  }
  const { response, text, bytes } = result
  if (bytes !== undefined) {
    return { answer: { bytes, headers: response.headers } satisfies FileAnswer }
  }
  const requestId = response.headers.get('x-request-id') ?? undefined
  const { status } = response
  const outcomeUnknown = isWrite && (status >= 500 || (unsure && !DECIDING_STATUSES.has(status)))
  const details = { status, requestId, attempts, outcomeUnknown }
  // An answer that is not from Sibyl does not show whether an earlier attempt was executed.
  const unread = { ...details, outcomeUnknown: outcomeUnknown || unsure }
  let body: unknown
  try {
    body = parseExactJson(text)
  } catch (cause) {
    const message = `${what}: the answer with status ${status} is not JSON`
    return new SibylError('UNEXPECTED_ANSWER', message, { ...unread, cause })
  }
  if (response.ok) return { answer: body }
  const { error, code, field } = (body ?? {}) as Partial<Record<string, unknown>>
  if (typeof error !== 'string' || typeof code !== 'string') {
    return new SibylError('UNEXPECTED_ANSWER', `${what}: status ${status}`, unread)
  }
  const isDecided = !UNDECIDING_CODES.has(code)
  return new SibylError(code, error, {
    ...details,
    // A 503 with any code except `OUTCOME_UNKNOWN` means that this attempt changed nothing. An earlier attempt may
    // still have changed something.
    outcomeUnknown:
      status === 503 && code !== 'OUTCOME_UNKNOWN'
        ? unsure
        : outcomeUnknown || (unsure && !isDecided),
    field: typeof field === 'string' ? field : undefined,
  })
}

const WORDS = {
  NETWORK: 'the service could not be reached, or the connection broke',
  TIMEOUT: 'no answer arrived in time',
  ABORTED: 'called off',
} as const

/**
 * Returns the milliseconds until a retry can succeed, from the server's `Retry-After` header. A date is accepted too,
 * because a proxy may send one.
 */
function retryAfterMs({ status, headers }: Response): number | undefined {
  const text = status === 429 || status >= 500 ? headers.get('retry-after') : null
  if (text === null) return undefined
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000
  const atMs = Date.parse(text)
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - Date.now())
}

function queryText(query: Request['query']): string {
  const params = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) params.set(name, String(value))
  }
  const text = params.toString()
  return text === '' ? '' : `?${text}`
}

/** Waits for the given milliseconds. If the signal aborts, the wait ends early, and the next attempt throws. */
export function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal?.addEventListener('abort', done)
  })
}

function calledOff(
  request: Request,
  attempts: number,
  outcomeUnknown: boolean,
  signal: AbortSignal,
): SibylError {
  const message = `${request.method} ${request.path}: ${WORDS.ABORTED}`
  return new SibylError('ABORTED', message, { attempts, outcomeUnknown, cause: signal.reason })
}
