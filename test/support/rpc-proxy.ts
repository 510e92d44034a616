/**
 * A JSON-RPC proxy over HTTP in front of a real chain. The proxy behaves like a failing provider: it is unreachable,
 * slow, returns errors, lags, refuses long ranges, or loses transactions.
 */

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { makeRpcClient, type RpcClient } from './rpc-client.ts'

/** The chain behind the proxy: a client of a chain in this process, or the RPC address of a chain. */
export type Behind = string | RpcClient

export type RpcFaults = {
  /** Refuses connections by ending them without an answer. */
  down?: boolean
  /** Delay before each answer. */
  slowMs?: number
  /** Answers with this HTTP status. `statusTimes` limits the number of such answers. */
  status?: number
  statusTimes?: number
  /** Goes with `status`. */
  retryAfterSec?: number
  /** Answers `errorMethods`, or all methods by default, with this JSON-RPC error. */
  error?: { code: number; message: string; data?: unknown }
  errorMethods?: readonly string[]
  /**
   * Number of requests that fail, by method. They fail with `error`, or with an internal error by default. The number
   * counts down, so that a test can wait for 0.
   */
  errorTimes?: Record<string, number>
  /** Hides all blocks above this one: returns heads, blocks and logs as they were at that block. */
  staleHead?: number
  /** Refuses log queries for more blocks than this. */
  rangeMax?: number
  /** Refuses log queries with more results than this. */
  resultsMax?: number
  /**
   * Replaces the bloom filter of logs in block headers. The new filter matches nothing (`zero`) or everything (`full`).
   */
  blooms?: 'zero' | 'full'
  /** Answers with the hash of a transaction, but drops the transaction. */
  dropTransactions?: boolean
  /** Reports another chain id. */
  chainId?: number
}

export type RpcProxy = {
  readonly url: string
  /** Current faults; they may be changed at any time. */
  faults: RpcFaults
  /** Hides the logs of all blocks above this one. All other answers stay current. */
  logsUpTo?: number | undefined
  /** Requests so far, by method. */
  readonly requests: Map<string, number>
  /** Called before each request is carried out, and may wait. */
  before?: ((method: string, params: unknown[]) => Promise<void> | void) | undefined
  /** Returns the error that replaces the node's answer; undefined lets the request through. */
  refuse?: ((method: string, params: unknown[]) => RpcError | undefined) | undefined
  /** Replaces the node's answer. */
  twist?: ((method: string, params: unknown[], answer: unknown) => unknown) | undefined
  close(): Promise<void>
}

type RpcError = { code: number; message: string; data?: unknown }
type Rpc = { id?: unknown; method: string; params?: unknown[] }

export async function startRpcProxy(behind: Behind, port = 0): Promise<RpcProxy> {
  const proxy: { -readonly [K in keyof RpcProxy]: RpcProxy[K] } = {
    url: '',
    faults: {},
    requests: new Map(),
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }

  async function answer({ id, method, params = [] }: Rpc): Promise<object> {
    const { faults } = proxy
    const head = { jsonrpc: '2.0', id }
    proxy.requests.set(method, (proxy.requests.get(method) ?? 0) + 1)
    await proxy.before?.(method, params)
    const refusal = proxy.refuse?.(method, params)
    if (refusal !== undefined) return { ...head, error: refusal }
    if (faults.slowMs !== undefined) await pause(faults.slowMs)
    if (isHit(faults, method)) {
      return { ...head, error: faults.error ?? { code: -32603, message: 'Internal error' } }
    }
    try {
      const result = await faulty(faults, method, params)
      return { ...head, result: (await proxy.twist?.(method, params, result)) ?? result }
    } catch (error) {
      // viem wraps the node's error as `cause`.
      const { cause = error } = error as { cause?: unknown }
      const { code, message, data } = cause as { code?: number; message?: string; data?: unknown }
      return {
        ...head,
        error: {
          code: code ?? -32603,
          message: message ?? String(error),
          ...(data === undefined ? {} : { data }),
        },
      }
    }
  }

  async function faulty(faults: RpcFaults, method: string, params: unknown[]): Promise<unknown> {
    if (faults.chainId !== undefined && method === 'eth_chainId') return hex(faults.chainId)
    if (faults.dropTransactions === true && method === 'eth_sendRawTransaction') {
      const { keccak256 } = await import('viem')
      return keccak256(params[0] as `0x${string}`)
    }
    if (method === 'eth_getLogs') return logs(faults, params[0] as LogFilter)
    const stale = faults.staleHead
    if (stale !== undefined) {
      if (method === 'eth_blockNumber') return hex(stale)
      if (method === 'eth_getBlockByNumber') {
        const [block, full] = params
        if (block === 'latest') return forward(method, [hex(stale), full])
        if (typeof block === 'string' && Number(block) > stale) return null
      }
    }
    if (method === 'eth_getBlockByNumber' && faults.blooms !== undefined) {
      const block = (await forward(method, params)) as object | null
      const digit = faults.blooms === 'zero' ? '0' : 'f'
      return block === null ? null : { ...block, logsBloom: `0x${digit.repeat(512)}` }
    }
    return forward(method, params)
  }

  async function logs(faults: RpcFaults, filter: LogFilter): Promise<unknown> {
    const { fromBlock, toBlock } = filter
    const { rangeMax } = faults
    const ranged = fromBlock === undefined ? undefined : proxy.logsUpTo
    const staleHead = faults.staleHead ?? ranged
    if (fromBlock !== undefined && toBlock !== undefined) {
      const blocks = Number(toBlock) - Number(fromBlock) + 1
      if (rangeMax !== undefined && blocks > rangeMax) {
        throw Object.assign(new Error(`eth_getLogs is limited to a ${rangeMax} block range`), {
          code: -32600,
        })
      }
    }
    const found = (await forward('eth_getLogs', [filter])) as { blockNumber: string }[]
    const { resultsMax } = faults
    if (resultsMax !== undefined && found.length > resultsMax) {
      throw Object.assign(new Error(`query returned more than ${resultsMax} results`), {
        code: -32005,
      })
    }
    // A node that is behind returns the logs that it has, without reporting that some are missing.
    return staleHead === undefined
      ? found
      : found.filter(({ blockNumber }) => Number(blockNumber) <= staleHead)
  }

  const node = typeof behind === 'string' ? makeRpcClient(behind) : behind
  const forward = (method: string, params: unknown[]) => node.request(method, params)

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    if (proxy.faults.down === true) {
      request.socket.destroy()
      return
    }
    const { status, statusTimes, retryAfterSec } = proxy.faults
    if (status !== undefined && statusTimes !== 0) {
      if (statusTimes !== undefined) proxy.faults.statusTimes = statusTimes - 1
      const headers = retryAfterSec === undefined ? {} : { 'retry-after': String(retryAfterSec) }
      response.writeHead(status, headers).end('{"error":"the provider is unwell"}')
      return
    }
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Rpc | Rpc[]
    const reply = Array.isArray(body) ? await Promise.all(body.map(answer)) : await answer(body)
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(reply))
  }

  const server = createServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy())
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  proxy.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return proxy
}

function isHit({ error, errorMethods, errorTimes }: RpcFaults, method: string): boolean {
  if (errorTimes === undefined) {
    return error !== undefined && (errorMethods === undefined || errorMethods.includes(method))
  }
  const left = errorTimes[method] ?? 0
  if (left > 0) errorTimes[method] = left - 1
  return left > 0
}

type LogFilter = { fromBlock?: string; toBlock?: string }

function hex(value: number): string {
  return `0x${value.toString(16)}`
}
