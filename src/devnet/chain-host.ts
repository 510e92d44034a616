/**
 * The devnet's chain as a separate process: Hardhat's EVM behind a JSON-RPC port on this machine. `chain-process.ts`
 * starts it.
 *
 * The process runs while any other process holds a lease on it, and for a limited time after the last lease has ended.
 * If a killed exchange starts again within that time, it finds the chain unchanged. A lease is an open `GET /lease`
 * request, so it also ends if its holder is killed. The response to this request sends the chain's clock as lines of
 * JSON. `GET /` returns the identity of the chain, `DELETE /` ends the process, and every POST is JSON-RPC.
 */

import { randomInt } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createHardhatRuntimeEnvironment } from 'hardhat/hre'
import { ACCOUNTS, DEVNET_CHAIN_ID, devnetKey } from './accounts.ts'
import type { ChainIdentity, LeaseLine } from './chain-process.ts'

const PROJECT = fileURLToPath(new URL('../../', import.meta.url))
const HOST = '127.0.0.1'
const BLOCK_GAS = 60_000_000n
const BALANCE_WEI = 10_000n * 10n ** 18n
const BODY_BYTES_MAX = 64 * 1_048_576
/** Minimum time, in milliseconds, for which a new chain waits for its first lease before it ends. */
const FIRST_LEASE_MS = 60_000
/** Methods that can move the chain's clock. */
const CLOCK_METHODS = new Set([
  'evm_increaseTime',
  'evm_setNextBlockTimestamp',
  'evm_mine',
  'evm_revert',
  'hardhat_mine',
])

type Call = { readonly id?: unknown; readonly method?: unknown; readonly params?: unknown }

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    'chain-id': { type: 'string', default: String(DEVNET_CHAIN_ID) },
    'linger-ms': { type: 'string', default: '60000' },
    owner: { type: 'string', default: '' },
  },
})
const chainId = Number(values['chain-id'])
const lingerMs = Number(values['linger-ms'])

// A random balance of the last account makes the first block of every chain unique, even if two chains start within the
// same second. So the data of different chains can be distinguished.
const accounts = Array.from({ length: ACCOUNTS }, (_, index) => ({
  privateKey: devnetKey(index),
  balance: BALANCE_WEI + (index === ACCOUNTS - 1 ? BigInt(randomInt(2 ** 47)) : 0n),
}))
const environment = await createHardhatRuntimeEnvironment(
  {
    networks: {
      default: {
        type: 'edr-simulated',
        chainType: 'l1',
        chainId,
        hardfork: 'osaka',
        blockGasLimit: BLOCK_GAS,
        accounts,
        // Blocks of the same second share a timestamp. Otherwise each block would add a second, and the chain's time
        // would run ahead of the clock.
        allowBlocksWithSameTimestamp: true,
        mining: { auto: true, mempool: { order: 'fifo' } },
      },
    },
  },
  {},
  PROJECT,
)
const { provider } = await environment.network.create()
const request = (method: string, params: unknown[]) => provider.request({ method, params })
const { hash: genesis } = (await request('eth_getBlockByNumber', ['0x0', false])) as {
  hash: string
}

const leases = new Set<ServerResponse>()
let offsetSeconds = 0
let ending: NodeJS.Timeout | undefined
let endsAtMs: number | undefined

function endAfter(delayMs: number): void {
  endsAtMs = Date.now() + delayMs
  ending = setTimeout(() => process.exit(0), delayMs)
}

/**
 * Computes from the next block's time how many seconds the chain's clock is ahead of the machine's clock.
 * Reports a change to all holders of a lease.
 */
async function readClock(): Promise<void> {
  let second: number
  let chainSecond: number
  do {
    second = machineSecond()
    const params = ['pending', false]
    const next = (await request('eth_getBlockByNumber', params)) as { timestamp: string }
    chainSecond = Number(next.timestamp)
    // Read again if the machine's clock reached the next second during the read.
  } while (second !== machineSecond())
  const ahead = chainSecond - second
  // Both times are whole seconds, which begin at different moments on the chain and on the machine. So the difference
  // can change by one although nobody moved the chain's clock.
  if (Math.abs(ahead - offsetSeconds) <= 1) return
  offsetSeconds = ahead
  for (const lease of leases) tellClock(lease)
}

