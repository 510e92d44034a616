/**
 * The whole life of a market: created, traded, a failed trade, expired, settled, redeemed. After each step the test
 * checks every read. The expected numbers were computed by hand. At the end the audit, which also reads the chain,
 * finds no difference.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient } from '#client/client.ts'
import { startTestChain } from '../support/chain.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { runAudit } from '../support/run-audit.ts'

const USDC = 1_000_000
const NONE = `0x${'0'.repeat(64)}` as const

test('the API’s answers about a market are correct from its creation to its redemption', async (t) => {
  const chain = await startTestChain(t)
  const market = await chain.createMarket()
  const { ann, bob, carol } = chain
  const exchange = await startExchange(t, {
    environment: {
      ...chain.environment,
      SIBYL_READ_CACHE_MS: '0',
      SIBYL_INDEXER_POLL_MS: '50',
      SIBYL_SETTLEMENT_BATCH_WAIT_MS: '20',
    },
  })
  const { id } = market
  const get = async (path: string): Promise<Record<string, unknown>> => {
    const response = await fetch(`${exchange.url}/api/v1${path}`)
    const body = (await response.json()) as Record<string, unknown>
    assert.equal(response.status, 200, `${path}: ${JSON.stringify(body)}`)
    return body
  }
  /** Waits until the answer has these values in these fields. */
  const says = (path: string, expected: Record<string, unknown>): Promise<void> =>
    eventually(async () => {
      const body = await get(path)
      const shown = Object.fromEntries(Object.keys(expected).map((name) => [name, body[name]]))
      assert.deepEqual(shown, expected, path)
    })
  const position = (
    of: { address: string },
    [yes, yesCost, no, noCost]: [number, number, number, number],
  ) =>
    says(`/positions/${market.address}?user=${of.address}`, {
      yesShares: yes * USDC,
      noShares: no * USDC,
      totalInvested: (yesCost + noCost) * USDC,
      yesCost: yesCost * USDC,
      noCost: noCost * USDC,
    })
  const holder = (of: { address: string }, yes: number, no: number, cost: number) => ({
    address: of.address,
    yesShares: yes * USDC,
    noShares: no * USDC,
    totalShares: (yes + no) * USDC,
    totalInvested: cost * USDC,
  })
  const trade = async (
    seller: typeof ann,
    buyer: typeof ann,
    outcome: 'YES' | 'NO',
    price: string,
    size: string,
  ) => {
    const terms = { marketId: id, outcome, price, size, ttlSeconds: 3_600 }
    const client = (signer: typeof ann) => createClient({ url: exchange.url, signer })
    await client(seller).orders.place({ ...terms, side: 'sell' } as never)
    await client(buyer).orders.place({ ...terms, side: 'buy' } as never)
  }
  /**
   * Waits until the user's total realised profit is `profit`, and the realised profits of the listed positions are
   * `here`. All values are in dollars.
   */
  const realised = (of: { address: string }, profit: number, here: number[]) =>
    eventually(async () => {
      const body = await get(`/users/${of.address}/positions?chain_id=31337`)
      const positions = body.positions as { realisedProfit: number }[]
      assert.deepEqual(
        [body.realisedProfit, ...positions.map(({ realisedProfit }) => realisedProfit)],
        [profit, ...here].map((dollars) => dollars * USDC),
      )
    })
  const statuses = async (list: string): Promise<unknown[]> =>
    ((await get(list)).activity as { status: string }[]).map(({ status }) => status)

  await t.test('a market that was just created is listed with zero volume', async () => {
    // The market is opened once the indexer has read it from the chain.
    await says(`/markets/${id}`, { id, status: 'open', resolved: false, chainId: 31_337 })
    await says(`/stats/${id}`, {
      marketId: id,
      contractAddress: market.address,
      volume24h: 0,
      totalVolume: 0,
      lastPrice: 0,
      lastOutcome: null,
      openInterest: 0,
    })
    await says(`/holders/${id}`, { topHolders: [], totalHolders: 0 })
    await says('/platform/stats', {
      chainId: null,
      totalMarkets: 1,
      activeMarkets: 1,
      resolvedMarkets: 0,
      totalTrades: 0,
      openInterest: 0,
    })
  })

  await t.test('after a split, the trader has shares of both outcomes', async () => {
    await chain.fund(ann, { collateral: 1_000_000_000n })
    await chain.fund(bob, { shares: 100_000_000n, market: id })
    await position(bob, [100, 50, 100, 50])
    await says(`/holders/${id}`, { topHolders: [holder(bob, 100, 100, 100)], totalHolders: 1 })
    await says(`/stats/${id}`, { openInterest: 100 * USDC, totalVolume: 0 })
    assert.deepEqual(await get(`/positions/${id}?user=${ann.address}`), {
      yesShares: 0,
      noShares: 0,
    })
  })

  await t.test('a trade appears in every read', async () => {
    await trade(bob, ann, 'YES', '0.4', '10')
    await trade(bob, ann, 'NO', '0.7', '5')
    await eventually(async () =>
      assert.deepEqual(await statuses(`/activity/${id}`), ['confirmed', 'confirmed']),
    )
    await says(`/stats/${id}`, {
      volume24h: 7.5 * USDC,
      totalVolume: 7.5 * USDC,
      lastPrice: 700_000,
      lastOutcome: 1,
      lastYesPrice: 400_000,
      lastNoPrice: 700_000,
      totalTrades: 2,
      trades24h: 2,
      openInterest: 100 * USDC,
    })
    await position(ann, [10, 4, 5, 3.5])
    await position(bob, [90, 45, 95, 47.5])
    await says(`/holders/${id}`, {
      topHolders: [holder(bob, 90, 95, 92.5), holder(ann, 10, 5, 7.5)],
      totalHolders: 2,
    })
    await says('/pending-trades', { trades: [], count: 0 })
    const { positions } = await get(`/users/${ann.address}/positions?chain_id=31337`)
    assert.deepEqual(positions, [
      {
        marketId: id,
        marketQuestion: 'Will it rain on day 1?',
        contractAddress: market.address,
        yesShares: 10 * USDC,
        noShares: 5 * USDC,
        totalInvested: 7.5 * USDC,
        yesCost: 4 * USDC,
        noCost: 3.5 * USDC,
        realisedProfit: 0,
        expiration: Number(market.expiration),
        resolved: false,
      },
    ])
    // Bob's 10 sold YES had cost 5 dollars and brought 4. The 5 sold NO had cost 2.5 and brought 3.5. The profit is 0.
    await realised(bob, 0, [0])
    const { activity } = await get(`/users/${ann.address}/activity?chain_id=31337`)
    assert.deepEqual(
      (activity as Record<string, unknown>[]).map(({ role, outcome, price, cost, status }) => [
        ...[role, outcome, price, cost, status],
      ]),
      [
        ['buyer', 1, 700_000, 3.5 * USDC, 'confirmed'],
        ['buyer', 0, 400_000, 4 * USDC, 'confirmed'],
      ],
    )
    const { candles } = await get(`/candles/${id}?outcome=NO&interval=1d`)
    assert.deepEqual(
      (candles as Record<string, number>[]).map(({ open, close, volume, trades }) => [
        ...[open, close, volume, trades],
      ]),
      [[700_000, 700_000, 3.5 * USDC, 1]],
    )
    await says('/platform/stats?chain_id=31337', {
      chainId: 31_337,
      totalVolume: 7.5 * USDC,
      volume24h: 7.5 * USDC,
      totalTrades: 2,
      totalTraders: 2,
      openOrders: 0,
      openInterest: 100 * USDC,
    })
  })

  await t.test('a trade that the chain refuses is removed from every figure', async () => {
    await trade(bob, carol, 'YES', '0.45', '20')
    await eventually(async () =>
      assert.deepEqual(await statuses(`/users/${carol.address}/activity?chain_id=31337`), [
        'failed',
      ]),
    )
    await says(`/stats/${id}`, {
      totalVolume: 7.5 * USDC,
      volume24h: 7.5 * USDC,
      lastPrice: 700_000,
      lastYesPrice: 400_000,
      totalTrades: 2,
    })
    const failed = (await get('/failed-trades')) as { trades: { reason: string }[]; count: number }
    assert.equal(failed.count, 1)
    assert.match(failed.trades[0]?.reason ?? '', /^Insufficient/)
    await position(bob, [90, 45, 95, 47.5])
    const { candles } = await get(`/candles/${id}?outcome=YES&interval=1d`)
    assert.deepEqual(
      (candles as Record<string, number>[]).map(({ close, volume, trades }) => [
        ...[close, volume, trades],
      ]),
      [[400_000, 4 * USDC, 1]],
    )
    // Bob's quantity is back in the book. Carol counts as a trader, although her trade failed.
    await says('/platform/stats', { totalTrades: 2, totalTraders: 3, openOrders: 1 })
    await says(`/holders/${id}`, { totalHolders: 2 })
  })

  await t.test('a market that expires is closed and has no open orders any more', async () => {
    await chain.warp(86_500n)
    await says(`/markets/${id}`, { status: 'expired', resolved: false, bestAskPrice: 0 })
    await says('/platform/stats', { activeMarkets: 0, resolvedMarkets: 0, openOrders: 0 })
    await says(`/resolution/${id}`, { expired: true, resolved: false })
    // The trades are older than 24 hours now.
    await says(`/stats/${id}`, { totalVolume: 7.5 * USDC, volume24h: 0, lastPrice: 700_000 })
    await position(ann, [10, 4, 5, 3.5])
  })

  await t.test('a resolved market shows its outcome', async () => {
    const { send } = chain.chain
    await send(chain.owner, chain.collateral, 'mint', [bob.address, 10n ** 12n])
    await send(bob, chain.collateral, 'approve', [market.address, 10n ** 12n])
    await send(bob, market, 'propose', [true])
    await chain.warp(7_201n)
    await send(bob, market, 'settle', [])
    await says(`/markets/${id}`, { status: 'resolved', resolved: true })
    await says(`/resolution/${id}`, { expired: true, resolved: true, winningOutcome: 0 })
    await says('/platform/stats', { totalMarkets: 1, activeMarkets: 0, resolvedMarkets: 1 })
    const { positions } = await get(`/users/${ann.address}/positions?chain_id=31337`)
    assert.deepEqual(
      (positions as { resolved: boolean }[]).map(({ resolved }) => resolved),
      [true],
    )
  })

  await t.test('a redemption appears in every read', async () => {
    const { send } = chain.chain
    const what = [chain.collateral.address, NONE, id, [1n, 2n]] as const
    await send(ann, chain.conditionalTokens, 'redeemPositions', what)
    await eventually(async () =>
      assert.deepEqual(await get(`/positions/${market.address}?user=${ann.address}`), {
        yesShares: 0,
        noShares: 0,
      }),
    )
    await says(`/users/${ann.address}/positions?chain_id=31337`, { positions: [], count: 0 })
    // Ann redeemed 10 YES that had cost 4, and received 10. Her 5 NO had cost 3.5 and paid nothing. She has no position
    // any more.
    await realised(ann, 2.5, [])
    await realised(bob, 0, [0])
    await says(`/holders/${id}`, { topHolders: [holder(bob, 90, 95, 92.5)], totalHolders: 1 })
    // Each of Ann's ten winning shares was worth a dollar. Her five losing shares were worth nothing.
    await says(`/stats/${id}`, { openInterest: 90 * USDC })
    await says('/platform/stats?chain_id=31337', { openInterest: 90 * USDC })
    const { settlements } = await get(`/users/${ann.address}/activity?chain_id=31337`)
    assert.deepEqual(
      (settlements as Record<string, unknown>[]).map(
        ({ marketId, winningOutcome, payout, status, marketQuestion }) => [
          ...[marketId, winningOutcome, payout, status, marketQuestion],
        ],
      ),
      [[id, 0, 10 * USDC, 'confirmed', 'Will it rain on day 1?']],
    )
  })

  await t.test(
    'a sync of positions returns the balances that the exchange already shows',
    async () => {
      const response = await fetch(`${exchange.url}/api/v1/positions/${id}/sync`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ userAddress: bob.address }),
      })
      const body = (await response.json()) as Record<string, unknown>
      assert.equal(response.status, 200, JSON.stringify(body))
      assert.deepEqual(
        [body.synced, body.yesShares, body.noShares, body.totalInvested],
        [true, 90 * USDC, 95 * USDC, 92.5 * USDC],
      )
      assert.equal(body.blockNumber, await chain.height())
      await position(bob, [90, 45, 95, 47.5])
      const unknown = await fetch(
        `${exchange.url}/api/v1/positions/0x${'12'.repeat(32)}/sync?userAddress=${bob.address}`,
        { method: 'POST' },
      )
      assert.equal(unknown.status, 404)
      const nobody = await fetch(`${exchange.url}/api/v1/positions/${id}/sync`, { method: 'POST' })
      assert.deepEqual(
        [nobody.status, ((await nobody.json()) as { field: string }).field],
        [400, 'userAddress'],
      )
    },
  )

  await t.test(
    'after the resolution, the gain of one trader equals the loss of the other',
    async () => {
      const { send } = chain.chain
      const what = (sets: bigint[]) => [chain.collateral.address, NONE, id, sets] as const
      await send(bob, chain.conditionalTokens, 'redeemPositions', what([2n]))
      // Redeeming 95 NO that had cost 47.5 paid nothing.
      await realised(bob, -47.5, [-47.5])
      await send(bob, chain.conditionalTokens, 'redeemPositions', what([1n]))
      // Bob redeemed 90 YES that had cost 45, and received 90. In total, Bob paid 100 and received 4 + 3.5 + 90.
      await realised(bob, -2.5, [])
      const bobs = { address: bob.address, chainId: 31_337 }
      assert.equal(await createClient({ url: exchange.url }).realisedProfit(bobs), -2.5 * USDC)
    },
  )

  await t.test('the audit of the whole exchange finds no difference', async () => {
    const { code, said } = await runAudit({
      ...chain.environment,
      SIBYL_DATA_DIR: exchange.dataDir,
      SIBYL_DEVNET: 'false',
    })
    assert.equal(code, 0, said)
    assert.match(said, /2 trades of 1 markets/)
    assert.match(said, /[1-9][0-9]* holders compared with chain 31337 at block/)
    assert.match(said, /no difference/)
  })
})
