/**
 * Access to a chain: JSON-RPC over HTTP with a deadline. If a request fails at one address, the client tries the next
 * address. Every provider is sometimes overloaded. So if the request fails at all addresses, the client pauses and
 * tries them again, until the retry budget is used up. An address is used only after it has returned the chain id of
 * the settings. A request that still fails throws a `Fault`:
 * - `CHAIN_UNAVAILABLE`: no node gave a usable answer; a later retry may help;
 * - `CHAIN_MISMATCH`: every address serves another chain;
 * - `CHAIN_RANGE_TOO_LARGE`: the provider returns logs only for shorter ranges of blocks;
 * - `CHAIN_REFUSED`: the node understood the request and refused it.
 *
 * A call that reverts is an answer, not a fault: see `revert.ts`.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { isMainThread } from 'node:worker_threads'
import {
  BaseError,
  type Chain,
  createPublicClient,
  createTransport,
  defineChain,
  type EIP1193RequestFn,
  HttpRequestError,
  http,
  type PublicClient,
  RpcRequestError,
  TimeoutError,
  type Transport,
} from 'viem'
import { backoff } from '#domain/backoff.ts'
import { Fault } from '#domain/fault.ts'
import { NATIVE_CURRENCY } from '#domain/native-currency.ts'
import { rpcFetch } from './rpc-fetch.ts'

export type ChainClientOptions = {
  readonly chainId: number
  /**
   * RPC addresses. A request first tries the address that answered last, and then the addresses after it in this list.
   */
  readonly rpcUrls: readonly string[]
  /** Timeout of one request to one address. */
  readonly timeoutMs?: number
  /**
   * Retry budget in milliseconds, counted from the first attempt: no retry begins after this time. If an API request
   * waits for the result, the budget must be shorter than the deadline of that API request.
   */
  readonly budgetMs?: number
  /** Maximum number of rounds, even if part of the budget is left. In one round, every address is tried once. */
  readonly rounds?: number
  /** Maximum pause before the second round, in milliseconds; the pause doubles with each round. */
  readonly pauseMs?: number
  /** True if requests of one turn of the event loop are sent as one batch. */
  readonly together?: boolean
  /**
   * Called for every failed attempt, for metrics and logs. Only the host is passed, because the path may contain a key.
   */
  readonly onError?: (failure: { readonly host: string; readonly why: string }) => void
}

export type ChainClient = {
  readonly chainId: number
  readonly viem: PublicClient<Transport, Chain>
  /** Returns a client that uses only the preferred address, so that all reads come from one node. */
  pinned(): ChainClient
  /** Makes the next address the preferred one. Called if the answer of the preferred address was unusable. */
  leave(): void
}

const TIMEOUT_MS = 10_000
/**
 * Default retry budget of a request in milliseconds. It is less than half of the default `deadlineMs` of API requests.
 * So the exchange can still answer an API request that waits for the chain.
 */
const BUDGET_MS = 4_000
/**
 * Retry budget of a broadcast in milliseconds. The budget is small, because the next transaction of the key waits for
 * this broadcast. The transaction sender broadcasts again later.
 */
const SEND_BUDGET_MS = 1_000
const PAUSE_MS = 200
const PAUSE_MS_MAX = 2_000
/** Maximum calls in one batch; providers refuse large batches. */
const TOGETHER_MAX = 20

type Endpoint = {
  readonly host: string
  readonly request: EIP1193RequestFn
  /** True if the address has returned the right chain id since its last outage. */
  verified: boolean
  /** End of the pause that the node requested by `Retry-After`. */
  restUntilMs: number
}

/** State shared by all requests of a client. */
type Shared = {
  /** The address that answered last. */
  preferred: number
  /**
   * Random factor of every pause, drawn once per client. Each thread has its own client, so threads whose requests
   * failed together retry at different times. All requests of a batch use the same factor, so they are retried as one
   * batch.
   */
  readonly share: number
}

export function makeChainClient(options: ChainClientOptions): ChainClient {
  const { chainId, timeoutMs = TIMEOUT_MS } = options
  const definition = defineChain({
    id: chainId,
    name: `chain ${chainId}`,
    nativeCurrency: NATIVE_CURRENCY,
    rpcUrls: { default: { http: [...options.rpcUrls] } },
  })
  const batch = options.together === true ? { wait: 0, batchSize: TOGETHER_MAX } : false
  const endpoints = options.rpcUrls.map((url): Endpoint => {
    const onFetchResponse = (response: Response): void => {
      if (!response.ok) endpoint.restUntilMs = performance.now() + retryAfterMs(response)
    }
    const { request } = http(url, {
      retryCount: 0,
      timeout: timeoutMs,
      batch,
      onFetchResponse,
      fetchFn: rpcFetch,
      // Turn off viem's limit, because `rpcFetch` limits the length of answers. If an answer is too long, the error of
      // `rpcFetch` makes the caller request a shorter range.
      maxResponseBodySize: false,
    })({ chain: definition })
    const endpoint: Endpoint = {
      host: new URL(url).host,
      request: request as EIP1193RequestFn,
      verified: false,
      restUntilMs: 0,
    }
    return endpoint
  })
  return clientOver(endpoints, { preferred: 0, share: drawShare() }, definition, options)
}

