/**
 * Tests `POST /api/v1/positions/{marketId}/sync` on a real chain. Whatever the indexer is doing, the answer has the
 * state of the chain's newest block. Nothing is counted twice when the indexer reaches that block. For
 * `chain-markets.test.ts`, whose exchange it uses.
 */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { TestChain } from '../support/chain.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import type { RpcProxy } from '../support/rpc-proxy.ts'

const UNIT = 1_000_000

export type SyncPlace = {
  readonly chain: TestChain
  /** The proxy between the exchange and the chain. */
  readonly proxy: RpcProxy
  readonly exchange: Exchange
  /** A market in which only Ann and Bob hold shares. */
  readonly marketId: `0x${string}`
}

/** Returns helpers for a market in which Ann has no YES shares at first and Bob has 100. */
function syncWords({ chain, proxy, exchange, marketId: id }: SyncPlace) {
  const { ann, bob, conditionalTokens } = chain
  const get = async (path: string): Promise<Record<string, unknown>> => {
    const response = await fetch(`${exchange.url}/api/v1${path}`)
    const body = (await response.json()) as Record<string, unknown>
    assert.equal(response.status, 200, `${path}: ${JSON.stringify(body)}`)
    return body
  }
  const ask = async (who: { address: string }) => {
    const path = `/api/v1/positions/${id}/sync?userAddress=${who.address}`
    const response = await fetch(`${exchange.url}${path}`, { method: 'POST' })
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  /** Returns the user's YES shares. Asserts that the user's list of positions has the same number. */
  const shown = async (who: { address: string }): Promise<number> => {
    const { yesShares } = await get(`/positions/${id}?user=${who.address}`)
    const { positions } = await get(`/users/${who.address}/positions?chain_id=31337`)
    const [listed] = positions as { yesShares: number }[]
    assert.equal(listed?.yesShares ?? 0, yesShares)
    return Number(yesShares) / UNIT
  }
  return {
    ask,
    shown,
    give: async (shares: number) =>
      chain.chain.send(bob, conditionalTokens, 'safeTransferFrom', [
        ...([bob.address, ann.address] as const),
        BigInt(await chain.positionId(id, 0)),
        BigInt(shares * UNIT),
        '0x',
      ]),
    /** Syncs a user's position, and asserts that the answer is for the newest block. */
    async sync(who: { address: string }): Promise<number> {
      const { status, body } = await ask(who)
      assert.equal(status, 200, JSON.stringify(body))
      const { number, hash } = await chain.publicClient.getBlock()
      assert.deepEqual(
        [body.synced, body.blockNumber, body.blockHash],
        [true, Number(number), hash],
      )
      return Number(body.yesShares) / UNIT
    },
    /** Stops the indexer, or lets it continue. While stopped, it still notices removed blocks. */
    hold: (isHeld: boolean) => {
      proxy.refuse = (method) =>
        isHeld && method === 'eth_getLogs' ? { code: -32_005, message: 'busy' } : undefined
    },
    /** Waits until Ann and Bob have these numbers of YES shares in the index. */
    indexed: (...expected: [ann: number, bob: number]) =>
      eventually(async () => {
        const { topHolders } = await get(`/holders/${id}`)
        const holders = topHolders as { address: string; yesShares: number }[]
        const of = (who: { address: string }) =>
          (holders.find(({ address }) => address === who.address)?.yesShares ?? 0) / UNIT
        assert.deepEqual([of(ann), of(bob)], expected)
      }),
  }
}

/** Gives Bob the 100 shares of each outcome that the tests need. */
export async function fundForSync({ chain, marketId }: Omit<SyncPlace, 'exchange' | 'proxy'>) {
  await chain.fund(chain.bob, { shares: BigInt(100 * UNIT), market: marketId })
}

/** Runs the tests on an exchange that requires no confirmations. Afterwards, Ann has 25 YES shares and Bob has 75. */
export async function syncWithoutConfirmations(t: TestContext, place: SyncPlace): Promise<void> {
  const { chain, proxy } = place
  const { ask, sync, shown, give, hold, indexed } = syncWords(place)
  const { ann, bob } = chain
  await indexed(0, 100)

  await t.test(
    'a sync of positions shows shares of a new block immediately, and the indexer does not count these shares again',
    async () => {
      await give(10)
      assert.deepEqual([await sync(ann), await sync(bob)], [10, 90])
      assert.deepEqual([await shown(ann), await shown(bob)], [10, 90])
      await indexed(10, 90)
      assert.deepEqual([await shown(ann), await shown(bob)], [10, 90])
    },
  )

  await t.test(
    'while the indexer is stopped, a sync of positions shows new shares, and so does a second sync',
    async () => {
      hold(true)
      await give(5)
      assert.equal(await sync(ann), 15)
      assert.deepEqual(
        [await shown(ann), await shown(bob)],
        [15, 90],
        'Bob has not been asked about',
      )
      await give(1)
      await chain.mine(20)
      assert.deepEqual([await sync(ann), await sync(bob)], [16, 84])
      assert.deepEqual([await shown(ann), await shown(bob)], [16, 84])
      hold(false)
      await indexed(16, 84)
      assert.deepEqual([await shown(ann), await shown(bob)], [16, 84])
    },
  )

  await t.test('a sync of positions is correct after a reorg', async () => {
    const reorganise = await chain.fork()
    await give(4)
    await indexed(20, 80)
    hold(true)
    await reorganise(2)
    await indexed(16, 84)
    await give(7)
    assert.deepEqual([await sync(ann), await sync(bob)], [23, 77])
    assert.deepEqual([await shown(ann), await shown(bob)], [23, 77])
    hold(false)
    await indexed(23, 77)
    assert.deepEqual([await shown(ann), await shown(bob)], [23, 77])
  })

  await t.test(
    'if a reorg removes the block of a sync, the positions no longer include the balances from that sync',
    async () => {
      const reorganise = await chain.fork()
      await give(50)
      assert.equal(await sync(ann), 73)
      await indexed(73, 27)
      hold(true)
      await give(1)
      assert.equal(await sync(ann), 74)
      assert.equal(await shown(ann), 74)
      await reorganise(1)
      await eventually(async () => assert.equal(await shown(ann), 23))
      hold(false)
      await indexed(23, 77)
      assert.deepEqual([await sync(ann), await sync(bob)], [23, 77])
    },
  )

  await t.test(
    'a sync of positions is refused as unavailable while the chain cannot be reached',
    async () => {
      await give(2)
      await indexed(25, 75)
      proxy.faults = { down: true }
      const { status, body } = await ask(ann)
      assert.deepEqual([status, body.code], [503, 'CHAIN_UNAVAILABLE'], JSON.stringify(body))
      proxy.faults = {}
      assert.equal(await shown(ann), 25)
      assert.equal(await sync(ann), 25)
    },
  )
}

/** Runs the tests on the same exchange with two confirmations, after `syncWithoutConfirmations`. */
export async function syncBeforeConfirmations(place: SyncPlace): Promise<void> {
  const { chain } = place
  const { sync, shown, give, indexed } = syncWords(place)
  const { ann, bob } = chain
  await indexed(25, 75)
  await give(10)
  assert.deepEqual([await shown(ann), await shown(bob)], [25, 75])
  assert.deepEqual([await sync(ann), await sync(bob)], [35, 65])
  assert.deepEqual([await shown(ann), await shown(bob)], [35, 65])
  await chain.mine(1)
  assert.deepEqual([await shown(ann), await shown(bob)], [35, 65])
  await chain.mine(1)
  await indexed(35, 65)
  assert.deepEqual([await shown(ann), await shown(bob)], [35, 65])
}
