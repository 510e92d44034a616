/** Tests the daily limits on a trader's settled fills and on the gas of failed fills, over HTTP and after a kill. */

import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { devnetAccount } from '#devnet/accounts.ts'
import { eventually } from '../support/eventually.ts'
import { openSettled, type SettledExchange } from '../support/settled.ts'

type Listed = { trades: { status: string }[] }
type Refusal = { code: string; message: string }

const FILLS = 6

describe('the exchange limits each trader’s settled fills and failed gas per day', () => {
  let s: SettledExchange
  before(async () => {
    s = await openSettled({
      environment: {
        SIBYL_SETTLEMENT_BATCH_WAIT_MS: '0',
        SIBYL_RISK_FILLS_PER_DAY: String(FILLS),
        SIBYL_RISK_FAILED_GAS_PER_DAY: '1',
      },
    })
  })
  after(() => s.dispose())

  const place = (account: number, side: 'buy' | 'sell', { price = '0.5', size = '1' } = {}) =>
    s.clientOf(account).orders.place({
      ...{ marketId: s.marketId, outcome: 'YES', price, size, ttlSeconds: 3_600 },
      side,
    } as never)

  /** Buys until an order is refused because the budget of the day is used up. */
  async function buyUntilRefused(account: number): Promise<Refusal> {
    for (let orders = 0; orders <= FILLS; orders++) {
      // An order may also be refused because unsettled fills could use the rest of the budget. The test retries such an
      // order.
      const refused = await eventually(async () => {
        try {
          await place(account, 'buy')
        } catch (error) {
          const refusal = error as Refusal
          assert.equal(refusal.code, 'GAS_BUDGET_SPENT', refusal.message)
          assert.match(refusal.message, /new orders are accepted from/)
          return refusal
        }
        return undefined
      })
      if (refused !== undefined) return refused
    }
    assert.fail('no order was refused')
  }

  const settled = async (): Promise<number> => {
    const { trades } = await s.get<Listed>(`/api/v1/trades/${s.marketId}`)
    return trades.filter(({ status }) => status === 'confirmed').length
  }

  it('if a taker has used up the daily fill limit, the exchange refuses only this taker’s orders', async () => {
    await place(11, 'sell', { size: '20' })
    const refusal = await buyUntilRefused(10)
    assert.match(refusal.message, /^the trader has used 6 of 6 settled fills today/)
    assert.equal(await settled(), FILLS)
    await place(11, 'buy', { price: '0.1' })
    await s.exchange.kill()
    await s.exchange.start()
    await eventually(async () => {
      await assert.rejects(place(10, 'buy', { price: '0.1' }), { code: 'GAS_BUDGET_SPENT' })
    })
    await place(11, 'buy', { price: '0.11' })
    const metrics = await (await fetch(`${s.exchange.url}/metrics`)).text()
    assert.match(metrics, /sibyl_settlement_budgets_spent\{[^}]*budget="fills"[^}]*\} 1/)
  })

  it('if a trader’s failed fills exceed the gas budget, the exchange cancels all the trader’s orders', async () => {
    const other = s.chain.demoMarkets[1]?.id as string
    const client = s.clientOf(13)
    const bid = { outcome: 'YES', price: '0.1', size: '1', ttlSeconds: 3_600, side: 'buy' }
    await client.orders.place({ ...bid, marketId: other } as never)
    await place(12, 'sell', { price: '0.3' })
    // In the next block, the buyer revokes the allowance before the settlement transaction runs. Until this block is
    // mined, a simulation of the settlement succeeds.
    await s.chain.automine(false)
    const { collateral, contracts } = s.chain
    await s.chain.chain.wallet(devnetAccount(13)).writeContract({
      ...{ address: collateral.address, abi: collateral.abi, functionName: 'approve' },
      ...{ args: [contracts.settlement, 0n], gas: 100_000n, maxFeePerGas: 10n ** 12n },
    } as never)
    await place(13, 'buy', { price: '0.3' })
    await eventually(async () => {
      const { trades } = await s.get<Listed>(`/api/v1/trades/${s.marketId}`)
      assert.equal(trades[0]?.status, 'submitted')
    })
    await s.chain.automine(true)
    await s.chain.mine()
    await eventually(async () => {
      assert.deepEqual(await client.orders.list(), [], 'the order in the other market has left')
    })
    await assert.rejects(client.orders.place({ ...bid, marketId: other } as never), {
      code: 'GAS_BUDGET_SPENT',
      message: /gas for fills that failed by the trader's fault today/,
    })
    await place(12, 'sell', { price: '0.9' })
  })
})
