/** The way to a chain: several addresses, deadlines, the right chain, faults by their names. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { makeChainClient } from '#chain/clients.ts'
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
  first.faults = {}
  second.faults = {}
})

const client = (urls = [first.url, second.url], chainId = chain.id, more = {}) =>
  makeChainClient({ chainId, rpcUrls: urls, rounds: 2, pauseMs: 1, ...more })

const faultOf = async (call: Promise<unknown>): Promise<Fault> => {
  const { asked } = await import('#chain/clients.ts')
  return asked(call).then(
    () => assert.fail('expected a fault'),
    (fault: Fault) => fault,
  )
}

test('the next address answers when the first is down, slow, ill or of another chain', async () => {
  for (const faults of [
    { down: true },
    { slowMs: 2_000 },
    { status: 502 },
    { error: { code: -32603, message: 'Internal error' } },
    { error: { code: -32005, message: 'limit exceeded' } },
    { chainId: 5 },
  ]) {
    first.faults = faults
    // Patience is short only for who is slow, and then there are rounds enough for the other.
    const more = 'slowMs' in faults ? { timeoutMs: 300, rounds: 10, pauseMs: 1 } : {}
    const { viem } = client([first.url, second.url], chain.id, more)
    assert.equal(await viem.getBlockNumber(), 0n, JSON.stringify(faults))
  }
})

test('with nobody left it is a fault that may pass, and it passes', async () => {
  first.faults = { down: true }
  second.faults = { status: 500 }
  const shared = client()
  const fault = await faultOf(shared.viem.getBlockNumber())
  assert.deepEqual([fault.code, fault.retryable], ['CHAIN_UNAVAILABLE', true])
  assert(!fault.message.includes('127.0.0.1'), fault.message)
  first.faults = {}
  assert.equal(await shared.viem.getBlockNumber(), 0n)
})

test('addresses of another chain are a fault that does not pass', async () => {
  const fault = await faultOf(client([first.url], 5).viem.getBlockNumber())
  assert.deepEqual([fault.code, fault.retryable], ['CHAIN_MISMATCH', false])
  assert.match(fault.message, /serves chain 31337, the settings say 5/)
})

test('a range that is too long has a name of its own', async () => {
  first.faults = { rangeMax: 10 }
  const { viem } = client([first.url])
  const fault = await faultOf(viem.getLogs({ fromBlock: 0n, toBlock: 100n }))
  assert.equal(fault.code, 'CHAIN_RANGE_TOO_LARGE')
  assert.equal(first.requests.get('eth_getLogs'), 1, 'asking again would be in vain')
})
