/**
 * Keeps one WebSocket open: reconnects, restores the connection's state, sends requests, and passes messages to the
 * subscriptions. The file is one state machine: every function changes the same few variables.
 */

import { backoff } from '#domain/backoff.ts'
import { trimEnd } from '#domain/trim-end.ts'
import { makeDeferred } from './deferred.ts'
import { parseExactJson } from './exact-json.ts'
import { isPassing, SibylError } from './sibyl-error.ts'
import type { ChannelMessage, Position } from './stream-messages.ts'
import type { StreamEvents, StreamOptions, StreamSocket, WebSocketClass } from './stream-types.ts'
import { makeSubscriptions } from './subscriptions.ts'

type Reply = {
  readonly resolve: (message: Record<string, unknown>) => void
  readonly reject: (error: SibylError) => void
  readonly timer: ReturnType<typeof setTimeout>
}

/** The ready state of a socket that can send. */
const OPEN = 1
const BACKOFF_MS = 250
const BACKOFF_MS_MAX = 10_000
/** Pause before a temporarily refused request is repeated. */
const AGAIN_MS = 1_000
const TIMEOUT_MS = 15_000
const CONNECT_TIMEOUT_MS = 5_000
/** Code with which a stopping exchange closes connections. */
const CLOSE_RESTART = 1012
/** Number of heartbeat intervals without any message after which the client closes the connection. */
const SILENT_HEARTBEATS = 2.5

/** Returns the WebSocket class to connect with; Node before 22 has no built-in class. */
function socketClass(given: WebSocketClass | undefined): WebSocketClass {
  const found = given ?? (globalThis.WebSocket as WebSocketClass | undefined)
  if (found !== undefined) return found
  const message =
    'this runtime has no WebSocket: pass a WebSocket class, such as that of ws, as stream({ WebSocket })'
  throw new SibylError('MISSING_FIELD', message, { field: 'WebSocket' })
}

