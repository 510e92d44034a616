/**
 * The way to a chain: JSON-RPC over HTTP with a deadline, over several addresses in turn, and again
 * after a pause for as long as the request's budget lasts: a provider that is busy now and then is
 * every provider. An address is used only after it has shown that it serves the chain that the
 * settings name. Whatever goes wrong outside leaves as a `Fault`:
 *
 * - `CHAIN_UNAVAILABLE`: no node answered, or not usably; trying again later may help;
 * - `CHAIN_MISMATCH`: every address serves another chain;
 * - `CHAIN_RANGE_TOO_LARGE`: the provider gives logs only for shorter ranges;
 * - `CHAIN_REFUSED`: the node understood the request and refused it.
 *
 * A call that reverts is no fault but an answer: see `revert.ts`.
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
  /** Tried in this order, from the last one that answered. */
  readonly rpcUrls: readonly string[]
  /** How long one request to one address may take. */
  readonly timeoutMs?: number
  /**
   * For how long a request that failed is tried again: no attempt begins later than this after the
   * first. A caller that serves a client with a deadline needs it to be shorter than that.
   */
  readonly budgetMs?: number
  /** How often all addresses are tried at most, however much of the budget is left. */
  readonly rounds?: number
  /** The pause before the second round, at most; it doubles with each. */
  readonly pauseMs?: number
  /** Whether what is asked in one turn of the loop goes out as one request, where much is asked at once. */
  readonly together?: boolean
  /** Hears of every failed attempt, for metrics and logs. The address comes without its path, which may hold a key. */
  readonly onError?: (failure: { readonly host: string; readonly why: string }) => void
}

export type ChainClient = {
  readonly chainId: number
  readonly viem: PublicClient<Transport, Chain>
  /** The same client on one address only: what is read through it comes from one node. */
  pinned(): ChainClient
  /** What the preferred address answered is of no use: from now on the next one is asked first. */
  leave(): void
}

const TIMEOUT_MS = 10_000
/** Less than half of the time that a request to the exchange has. */
const BUDGET_MS = 4_000
/** A sender broadcasts again by itself, and its lane stands still until it has heard of this one. */
const SEND_BUDGET_MS = 1_000
const PAUSE_MS = 200
const PAUSE_MS_MAX = 2_000
/** Questions of one request; providers refuse very many. */
const TOGETHER_MAX = 20

type Endpoint = {
  readonly host: string
  readonly request: EIP1193RequestFn
  /** Whether it has shown the right chain id since it was last away. */
  verified: boolean
  /** Until when it asked to be left alone. */
  restUntilMs: number
}

/** What all requests of a client share. */
type Shared = {
  /** The address that answered last. */
  preferred: number
  /**
   * The part of each pause that is waited. One draw for the whole client: threads that failed
   * together do not come back together, but what was asked in one request is asked in one again.
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
      // It has a limit of its own, and says what is too long so that a shorter range is asked for.
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
        // Who is away may come back as another; who is busy has been there all the time.
        if (!isBusy(error)) endpoint.verified = false
        if (error instanceof Fault) mismatch = error
        else outage = error
        options.onError?.({ host: endpoint.host, why: sentenceOf(error) })
      }
    }
    if (outage === undefined) throw mismatch ?? noAddress()
    const pauseMs = pauseAfter(round, endpoints, shared, options)
    if (round >= rounds || performance.now() + pauseMs > untilMs) throw outage
    // A thread that stops does not wait for it; a command, which has nothing else to wait for, does.
    await pause(pauseMs, undefined, { ref: isMainThread })
  }
}

/** Everything but sending is a question, which may be asked as often as one likes. */
function budgetOf(method: string, { budgetMs = BUDGET_MS }: ChainClientOptions): number {
  return method.startsWith('eth_send') ? Math.min(budgetMs, SEND_BUDGET_MS) : budgetMs
}

/** It doubles, and is at least as long as the address wants that is the first to be back. */
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
  return new Fault('CHAIN_UNAVAILABLE', 'the chain has no address', { retryable: true })
}

