/**
 * Tests how far a node's head must be above a long range of blocks before the indexer reads the range. In a long range,
 * the indexer does not check every block for missing logs.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ChainClient } from '#chain/clients.ts'
import { ZERO_ADDRESS } from '#domain/ids.ts'
import { CHAIN_HEADERS_PER_RANGE_MAX } from '#domain/limits.ts'
import { makeChainReader } from '#services/indexer/chain/chain-reader.ts'
import { mark } from '../../store/chain-index/chain-events.ts'

type Request = { readonly method: string; readonly params: readonly unknown[] }

/** Returns a reader of a node with empty blocks up to its head. */
function readerOf(head: number) {
  const client = {
    chainId: 1,
    pinned: () => client,
    leave() {},
    viem: {
      async request({ method, params: [at] }: Request) {
        if (method === 'eth_getLogs') return []
        const number = at === 'latest' ? head : Number(at)
        if (number > head) return null
        const { hash, atSec } = mark(number)
        return { number, hash, parentHash: mark(number - 1).hash, timestamp: atSec }
      },
    },
  } as unknown as ChainClient
  const contract = ZERO_ADDRESS
  const names = ['marketFactory', 'conditionalTokens', 'settlement', 'delegates', 'stablecoin']
  return makeChainReader({
    client,
    contracts: Object.fromEntries(names.map((name) => [name, contract])) as never,
    knownMarkets: async () => [],
    knownTokens: async () => [],
    openMarkets: async () => [],
  })
}

test('the indexer reads a long block range only from a node whose head is far beyond the range', async () => {
  const [after, upTo] = [mark(10), 11 + CHAIN_HEADERS_PER_RANGE_MAX]
  const farAbove = upTo + CHAIN_HEADERS_PER_RANGE_MAX
  assert.equal((await readerOf(farAbove - 1).range(after, upTo)).kind, 'behind')
  assert.equal((await readerOf(farAbove).range(after, upTo)).kind, 'read')
  // In a short range the indexer checks every block for missing logs. So the range may end at the node's head.
  assert.equal((await readerOf(upTo - 1).range(after, upTo - 1)).kind, 'read')
})