function machineSecond(): number {
  return Math.floor(Date.now() / 1_000)
}

function tellClock(lease: ServerResponse): void {
  lease.write(`${JSON.stringify({ genesis, offsetSeconds } satisfies LeaseLine)}\n`)
}

async function answerCall(call: Call): Promise<object> {
  const id = call?.id ?? null
  const { method, params = [] } = call ?? {}
  if (typeof method !== 'string' || !Array.isArray(params)) {
    return { jsonrpc: '2.0', id, error: { code: -32_600, message: 'invalid request' } }
  }
  try {
    const result = await request(method, params)
    if (CLOCK_METHODS.has(method)) await readClock()
    return { jsonrpc: '2.0', id, result: result ?? null }
  } catch (error) {
    return { jsonrpc: '2.0', id, error: rpcError(error) }
  }
}

/** Converts an error to a JSON-RPC error. Revert data is plain hex, as in the errors of other Ethereum nodes. */
function rpcError(error: unknown): object {
  const { code, message, data } = error as { code?: unknown; message?: string; data?: unknown }
  const inner = typeof data === 'object' && data !== null && 'data' in data ? data.data : data
  return {
    code: typeof code === 'number' ? code : -32_603,
    message: message ?? String(error),
    ...(inner === undefined ? {} : { data: inner }),
  }
}

async function readBody(incoming: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

async function answerPost(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
  const text = await readBody(incoming)
  let calls: unknown
  try {
    calls = JSON.parse(text ?? '')
  } catch {
    const error = { code: -32_700, message: 'the body is not valid JSON' }
    sendJson(response, { jsonrpc: '2.0', id: null, error })
    return
  }
  if (!Array.isArray(calls)) {
    sendJson(response, await answerCall(calls as Call))
    return
  }
  // The calls run one after the other, because the order of transactions in a batch matters.
  const answers: object[] = []
  for (const call of calls as Call[]) answers.push(await answerCall(call))
  sendJson(response, answers)
}

function sendJson(response: ServerResponse, body: unknown): void {
  response.setHeader('Content-Type', 'application/json')
  response.end(JSON.stringify(body))
}

function identity(): ChainIdentity {
  return {
    sibyl: 'devnet',
    pid: process.pid,
    chainId,
    genesis,
    owner: values.owner,
    leases: leases.size,
    endsInMs: endsAtMs === undefined ? null : Math.max(0, endsAtMs - Date.now()),
  }
}

function takeLease(response: ServerResponse): void {
  clearTimeout(ending)
  endsAtMs = undefined
  leases.add(response)
  response.socket?.setNoDelay(true)
  response.writeHead(200, { 'Content-Type': 'application/x-ndjson' })
  tellClock(response)
  response.once('close', () => {
    leases.delete(response)
    if (leases.size === 0) endAfter(lingerMs)
  })
}

const server = createServer((incoming, response) => {
  // Wallets in a browser may call this chain like any other chain, but must not end it with DELETE.
  response.setHeader('Access-Control-Allow-Origin', '*')
  response.setHeader('Access-Control-Allow-Methods', 'GET, POST')
  response.setHeader('Access-Control-Allow-Headers', '*')
  if (incoming.method === 'POST') {
    answerPost(incoming, response).catch(() => response.destroy())
  } else if (incoming.method === 'DELETE') {
    response.writeHead(204).end(() => process.exit(0))
  } else if (incoming.method === 'OPTIONS') {
    response.end()
  } else if (incoming.url === '/lease') {
    takeLease(response)
  } else {
    sendJson(response, identity())
  }
})
// A lease is a request that stays open without sending data, so requests must have no timeout.
server.requestTimeout = 0
server.keepAliveTimeout = 60_000
server.once('error', (error) => {
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
})
server.listen(Number(values.port), HOST, () => {
  endAfter(Math.max(lingerMs, FIRST_LEASE_MS))
  const { port } = server.address() as AddressInfo
  process.stdout.write(`${JSON.stringify({ port, genesis })}\n`)
})
