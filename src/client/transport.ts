/**
 * Sends one request of the SDK and brings back its answer or a `SibylError`. What is sent again is
 * only what is safe to send again: every write of the API is idempotent, and a refusal of the server
 * is final unless it says by `Retry-After` that trying later helps.
 */

import { backoff } from '#domain/backoff.ts'
import { trimEnd } from '#domain/trim-end.ts'
import { parseExactJson } from './exact-json.ts'
import { SibylError } from './sibyl-error.ts'

export type TransportOptions = {
  readonly url: string
  /** For each attempt of its own, because a token serves once. */
  readonly headers?: (() => HeaderLines | Promise<HeaderLines>) | undefined
  /** How long one attempt may take; 15 s by default. */
  readonly timeoutMs?: number | undefined
  /** How often a request is sent again when that is safe and can help; 5 times by default. */
  readonly retries?: number | undefined
  /** The pause before the first retry, which doubles each time; 100 ms by default. */
  readonly backoffMs?: number | undefined
  readonly fetch?: typeof fetch | undefined
}

export type HeaderLines = Readonly<Record<string, string>>

export type CallOptions = {
  /** Calls the request off, and the retries of it. What was sent may still be carried out. */
  readonly signal?: AbortSignal
  /** For each attempt, instead of the client's. */
  readonly timeoutMs?: number
}

export type Request = {
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  readonly body?: object
}

export type Transport = <Answer>(request: Request, options?: CallOptions) => Promise<Answer>

/**
 * Returns the address of the exchange; rejects a missing one, often an unset variable, with a message that names
 * `url`.
 */
function readUrl(url: unknown): string {
  if (typeof url === 'string' && /^https?:\/\/./.test(url)) return url
  const given = typeof url === 'string' ? `'${url}'` : String(url)
  const message = `url must be the address of an exchange, such as 'http://127.0.0.1:8080', and not ${given}`
  throw new SibylError(url === undefined ? 'MISSING_FIELD' : 'INVALID_FIELD', message, {
    field: 'url',
  })
}

/** A pause that the server asks for beyond this is left to the caller. */
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
          accept: 'application/json',
          ...(request.body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        signal,
        ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
      })
      return { response, text: await response.text() }
    } catch (error) {
      if (call.signal?.aborted === true) return { failure: 'ABORTED', cause: call.signal.reason }
      return { failure: timeout.aborted ? 'TIMEOUT' : 'NETWORK', cause: error }
    }
  }

  return async <Answer>(request: Request, call: CallOptions = {}): Promise<Answer> => {
    const url = `${base}${request.path}${queryText(request.query)}`
    // What one attempt left open stays open until a later one is decided.
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

  /** How long to wait before the next attempt; undefined when another one cannot help. */
  function pauseAfter(error: SibylError, result: Attempt, attempts: number): number | undefined {
    // Clients that failed together must not come back together.
    const jitteredMs = backoff(backoffMs, BACKOFF_MS_MAX, attempts - 1) * (0.5 + Math.random() / 2)
    if ('failure' in result) return result.failure === 'ABORTED' ? undefined : jitteredMs
    const askedMs = retryAfterMs(result.response)
    if (askedMs !== undefined) {
      return askedMs > PAUSE_MS_MAX ? undefined : Math.max(jitteredMs, askedMs)
    }
    // A proxy in between that could not reach the service, or lost it.
    const lost = error.code === 'UNEXPECTED_ANSWER' && GATEWAY_STATUSES.has(error.status ?? 0)
    return lost ? jitteredMs : undefined
  }
}

const GATEWAY_STATUSES = new Set([502, 503, 504])

/**
 * Refusals that come when the order itself was looked at, and so say what became of an earlier attempt, too. All others
 * (401, 403, 413, 429 and the like) come before that.
 */
const DECIDING_STATUSES = new Set([400, 404, 409, 422])

type Attempt =
  | { readonly response: Response; readonly text: string }
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
  const { response, text } = result
  const requestId = response.headers.get('x-request-id') ?? undefined
  const { status } = response
  const outcomeUnknown = isWrite && (status >= 500 || (unsure && !DECIDING_STATUSES.has(status)))
  const details = { status, requestId, attempts, outcomeUnknown }
  // What is none of Sibyl's decides nothing.
  const unread = { ...details, outcomeUnknown: outcomeUnknown || unsure }
  let body: unknown
  try {
    body = parseExactJson(text)
  } catch (cause) {
    const message = `${what}: status ${status} without JSON`
    return new SibylError('UNEXPECTED_ANSWER', message, { ...unread, cause })
  }
  if (response.ok) return { answer: body }
  const { error, code, field } = (body ?? {}) as Partial<Record<string, unknown>>
  if (typeof error !== 'string' || typeof code !== 'string') {
    return new SibylError('UNEXPECTED_ANSWER', `${what}: status ${status}`, unread)
  }
  return new SibylError(code, error, {
    ...details,
    // With every other 503 the service says that it has done nothing.
    outcomeUnknown: status === 503 && code !== 'OUTCOME_UNKNOWN' ? unsure : outcomeUnknown,
    field: typeof field === 'string' ? field : undefined,
  })
}

const WORDS = {
  NETWORK: 'the service could not be reached, or the connection broke',
  TIMEOUT: 'no answer came in time',
  ABORTED: 'called off',
} as const

/**
 * How the server says that the same request can help later, and when: in milliseconds. A date is read
 * too, since a proxy may write one.
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

/** Ends early when the signal aborts; the next attempt then says so. */
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
