/** Tests answers of nodes: compressed, too long, endless, truncated and redirected answers. */

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { asked, makeChainClient } from '#chain/clients.ts'
import { ANSWER_BYTES_MAX } from '#chain/rpc-fetch.ts'
import type { Fault } from '#domain/fault.ts'

const CHAIN_ID = 31_337
const BLOCK = '0x2a'

type Call = { readonly id: number; readonly method: string }

/** Starts a node that answers requests for the chain id. The test answers all other requests. */
async function startNode(t: TestContext, answer: (call: Call, response: ServerResponse) => void) {
  const sockets: Socket[] = []
  const received: string[] = []
  const listener: RequestListener = async (incoming, response) => {
    const parts: Buffer[] = []
    for await (const part of incoming) parts.push(part as Buffer)
    const call = JSON.parse(Buffer.concat(parts).toString()) as Call
    received.push(call.method)
    if (call.method === 'eth_chainId') response.end(told(call, `0x${CHAIN_ID.toString(16)}`))
    else answer(call, response)
  }
  const server = createServer(listener)
  server.on('connection', (socket) => sockets.push(socket))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, received, sockets }
}

const told = ({ id }: Call, result: unknown): string =>
  JSON.stringify({ jsonrpc: '2.0', id, result })

const clientOf = (rpcUrls: readonly string[], more = {}) =>
  makeChainClient({ chainId: CHAIN_ID, rpcUrls, rounds: 1, ...more }).viem

const faultOf = (call: Promise<unknown>): Promise<Fault> =>
  asked(call).then(
    () => assert.fail('expected a fault'),
    (fault: Fault) => fault,
  )

test('a compressed answer of an RPC address is decompressed', async (t) => {
  const { url } = await startNode(t, (call, response) => {
    response.setHeader('content-encoding', 'gzip')
    response.end(gzipSync(told(call, BLOCK)))
  })
  assert.equal(await clientOf([url]).getBlockNumber(), 42n)
})

test('if an RPC answer stalls, the next RPC address is tried', async (t) => {
  for (const packed of [false, true]) {
    const stalled = await startNode(t, (call, response) => {
      if (packed) response.setHeader('content-encoding', 'gzip')
      const bytes = packed ? gzipSync(told(call, BLOCK)) : Buffer.from(told(call, BLOCK))
      response.write(bytes.subarray(0, 12))
    })
    const other = await startNode(t, (call, response) => response.end(told(call, '0x7')))
    const viem = clientOf([stalled.url, other.url], { timeoutMs: 200 })
    assert.equal(await viem.getBlockNumber(), 7n)
    const fault = await faultOf(clientOf([stalled.url], { timeoutMs: 200 }).getBlockNumber())
    assert.deepEqual([fault.code, fault.retryable], ['CHAIN_UNAVAILABLE', true])
    assert.match(fault.message, /took too long/)
  }
})

test('a truncated answer of an RPC address fails with CHAIN_UNAVAILABLE, compressed or not', async (t) => {
  for (const packed of [false, true]) {
    const { url } = await startNode(t, (call, response) => {
      if (packed) response.setHeader('content-encoding', 'gzip')
      const bytes = packed ? gzipSync(told(call, BLOCK)) : Buffer.from(told(call, BLOCK))
      response.setHeader('content-length', bytes.length)
      response.write(bytes.subarray(0, 12), () => response.destroy())
    })
    assert.equal((await faultOf(clientOf([url]).getBlockNumber())).code, 'CHAIN_UNAVAILABLE')
  }
})

test('an RPC answer above the size limit, compressed or not, fails with CHAIN_RANGE_TOO_LARGE', async (t) => {
  const long = Buffer.alloc(ANSWER_BYTES_MAX + 1, ' ')
  for (const packed of [false, true]) {
    const { url } = await startNode(t, (_call, response) => {
      if (packed) response.setHeader('content-encoding', 'gzip')
      response.on('error', () => {})
      response.end(packed ? gzipSync(long) : long)
    })
    const fault = await faultOf(clientOf([url]).getLogs({ fromBlock: 1n, toBlock: 2_000n }))
    assert.equal(fault.code, 'CHAIN_RANGE_TOO_LARGE', fault.message)
  }
  // An answer longer than viem's own limit, which must be accepted.
  const { url } = await startNode(t, (call, response) => {
    response.end(`${told(call, [])}${' '.repeat(11 * 1_048_576)}`)
  })
  assert.deepEqual(await clientOf([url]).getLogs({ fromBlock: 1n, toBlock: 2_000n }), [])
})

test('a request is sent again on a new connection if the Ethereum node closes the connection before answering', async (t) => {
  let isEnding = false
  const { url, received, sockets } = await startNode(t, (call, response) => {
    if (isEnding) response.socket?.resetAndDestroy()
    else response.end(told(call, BLOCK))
    isEnding = false
  })
  const viem = clientOf([url])
  assert.equal(await viem.getBlockNumber(), 42n)
  assert.equal(sockets.length, 1, 'one connection for all')
  // The node resets the connection when it receives the request.
  isEnding = true
  assert.equal(await viem.getBlockNumber(), 42n)
  assert.deepEqual(received, ['eth_chainId', ...Array<string>(3).fill('eth_blockNumber')])
  assert.equal(sockets.length, 2)
})

test('a redirect by an RPC address is not followed, because the address may contain a key', async (t) => {
  const { url } = await startNode(t, (_call, response) => {
    response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end()
  })
  const fault = await faultOf(clientOf([url]).getBlockNumber())
  assert.equal(fault.code, 'CHAIN_UNAVAILABLE')
  assert.match(fault.message, /Temporary Redirect/)
})
