/** Tests connections to a chain: several addresses, deadlines, the check of the chain id, and named errors. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { after, before, beforeEach, test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { asked, type ChainClientOptions, makeChainClient } from '#chain/clients.ts'
import type { Fault } from '#domain/fault.ts'
import { type Chain, startChain } from '../contracts/support/chain.ts'
import { type RpcProxy, startRpcProxy } from '../support/rpc-proxy.ts'

let chain: Chain
let first: RpcProxy
let second: RpcProxy

before(async () => {
  chain = await startChain()
  first = await startRpcProxy(chain)
  second = await startRpcProxy(chain)
})
after(async () => {
  await first.close()
  await second.close()
  await chain.close()
})
beforeEach(() => {
  for (const proxy of [first, second]) {
    proxy.faults = {}
    proxy.requests.clear()
  }
})

const client = (urls = [first.url, second.url], chainId = chain.id, more = {}) =>
  makeChainClient({ chainId, rpcUrls: urls, rounds: 2, pauseMs: 1, ...more })

/** Makes a client with short pauses. It retries until its time budget is used up. */
const patient = (options: Partial<ChainClientOptions> = {}) => {
  const failures: string[] = []
  const { viem } = makeChainClient({
    chainId: chain.id,
    rpcUrls: [first.url],
    pauseMs: 1,
    budgetMs: 60_000,
    onError: ({ why }) => failures.push(why),
    ...options,
  })
  return { viem, failures }
}

const BUSY = { code: -32005, message: 'too many requests' }

const faultOf = (call: Promise<unknown>): Promise<Fault> =>
  asked(call).then(
    () => assert.fail('expected a fault'),
    (fault: Fault) => fault,
  )

test('the next RPC address is used when the first is down, slow, failing or serves another chain', async () => {
  for (const faults of [
    { down: true },
    { slowMs: 2_000 },
    { status: 502 },
    { error: { code: -32603, message: 'Internal error' } },
    { error: { code: -32005, message: 'limit exceeded' } },
    { chainId: 5 },
  ]) {
    first.faults = faults
    // The test of the slow node uses a short timeout, which applies to the second node, too. The second node may also
    // answer too late, so the client may try both nodes several times.
    const more = 'slowMs' in faults ? { timeoutMs: 300, rounds: 10, pauseMs: 1 } : {}
    const { viem } = client([first.url, second.url], chain.id, more)
    assert.equal(await viem.getBlockNumber(), 0n, JSON.stringify(faults))
  }
})

test('while no RPC address answers correctly, every call fails with a retryable fault', async () => {
  first.faults = { down: true }
  second.faults = { status: 500 }
  const shared = client()
  const fault = await faultOf(shared.viem.getBlockNumber())
  assert.deepEqual([fault.code, fault.retryable], ['CHAIN_UNAVAILABLE', true])
  assert(!fault.message.includes('127.0.0.1'), fault.message)
  first.faults = {}
  assert.equal(await shared.viem.getBlockNumber(), 0n)
})

test('if all RPC addresses serve another chain, calls fail with a fault that is not retryable', async () => {
  const fault = await faultOf(client([first.url], 5).viem.getBlockNumber())
  assert.deepEqual([fault.code, fault.retryable], ['CHAIN_MISMATCH', false])
  assert.match(fault.message, /serves chain 31337, but the settings require chain 5/)
})

test('a request for the logs of too many blocks fails with CHAIN_RANGE_TOO_LARGE', async () => {
  first.faults = { rangeMax: 10 }
  const { viem } = client([first.url])
  const fault = await faultOf(viem.getLogs({ fromBlock: 0n, toBlock: 100n }))
  assert.equal(fault.code, 'CHAIN_RANGE_TOO_LARGE')
  assert.equal(first.requests.get('eth_getLogs'), 1, 'asking again would be in vain')
})

test('a request to a busy RPC address is retried until it is answered, and the address stays in use', async () => {
  for (const code of [-32005, -32001, -32002, 429]) {
    first.requests.clear()
    first.faults = { error: { ...BUSY, code }, errorTimes: { eth_chainId: 2, eth_blockNumber: 4 } }
    const { viem, failures } = patient()
    assert.equal(await viem.getBlockNumber(), 0n)
    assert.equal(failures.length, 6, String(code))
    assert.equal(first.requests.get('eth_blockNumber'), 5)
    assert.equal(first.requests.get('eth_chainId'), 3, 'it had shown its chain before')
  }
  first.requests.clear()
  first.faults = { status: 429, statusTimes: 5 }
  const { viem, failures } = patient()
  assert.equal(await viem.getBlockNumber(), 0n)
  assert.equal(failures.length, 5)
  first.faults = { status: 429, statusTimes: 5 }
  assert.equal(await viem.getBlockNumber(), 0n)
  assert.equal(failures.length, 10)
  assert.equal(first.requests.get('eth_chainId'), 1)
})

