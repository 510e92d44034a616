/** Tests the search for the last block that the index and a node have in common. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ancestorOf } from '#chain/block-links.ts'
import type { ChainClient } from '#chain/clients.ts'

type Mark = { readonly number: number; readonly hash: string }

const marksOf = (branch: string, from: number, upTo: number): Mark[] =>
  Array.from({ length: upTo - from + 1 }, (_, at) => ({
    number: from + at,
    hash: `0x${branch}${from + at}`,
  }))

/** A node with these blocks only. */
function nodeWith(blocks: readonly Mark[]): ChainClient {
  const request = async ({ params: [at] }: { params: readonly [string] }) => {
    const block = blocks.find(({ number }) => number === Number(at))
    if (block === undefined) return null
    const { number, hash } = block
    return { number: `0x${number.toString(16)}`, hash, parentHash: '0x01', timestamp: '0x1' }
  }
  return { chainId: 1, viem: { request } } as unknown as ChainClient
}

test('the common ancestor of two branches is their newest shared block', async () => {
  const indexed = [...marksOf('a', 1, 6), ...marksOf('b', 7, 20)].reverse()
  const node = nodeWith([...marksOf('a', 1, 6), ...marksOf('c', 7, 25)])
  assert.deepEqual(await ancestorOf(node, indexed), { number: 6, hash: '0xa6' })
})

test('if the Ethereum node lags behind the indexer, the common ancestor is the node’s newest block', async () => {
  const indexed = marksOf('a', 1, 20).reverse()
  for (const tip of [1, 7, 19, 20]) {
    const found = await ancestorOf(nodeWith(marksOf('a', 1, tip)), indexed)
    assert.deepEqual(found, { number: tip, hash: `0xa${tip}` })
  }
})

test('if the Ethereum node lags behind on another branch, the common ancestor is the last block before the fork', async () => {
  const indexed = [...marksOf('a', 1, 6), ...marksOf('b', 7, 20)].reverse()
  const node = nodeWith([...marksOf('a', 1, 6), ...marksOf('c', 7, 9)])
  assert.deepEqual(await ancestorOf(node, indexed), { number: 6, hash: '0xa6' })
})

test('if the Ethereum node has none of the indexed blocks, no common ancestor is found', async () => {
  const indexed = marksOf('a', 10, 20).reverse()
  assert.equal(await ancestorOf(nodeWith(marksOf('a', 1, 9)), indexed), undefined)
})