function drawShare(): number {
  return 0.5 + Math.random() / 2
}

function clientOver(
  endpoints: readonly Endpoint[],
  shared: Shared,
  definition: Chain,
  options: ChainClientOptions,
): ChainClient {
  const request = (async (args: { method: string; params?: unknown }) =>
    requestOver(endpoints, shared, options, args)) as EIP1193RequestFn
  const transport = () =>
    createTransport({ key: 'sibyl', name: 'Sibyl', type: 'sibyl', request, retryCount: 0 })
  const viem = createPublicClient({ chain: definition, transport, cacheTime: 0 })
  return {
    chainId: options.chainId,
    viem,
    pinned() {
      const endpoint = endpoints[shared.preferred]
      if (endpoint === undefined || endpoints.length === 1) {
        return clientOver(endpoints, shared, definition, options)
      }
      return clientOver([endpoint], { ...shared, preferred: 0 }, definition, options)
    },
    leave() {
      if (endpoints.length > 1) shared.preferred = (shared.preferred + 1) % endpoints.length
    },
  }
}

async function requestOver(
  endpoints: readonly Endpoint[],
  shared: Shared,
  options: ChainClientOptions,
  args: { method: string; params?: unknown },
): Promise<unknown> {
  const { rounds = Number.POSITIVE_INFINITY } = options
  const untilMs = performance.now() + budgetOf(args.method, options)
  for (let round = 1; ; round++) {
    const { preferred } = shared
    let outage: unknown
    let mismatch: unknown
    for (let step = 0; step < endpoints.length; step++) {
      const index = (preferred + step) % endpoints.length
      const endpoint = endpoints[index]
      if (endpoint === undefined) continue
      try {
        await verify(endpoint, options.chainId)
        const answer = await endpoint.request(args as never)
        shared.preferred = index
        return answer
      } catch (error) {
        if (!isOutage(error)) throw error
        // After an outage, the address may serve another chain, so its chain id is checked again. A node that is only
        // overloaded needs no new check.
        if (!isBusy(error)) endpoint.verified = false
        if (error instanceof Fault) mismatch = error
        else outage = error
        options.onError?.({ host: endpoint.host, why: sentenceOf(error) })
      }
    }
    if (outage === undefined) throw mismatch ?? noAddress()
    const pauseMs = pauseAfter(round, endpoints, shared, options)
    if (round >= rounds || performance.now() + pauseMs > untilMs) throw outage
    // In the main thread, the timer of this pause keeps the process alive, because a command may have no other open
    // timer or connection. In a worker thread, the timer does not keep the thread alive.
    await pause(pauseMs, undefined, { ref: isMainThread })
  }
}

/** Returns the retry budget of a method in milliseconds. The budget of a broadcast is at most `SEND_BUDGET_MS`. */
function budgetOf(method: string, { budgetMs = BUDGET_MS }: ChainClientOptions): number {
  return method.startsWith('eth_send') ? Math.min(budgetMs, SEND_BUDGET_MS) : budgetMs
}

/**
 * Returns the pause before the next round, in milliseconds. The pause doubles with each round. If all nodes have
 * requested a pause by `Retry-After`, the pause lasts at least until the first of their pauses ends.
 */
function pauseAfter(
  round: number,
  endpoints: readonly Endpoint[],
  { share }: Shared,
  { pauseMs = PAUSE_MS }: ChainClientOptions,
): number {
  const restUntilMs = Math.min(...endpoints.map((endpoint) => endpoint.restUntilMs))
  const ownMs = backoff(pauseMs, PAUSE_MS_MAX, round - 1) * share
  return Math.max(ownMs, restUntilMs - performance.now())
}

function noAddress(): Fault {
  return new Fault('CHAIN_UNAVAILABLE', 'no RPC URL is configured for the chain', {
    retryable: true,
  })
}

/**
 * Returns the pause that the node requests by `Retry-After`, in milliseconds. Only a number of seconds is read; any
 * other value counts as 0.
 */
function retryAfterMs(response: Response): number {
  const text = response.headers.get('retry-after') ?? ''
  return /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : 0
}

