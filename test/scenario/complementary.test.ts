/**
 * Wallets that have dollars, but no ether and no shares, trade with each other in a new complementary market. No set
 * has been split before. Then the market is resolved, and the wallets redeem. The numbers are computed by hand.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createClient } from '#client/client.ts'
import { startTestChain } from '../support/chain.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { runAudit } from '../support/run-audit.ts'

const USDC = 1_000_000

test('wallets that hold only dollars can trade by mints and merges, settle and redeem', async (t) => {
  const chain = await startTestChain(t)
  const market = await chain.createMarket({ complementary: true })
  const exchange = await startExchange(t, {
    environment: {
      ...chain.environment,
      SIBYL_READ_CACHE_MS: '0',
      SIBYL_INDEXER_POLL_MS: '50',
      SIBYL_SETTLEMENT_BATCH_WAIT_MS: '20',
      SIBYL_RISK_FUNDS: 'reserve',
    },
  })
  const { id } = market
  const get = async (path: string): Promise<Record<string, unknown>> => {
    const response = await fetch(`${exchange.url}/api/v1${path}`)
    const body = (await response.json()) as Record<string, unknown>
    assert.equal(response.status, 200, `${path}: ${JSON.stringify(body)}`)
    return body
  }
  const says = (path: string, expected: Record<string, unknown>): Promise<void> =>
    eventually(async () => {
      const body = await get(path)
      const shown = Object.fromEntries(Object.keys(expected).map((name) => [name, body[name]]))
      assert.deepEqual(shown, expected, path)
    })
  /** Makes a wallet that never has ether, with 100 dollars that the settlement contract may spend. */
  const wallet = async () => {
    const signer = privateKeyToAccount(generatePrivateKey())
    await chain.chain.send(chain.owner, chain.collateral, 'mint', [signer.address, 100_000_000n])
    const client = createClient({ url: exchange.url, signer })
    await client.relayer.stablecoinPermit({ value: 'unlimited' })
    return { address: signer.address, client }
  }
  type Wallet = Awaited<ReturnType<typeof wallet>>
  const order = (
    { client }: Wallet,
    side: 'buy' | 'sell',
    outcome: 'YES' | 'NO',
    price: string,
    size: string,
  ) => client.orders.place({ marketId: id, side, outcome, price, size, ttlSeconds: 3_600 })
  const has = (of: Wallet, yes: number, yesCost: number, no: number, noCost: number) =>
    says(`/positions/${market.address}?user=${of.address}`, {
      yesShares: yes * USDC,
      yesCost: yesCost * USDC,
      noShares: no * USDC,
      noCost: noCost * USDC,
    })
  const dollars = async (of: Wallet): Promise<number> =>
    Number(await chain.balance(of.address)) / USDC
  const confirmed = (trades: number) =>
    eventually(async () => {
      const { activity } = await get(`/activity/${id}`)
      const statuses = (activity as { status: string }[]).map(({ status }) => status)
      assert.deepEqual(statuses, Array(trades).fill('confirmed'))
    })

  await says(`/markets/${id}`, { id, status: 'open' })
  const [ann, carol] = [await wallet(), await wallet()]

  await t.test(
    'in a mint, both traders pay, and each receives shares of the outcome they bought',
    async () => {
      await order(ann, 'buy', 'YES', '0.6', '10')
      const { matches } = await order(carol, 'buy', 'NO', '0.45', '10')
      assert.equal(matches, 1)
      await confirmed(1)
      await has(ann, 10, 6, 0, 0)
      await has(carol, 0, 0, 10, 4)
      assert.deepEqual([await dollars(ann), await dollars(carol)], [94, 96])
      await says(`/stats/${id}`, { openInterest: 10 * USDC, totalTrades: 1 })
      await says(`/holders/${id}`, { totalHolders: 2 })
    },
  )

  await t.test(
    'in a merge, both traders deliver shares, and divide the dollar that the shares pay',
    async () => {
      for (const { client } of [ann, carol]) await client.relayer.ctfApproval()
      // The exchange learns of the approval when it reads the block that contains the approval.
      await eventually(() => order(carol, 'sell', 'NO', '0.5', '4'))
      await eventually(() => order(ann, 'sell', 'YES', '0.3', '4'))
      await confirmed(2)
      await has(ann, 6, 3.6, 0, 0)
      await has(carol, 0, 0, 6, 2.4)
      assert.deepEqual([await dollars(ann), await dollars(carol)], [96, 98])
      await says(`/stats/${id}`, { openInterest: 6 * USDC })
    },
  )

  await t.test(
    'at equal prices, an order matches its own outcome’s book before the other outcome’s book',
    async () => {
      const dan = await wallet()
      await order(carol, 'sell', 'NO', '0.4', '1')
      await order(ann, 'buy', 'YES', '0.6', '1')
      const { matches } = await order(dan, 'buy', 'NO', '0.4', '2')
      assert.equal(matches, 2)
      await confirmed(4)
      await has(dan, 0, 0, 2, 0.8)
      assert.equal(await dollars(dan), 99.2)
    },
  )

  await t.test('the winner of a complementary market redeems without ether', async () => {
    await chain.warp(86_500n)
    await says(`/markets/${id}`, { status: 'expired' })
    const { send } = chain.chain
    await send(chain.owner, chain.collateral, 'mint', [chain.bob.address, 10n ** 12n])
    await send(chain.bob, chain.collateral, 'approve', [market.address, 10n ** 12n])
    await send(chain.bob, market, 'propose', [true])
    await chain.warp(7_201n)
    await send(chain.bob, market, 'settle', [])
    await says(`/markets/${id}`, { status: 'resolved', resolved: true })
    const before = await dollars(ann)
    await ann.client.relayer.ctfRedemption({ market: { id, contractAddress: market.address } })
    await eventually(async () => assert.equal((await dollars(ann)) - before, 7))
    assert.equal(await chain.balance(chain.contracts.settlement), 0n)
    assert.equal(await chain.balance(chain.conditionalTokens.address), 0n)
  })

  await t.test('the audit of an exchange with mints and merges finds no difference', async () => {
    const { code, said } = await runAudit({
      ...chain.environment,
      SIBYL_DATA_DIR: exchange.dataDir,
      SIBYL_DEVNET: 'false',
    })
    assert.equal(code, 0, said)
    assert.match(said, /4 trades of 1 markets/)
    assert.match(said, /no difference/)
  })
})
