/**
 * The way to a chain: JSON-RPC over HTTP with a deadline, tried again with a pause, over several
 * addresses in turn. An address is used only after it has shown that it serves the chain that the
 * settings name. Whatever goes wrong outside leaves as a `Fault`:
 *
 * - `CHAIN_UNAVAILABLE`: nobody answered, or not usably; trying again later may help;
 * - `CHAIN_MISMATCH`: every address that answers serves another chain;
 * - `CHAIN_RANGE_TOO_LARGE`: the provider gives logs only for shorter ranges;
 * - `CHAIN_REFUSED`: the node understood the request and refused it.
 *
 * A call that reverts is no fault but an answer: see `revert.ts`.
 */

import { setTimeout as pause } from 'node:timers/promises'
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
import { Fault } from '#domain/fault.ts'

export type ChainClientOptions = {
  readonly chainId: number
  /** Tried in this order, from the last one that answered. */
  readonly rpcUrls: readonly string[]
  /** How long one request to one address may take. */
  readonly timeoutMs?: number
  /** How often all addresses are tried before a request fails. */
  readonly rounds?: number
  /** The pause before the second round; it doubles with each. */
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
}

const TIMEOUT_MS = 10_000
const ROUNDS = 3
const PAUSE_MS = 200
/** Questions of one request; providers refuse very many. */
const TOGETHER_MAX = 20

type Endpoint = {
  readonly host: string
  readonly request: EIP1193RequestFn
  /** Whether it has shown the right chain id since its last failure. */
  verified: boolean
}

export function makeChainClient(options: ChainClientOptions): ChainClient {
  const { chainId, timeoutMs = TIMEOUT_MS } = options
  const definition = defineChain({
    id: chainId,
    name: `chain ${chainId}`,
    nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
    rpcUrls: { default: { http: [...options.rpcUrls] } },
  })
  const endpoints = options.rpcUrls.map((url): Endpoint => {
    const batch = options.together === true ? { wait: 0, batchSize: TOGETHER_MAX } : false
    const how = { retryCount: 0, timeout: timeoutMs, batch }
    const { request } = http(url, how)({ chain: definition })
    return { host: new URL(url).host, request: request as EIP1193RequestFn, verified: false }
  })
  const shared = { preferred: 0 }
  return clientOver(endpoints, shared, definition, options)
}

function clientOver(
  endpoints: readonly Endpoint[],
  shared: { preferred: number },
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
      return clientOver([endpoint], { preferred: 0 }, definition, options)
    },
  }
}

async function requestOver(
  endpoints: readonly Endpoint[],
  shared: { preferred: number },
  options: ChainClientOptions,
  args: { method: string; params?: unknown },
): Promise<unknown> {
  const { rounds = ROUNDS, pauseMs = PAUSE_MS } = options
  let last: unknown
  for (let round = 0; round < rounds; round++) {
    if (round > 0) await pause(pauseMs * 2 ** (round - 1))
    for (let step = 0; step < endpoints.length; step++) {
      const index = (shared.preferred + step) % endpoints.length
      const endpoint = endpoints[index]
      if (endpoint === undefined) continue
      try {
        await verify(endpoint, options.chainId)
        const answer = await endpoint.request(args as never)
        shared.preferred = index
        return answer
      } catch (error) {
        if (!isOutage(error)) throw error
        endpoint.verified = false
        last = error
        options.onError?.({ host: endpoint.host, why: sentenceOf(error) })
      }
    }
    if (last instanceof Fault && !last.retryable) break
  }
  throw last ?? new Fault('CHAIN_UNAVAILABLE', 'the chain has no address', { retryable: true })
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