async function verify(endpoint: Endpoint, chainId: number): Promise<void> {
  if (endpoint.verified) return
  const served = Number(await endpoint.request({ method: 'eth_chainId' } as never))
  if (served !== chainId) {
    throw new Fault(
      'CHAIN_MISMATCH',
      `${endpoint.host} serves chain ${served}, but the settings require chain ${chainId}`,
      { retryable: false },
    )
  }
  endpoint.verified = true
}

/** JSON-RPC codes for a node that is busy, as opposed to an invalid request. */
const BUSY_CODES = new Set([-32001, -32002, -32005, 429])

/** Returns whether the request may succeed at another address, or later at the same address. */
function isOutage(error: unknown): boolean {
  if (error instanceof Fault) return true
  if (!(error instanceof BaseError)) return true
  if (error.walk((inner) => inner instanceof TimeoutError) !== null) return true
  const failed = error.walk((inner) => inner instanceof HttpRequestError)
  if (failed !== null) return !RANGE.test(detailsOf(failed))
  const rpcError = error.walk((inner) => inner instanceof RpcRequestError)
  if (!(rpcError instanceof RpcRequestError)) return true
  if (RANGE.test(detailsOf(rpcError))) return false
  if (BUSY_CODES.has(rpcError.code)) return true
  // The code -32603 means an internal error of the node, which is an outage. Some nodes also report a revert by this
  // code: with data, or with the word `revert` in the message.
  return (
    rpcError.code === -32603 && rpcError.data === undefined && !/revert/i.test(detailsOf(rpcError))
  )
}

/** Returns whether the node is reachable but overloaded. */
function isBusy(error: unknown): boolean {
  if (!(error instanceof BaseError)) return false
  const failed = error.walk((inner) => inner instanceof HttpRequestError)
  if (failed instanceof HttpRequestError) return failed.status === 429
  const rpcError = error.walk((inner) => inner instanceof RpcRequestError)
  return rpcError instanceof RpcRequestError && BUSY_CODES.has(rpcError.code)
}

/** Phrases by which providers report that a range of logs is too long or has too many results. */
const RANGE =
  /block range|range (?:is )?too|too (?:large|wide|many) .*(?:block|log|result)|more than \d+ (?:results|logs)|limited to .*(?:block|range)|response size|exceed.*(?:range|blocks|limit.*logs)|query returned more/i

/** Converts any error of viem to a fault. */
export function chainFault(error: unknown): Fault {
  if (error instanceof Fault) return error
  if (!(error instanceof BaseError)) {
    return new Fault('CHAIN_UNAVAILABLE', sentenceOf(error), { retryable: true, cause: error })
  }
  const ours = error.walk((inner) => inner instanceof Fault)
  if (ours instanceof Fault) return ours
  const rpcError =
    error.walk((inner) => inner instanceof RpcRequestError) ??
    error.walk((inner) => inner instanceof HttpRequestError)
  const words = sentenceOf(error)
  if (rpcError !== null && RANGE.test(detailsOf(rpcError))) {
    return new Fault('CHAIN_RANGE_TOO_LARGE', words, { retryable: true, cause: error })
  }
  if (isOutage(error)) {
    return new Fault('CHAIN_UNAVAILABLE', words, { retryable: true, cause: error })
  }
  return new Fault('CHAIN_REFUSED', words, { retryable: false, cause: error })
}

/** Awaits a request of viem and converts its errors to faults. */
export async function asked<Answer>(request: Promise<Answer>): Promise<Answer> {
  try {
    return await request
  } catch (error) {
    throw chainFault(error)
  }
}

/**
 * Returns whether the answer was too long, or the node refused the request. A shorter range of blocks may then succeed.
 */
export function isTooMuch(error: unknown): boolean {
  if (!(error instanceof Fault)) return false
  return error.code === 'CHAIN_RANGE_TOO_LARGE' || error.code === 'CHAIN_REFUSED'
}

function detailsOf(error: unknown): string {
  const { details, message } = error as { details?: string; message?: string }
  return `${details ?? ''} ${message ?? ''}`
}

const SENTENCE_CHARS_MAX = 300

/** Returns the error as one line. The line omits the request, because its URL may contain a key. */
function sentenceOf(error: unknown): string {
  const { shortMessage, details, message } = error as {
    shortMessage?: string
    details?: string
    message?: string
  }
  const detail = details !== undefined && details !== shortMessage ? details : ''
  const text =
    shortMessage === undefined
      ? (message ?? String(error))
      : detail === ''
        ? shortMessage
        : `${shortMessage} (${detail})`
  return text
    .replaceAll(/https?:\/\/\S+/g, 'the node')
    .replaceAll(/\s+/g, ' ')
    .slice(0, SENTENCE_CHARS_MAX)
}