/** Providers count seconds; anything else they may say is as good as nothing. */
function retryAfterMs(response: Response): number {
  const text = response.headers.get('retry-after') ?? ''
  return /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : 0
}

async function verify(endpoint: Endpoint, chainId: number): Promise<void> {
  if (endpoint.verified) return
  const told = Number(await endpoint.request({ method: 'eth_chainId' } as never))
  if (told !== chainId) {
    throw new Fault(
      'CHAIN_MISMATCH',
      `${endpoint.host} serves chain ${told}, the settings say ${chainId}`,
      { retryable: false },
    )
  }
  endpoint.verified = true
}

/** Codes of JSON-RPC by which a node says that it cannot now, not that the request is wrong. */
const BUSY_CODES = new Set([-32001, -32002, -32005, 429])

/** Whether another address, or the same one later, may answer. */
function isOutage(error: unknown): boolean {
  if (error instanceof Fault) return true
  if (!(error instanceof BaseError)) return true
  if (error.walk((inner) => inner instanceof TimeoutError) !== null) return true
  const failed = error.walk((inner) => inner instanceof HttpRequestError)
  if (failed !== null) return !RANGE.test(detailsOf(failed))
  const told = error.walk((inner) => inner instanceof RpcRequestError)
  if (!(told instanceof RpcRequestError)) return true
  if (RANGE.test(detailsOf(told))) return false
  if (BUSY_CODES.has(told.code)) return true
  // Some nodes report a revert by this code, with data; without any it is their own trouble.
  return told.code === -32603 && told.data === undefined && !/revert/i.test(detailsOf(told))
}

/** Whether a node is there that only has too much to do. */
function isBusy(error: unknown): boolean {
  if (!(error instanceof BaseError)) return false
  const failed = error.walk((inner) => inner instanceof HttpRequestError)
  if (failed instanceof HttpRequestError) return failed.status === 429
  const told = error.walk((inner) => inner instanceof RpcRequestError)
  return told instanceof RpcRequestError && BUSY_CODES.has(told.code)
}

/** How providers word it that a range of logs is too long or has too many results. */
const RANGE =
  /block range|range (?:is )?too|too (?:large|wide|many) .*(?:block|log|result)|more than \d+ (?:results|logs)|limited to .*(?:block|range)|response size|exceed.*(?:range|blocks|limit.*logs)|query returned more/i

/** What an adapter throws for anything that viem threw. */
export function chainFault(error: unknown): Fault {
  if (error instanceof Fault) return error
  if (!(error instanceof BaseError)) {
    return new Fault('CHAIN_UNAVAILABLE', sentenceOf(error), { retryable: true, cause: error })
  }
  const ours = error.walk((inner) => inner instanceof Fault)
  if (ours instanceof Fault) return ours
  const told =
    error.walk((inner) => inner instanceof RpcRequestError) ??
    error.walk((inner) => inner instanceof HttpRequestError)
  const words = sentenceOf(error)
  if (told !== null && RANGE.test(detailsOf(told))) {
    return new Fault('CHAIN_RANGE_TOO_LARGE', words, { retryable: true, cause: error })
  }
  if (isOutage(error)) {
    return new Fault('CHAIN_UNAVAILABLE', words, { retryable: true, cause: error })
  }
  return new Fault('CHAIN_REFUSED', words, { retryable: false, cause: error })
}

/** Runs a request of viem's; what it throws becomes a fault. */
export async function asked<Answer>(request: Promise<Answer>): Promise<Answer> {
  try {
    return await request
  } catch (error) {
    throw chainFault(error)
  }
}

/** Too long an answer, or a question that the node does not take. */
export function isTooMuch(error: unknown): boolean {
  if (!(error instanceof Fault)) return false
  return error.code === 'CHAIN_RANGE_TOO_LARGE' || error.code === 'CHAIN_REFUSED'
}

function detailsOf(error: unknown): string {
  const { details, message } = error as { details?: string; message?: string }
  return `${details ?? ''} ${message ?? ''}`
}

const SENTENCE_CHARS_MAX = 300

/** One line without the request, whose address may hold a key. */
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