test('an RPC address that was unavailable is used again only after it returned the right chain id', async () => {
  const { viem, failures } = patient()
  await viem.getBlockNumber()
  first.faults = { status: 502, statusTimes: 3 }
  assert.equal(await viem.getBlockNumber(), 0n)
  assert.equal(failures.length, 3)
  assert.equal(first.requests.get('eth_chainId'), 2)
  first.faults = { status: 502, statusTimes: 1, chainId: 5 }
  assert.equal((await faultOf(viem.getBlockNumber())).code, 'CHAIN_MISMATCH')
})

test('a call first tries the RPC address that answered the previous call', async () => {
  const rpcUrls = [first.url, second.url]
  first.faults = { error: BUSY, errorTimes: { eth_blockNumber: 3 } }
  second.faults = { error: BUSY, errorTimes: { eth_blockNumber: 2 } }
  const { viem, failures } = patient({ rpcUrls })
  assert.equal(await viem.getBlockNumber(), 0n)
  assert.equal(failures.length, 5, 'each in its turn')
  assert.equal(await viem.getBlockNumber(), 0n)
  assert.deepEqual(
    [first, second].map(({ requests }) => requests.get('eth_blockNumber')),
    [3, 4],
  )
})

test('a call whose retries exceed their time limit fails with a retryable fault', async () => {
  const rpcUrls = [first.url, second.url]
  first.faults = { error: BUSY }
  second.faults = { down: true }
  const fault = await faultOf(patient({ rpcUrls, budgetMs: 30 }).viem.getBlockNumber())
  assert.deepEqual([fault.code, fault.retryable], ['CHAIN_UNAVAILABLE', true])
  const none = patient({ rpcUrls, budgetMs: 0 })
  assert.equal((await faultOf(none.viem.getBlockNumber())).code, 'CHAIN_UNAVAILABLE')
  assert.equal(none.failures.length, 2, 'each address is asked once')
})

test('before a retry, the client waits at least as long as the RPC address requests', async () => {
  first.faults = { status: 429, retryAfterSec: 3_600 }
  const late = patient()
  assert.equal((await faultOf(late.viem.getBlockNumber())).code, 'CHAIN_UNAVAILABLE')
  assert.equal(late.failures.length, 1, 'it is longer than the budget')
  first.faults = { status: 429, statusTimes: 1, retryAfterSec: 1 }
  assert.equal(await late.viem.getBlockNumber(), 0n)
  assert.equal(late.failures.length, 2)
  // While the first address requires a pause, the client uses the second address.
  first.faults = { status: 429, retryAfterSec: 3_600 }
  second.faults = { status: 429, statusTimes: 2 }
  const both = patient({ rpcUrls: [first.url, second.url] })
  assert.equal(await both.viem.getBlockNumber(), 0n)
})

test('calls fail at once if every RPC address serves a wrong chain, and are retried if one address is unavailable', async () => {
  first.faults = { chainId: 5 }
  second.faults = { chainId: 6 }
  for (const rpcUrls of [[first.url], [first.url, second.url]]) {
    first.requests.clear()
    assert.equal((await faultOf(patient({ rpcUrls }).viem.getBlockNumber())).code, 'CHAIN_MISMATCH')
    assert.equal(first.requests.get('eth_chainId'), 1)
  }
  const inBothOrders = [
    [first.url, second.url],
    [second.url, first.url],
  ]
  for (const rpcUrls of inBothOrders) {
    second.faults = { error: BUSY, errorTimes: { eth_chainId: 2 } }
    assert.equal(await patient({ rpcUrls }).viem.getBlockNumber(), 0n)
    second.faults = { down: true }
    const away = patient({ rpcUrls, budgetMs: 0 })
    assert.equal((await faultOf(away.viem.getBlockNumber())).code, 'CHAIN_UNAVAILABLE')
  }
})

test('if the Ethereum node is busy, sending a transaction is retried only if the pause is short', async () => {
  const send = ({ viem }: ReturnType<typeof patient>) =>
    viem.request({ method: 'eth_sendRawTransaction', params: ['0x00'] })
  first.faults = { error: BUSY, errorTimes: { eth_sendRawTransaction: 2 } }
  const quick = patient()
  assert.equal((await faultOf(send(quick))).code, 'CHAIN_REFUSED', 'the node has received of it')
  assert.equal(quick.failures.length, 2)
  // A pause of 2 s exceeds the retry budget of a transaction, so the client makes only one attempt. A read has a larger
  // budget and would be retried.
  first.faults = { error: BUSY }
  const slow = patient({ pauseMs: 2_000 })
  assert.equal((await faultOf(send(slow))).code, 'CHAIN_UNAVAILABLE')
  assert.equal(slow.failures.length, 1)
})

test('a worker thread can exit while its chain client pauses between two retries', async () => {
  first.faults = { down: true }
  const thread = new Worker(new URL('./threads/patient-asker.ts', import.meta.url), {
    workerData: first.url,
  })
  const ended = once(thread, 'exit')
  await once(thread, 'message')
  thread.postMessage('stop')
  await ended
})