export function openConnection(options: StreamOptions) {
  const { backoffMs = BACKOFF_MS, backoffMsMax = BACKOFF_MS_MAX } = options
  const againMs = Math.min(backoffMsMax, AGAIN_MS)
  const Socket = socketClass(options.WebSocket)
  const url = `${trimEnd(options.url.replace(/^http/, 'ws'), '/')}/api/v1/stream`
  const listeners = new Map<string, Set<(event: never) => void>>()
  const replies = new Map<number, Reply>()
  let socket: StreamSocket | undefined
  let isOpen = false
  /** True when this connection is authenticated and set up, so that subscriptions may be requested. */
  let isReady = false
  /** True after the exchange has announced a shutdown: no new request is sent on this connection. */
  let isLeaving = false
  let isOver = false
  let ids = 0
  let attempts = 0
  let heartbeatMs = 0
  /** True if cancel on disconnect is on: the client requests it on each new connection. */
  let cancelling = false
  let reconnectInMs: number | undefined
  let watchdog: ReturnType<typeof setTimeout> | undefined
  let repeating: ReturnType<typeof setTimeout> | undefined
  let opening = makeDeferred<void>()
  // The promise may reject before a caller awaits it; without this handler, that would be an unhandled rejection.
  opening.promise.catch(() => undefined)
  const subscriptions = makeSubscriptions({
    ...{ say, emit },
    nextId: () => ++ids,
    mayAsk: () => isReady && socket?.readyState === OPEN,
    pauseMs: againMs,
  })

  function emit<K extends keyof StreamEvents>(name: K, event: StreamEvents[K]): void {
    for (const listener of listeners.get(name) ?? []) listener(event as never)
  }

  function connect(): void {
    const ws = new Socket(url)
    socket = ws
    ws.addEventListener('message', ({ data }) => {
      if (socket === ws && typeof data === 'string') received(data)
    })
    ws.addEventListener('close', ({ code, reason }) => {
      if (socket === ws) gone(code, reason)
    })
    // An error needs no handling, because a close event with the reason follows.
    ws.addEventListener('error', () => undefined)
    watch(options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS)
  }

  function watch(ms: number): void {
    clearTimeout(watchdog)
    watchdog = setTimeout(() => {
      emit('silent', { forMs: ms })
      const ws = socket
      gone(1006, 'silent')
      ws?.close()
    }, ms)
  }

  function gone(code: number, reason: string): void {
    clearTimeout(watchdog)
    clearTimeout(repeating)
    socket = undefined
    isReady = false
    isLeaving = false
    for (const [id, { reject, timer }] of replies) {
      clearTimeout(timer)
      replies.delete(id)
      const details = { attempts: 1, outcomeUnknown: true }
      reject(
        new SibylError('NETWORK', 'the connection was closed before the answer arrived', details),
      )
    }
    subscriptions.lost()
    awaitOpening()
    if (isOver) {
      emit('closed', { code, reason, reconnectInMs: undefined })
      return
    }
    const most = backoff(backoffMs, backoffMsMax, attempts++)
    // The pause is random, so that clients that lost their connection together do not reconnect together.
    const pauseMs = reconnectInMs ?? most * (0.5 + Math.random() / 2)
    reconnectInMs = undefined
    emit('closed', { code, reason, reconnectInMs: pauseMs })
    watchdog = setTimeout(connect, pauseMs)
  }

  /** Makes new requests wait for the next connection. */
  function awaitOpening(): void {
    if (isOpen) opening = makeDeferred<void>()
    opening.promise.catch(() => undefined)
    isOpen = false
  }

  /** After the exchange has announced a shutdown, closes the connection as soon as all requests on it are answered. */
  function leaveWhenQuiet(): void {
    if (!isLeaving || replies.size > 0) return
    const ws = socket
    gone(CLOSE_RESTART, 'the exchange is restarting: connect again')
    ws?.close()
  }

  function say(frame: object): void {
    socket?.send(JSON.stringify(frame))
  }

  function received(text: string): void {
    if (heartbeatMs > 0) watch(SILENT_HEARTBEATS * heartbeatMs)
    const frame = parseExactJson(text) as Record<string, unknown>
    switch (frame.type) {
      case 'hello':
        heartbeatMs = frame.heartbeatMs as number
        watch(SILENT_HEARTBEATS * heartbeatMs)
        attempts = 0
        void welcome(frame.session as string)
        break
      case 'subscribed':
        subscriptions.subscribed(frame as { id?: number; sub: string; seq: Position })
        break
      case 'heartbeat':
        subscriptions.compare(frame.subs as Record<string, Position>)
        emit('heartbeat', { ts: frame.ts as number })
        break
      case 'lag':
        subscriptions.lagged(frame.sub as string)
        emit('lag', { sub: frame.sub as string, dropped: frame.dropped as number })
        break
      case 'shutdown':
        reconnectInMs = frame.reconnectInMs as number
        emit('shutdown', { reconnectInMs })
        isLeaving = true
        awaitOpening()
        leaveWhenQuiet()
        break
      case 'error':
        refused(frame as { id?: number; code: string; error: string; field?: string })
        break
      default:
        if (typeof frame.sub === 'string') {
          subscriptions.follow(frame as unknown as ChannelMessage)
        } else if (typeof frame.id === 'number') {
          answered(frame.id)?.resolve(frame)
          leaveWhenQuiet()
        }
    }
  }

  /**
   * Prepares a new connection: authenticates, requests cancel on disconnect if it is on, and then resumes the
   * subscriptions. Subscriptions come last, so that they cannot use up the rate limit. While the exchange is overloaded
   * or limits the client's rate, no subscription resumes. If cancel on disconnect is on, the stream opens only after
   * the exchange has accepted the request or the caller has turned cancel on disconnect off.
   */
  async function welcome(session: string): Promise<void> {
    const ws = socket
    const isHere = (): boolean => socket === ws && !isLeaving && !isOver
    let isKnown = false
    const prepare = async (): Promise<void> => {
      if (!isKnown) await authenticate(isHere)
      isKnown = true
      if (cancelling && isHere()) await request('cancelOnDisconnect', { enabled: true })
    }
    for (let failures = 0; isHere(); failures++) {
      const failure = await prepare().then(() => undefined, asFailure)
      if (!isHere()) return
      if (failure !== undefined) emit('error', { code: failure.code, error: failure.message })
      const isBusy = failure !== undefined && isPassing(failure)
      if (!isBusy) {
        isReady = true
        subscriptions.resume()
      }
      if (failure === undefined || !(isBusy || cancelling)) {
        isOpen = true
        opening.resolve()
        emit('open', { session })
        return
      }
      isKnown &&= isBusy
      const ms = isBusy ? againMs : backoff(backoffMs, backoffMsMax, failures)
      await new Promise<void>((resolve) => {
        repeating = setTimeout(resolve, ms)
      })
    }
  }

  async function authenticate(isHere: () => boolean): Promise<void> {
    const headers = await options.headers?.()
    const bearer = Object.entries(headers ?? {}).find(
      ([name]) => name.toLowerCase() === 'authorization',
    )?.[1]
    if (bearer === undefined || !isHere()) return
    await request('auth', { token: bearer.replace(/^Bearer /, '') })
  }

  function refused(error: { id?: number; code: string; error: string; field?: string }): void {
    const { id, code, error: sentence, field } = error
    const details = { field, attempts: 1, outcomeUnknown: code === 'OUTCOME_UNKNOWN' }
    const failure = new SibylError(code, sentence, details)
    if (id !== undefined && subscriptions.refused(id, failure)) return
    const reply = id === undefined ? undefined : answered(id)
    if (reply !== undefined) {
      reply.reject(failure)
      leaveWhenQuiet()
    } else emit('error', { code, error: sentence })
  }

  function answered(id: number): Reply | undefined {
    const reply = replies.get(id)
    replies.delete(id)
    clearTimeout(reply?.timer)
    return reply
  }

  function request(
    op: string,
    fields: object,
    ms = options.timeoutMs ?? TIMEOUT_MS,
  ): Promise<Record<string, unknown>> {
    const id = ++ids
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        replies.delete(id)
        leaveWhenQuiet()
        const details = { attempts: 1, outcomeUnknown: true }
        reject(new SibylError('TIMEOUT', `${op}: no answer arrived in time`, details))
      }, ms)
      replies.set(id, { resolve, reject, timer })
      say({ op, ...fields, id })
    })
  }

  async function ask(op: string, fields: object): Promise<Record<string, unknown>> {
    if (isOver) throw new SibylError('ABORTED', `${op}: the stream is closed`)
    const dueMs = performance.now() + (options.timeoutMs ?? TIMEOUT_MS)
    while (!isOpen) await openedBy(dueMs, op)
    return request(op, fields, dueMs - performance.now())
  }

  /**
   * Waits for a connection. If there is no connection by the deadline, throws `NETWORK`, and the request is not sent.
   */
  async function openedBy(dueMs: number, op: string): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_, reject) => {
      const details = { attempts: 0, outcomeUnknown: false }
      const error = new SibylError('NETWORK', `${op}: no connection was made in time`, details)
      timer = setTimeout(() => reject(error), dueMs - performance.now())
    })
    try {
      await Promise.race([opening.promise, late])
    } finally {
      clearTimeout(timer)
    }
  }

  connect()

  return {
    on<K extends keyof StreamEvents>(
      event: K,
      listener: (event: StreamEvents[K]) => void,
    ): () => void {
      const known = listeners.get(event) ?? new Set()
      listeners.set(event, known)
      known.add(listener as (event: never) => void)
      return () => void known.delete(listener as (event: never) => void)
    },
    emit,
    start: subscriptions.start,
    ask,
    isOpen: () => isOpen,
    /** Sets whether the client requests cancel on disconnect on each new connection. */
    setCancelling(enabled: boolean): void {
      cancelling = enabled
    },
    close(): void {
      isOver = true
      clearTimeout(watchdog)
      clearTimeout(repeating)
      opening.reject(new SibylError('ABORTED', 'the stream is closed'))
      if (socket === undefined) emit('closed', { code: 1000, reason: '', reconnectInMs: undefined })
      else socket.close()
      subscriptions.close()
    },
  }
}

/**
 * Converts the error of a failed connection setup to a `SibylError`. The error may come from the caller's own
 * functions, such as `headers`.
 */
function asFailure(error: unknown): SibylError {
  if (error instanceof SibylError) return error
  return new SibylError('UNAUTHORIZED_INVALID_TOKEN', String(error), { cause: error })
}
