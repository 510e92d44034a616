import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Hex } from 'viem'
import { devnetAccount } from '#devnet/accounts.ts'
import { eventually } from '../support/eventually.ts'
import { openSettled, type SettledExchange, type Way } from '../support/settled.ts'

type Listed = { trades: (Way & { reason: string; attempts: number })[]; count: number }
type Settlement = { found: boolean; status: string; trades: string[]; blockNumber: number }

/** Repeats `ask` until it returns an answer, and returns this answer. */
function answered<T>(ask: () => Promise<T | undefined>): Promise<T> {
  return eventually(async () => {
    const answer = await ask()
    assert(answer !== undefined, 'there is no answer yet')
    return answer
  })
}

describe('the database announces new trades to settlement', () => {
  let s: SettledExchange
  before(async () => {
    s = await openSettled({
      environment: { SIBYL_SETTLEMENT_BATCH_WAIT_MS: '0', SIBYL_SETTLEMENT_POLL_MS: '60000' },
    })
  })
  after(() => s.dispose())

  it('a new trade is submitted within seconds, although settlement looks for trades only once a minute', async () => {
    const terms = { marketId: s.marketId, outcome: 'YES', price: '0.5', ttlSeconds: 3_600 }
    await s.clientOf(10).orders.place({ ...terms, side: 'sell', size: '1' } as never)
    await s.clientOf(11).orders.place({ ...terms, side: 'buy', size: '1' } as never)
    const matchedAtMs = performance.now()
    await eventually(async () => {
      const { trades } = await s.get<Listed>(`/api/v1/trades/${s.marketId}`)
      assert.notEqual(trades[0]?.status ?? 'matched', 'matched')
    })
    assert(performance.now() - matchedAtMs < 30_000, 'it waited for the next look')
  })
})

describe('the exchange settles trades and reports their states', () => {
  let s: SettledExchange
  before(async () => {
    s = await openSettled({
      environment: {
        SIBYL_SETTLEMENT_BATCH_WAIT_MS: '50',
        SIBYL_RISK_COOLDOWN_SECONDS: '300',
        SIBYL_RISK_MIN_NOTIONAL: '1000',
      },
    })
  })
  after(() => s.dispose())

  const terms = (size: string) =>
    ({ marketId: s.marketId, outcome: 'YES', price: '0.5', size, ttlSeconds: 3_600 }) as const
  const trade = async (seller: number, buyer: number, size: string): Promise<string> => {
    const sold = await s.clientOf(seller).orders.place({ ...terms(size), side: 'sell' })
    await s.clientOf(buyer).orders.place({ ...terms(size), side: 'buy' })
    return sold.orderHash
  }
  const newest = async (): Promise<Way> => {
    const { trades } = await s.get<Listed>(`/api/v1/trades/${s.marketId}`)
    const [first] = trades
    assert(first !== undefined)
    return first
  }

  /** Waits until the trader's shares at the exchange equal those on the chain. */
  const assertPosition = (account: number): Promise<void> =>
    eventually(async () => {
      const { address } = devnetAccount(account)
      const path = `/api/v1/positions/${s.marketId}?user=${address}`
      const { yesShares, noShares } = await s.get<{ yesShares: number; noShares: number }>(path)
      const { yes, no } = await s.holdings(account)
      assert.deepEqual([BigInt(yesShares), BigInt(noShares)], [yes, no])
    })

  it('a trade is listed as pending, and later as confirmed with the hash of its transaction', async () => {
    const before = [await s.holdings(10), await s.holdings(11)] as const
    await s.chain.automine(false)
    const orderHash = await trade(10, 11, '2')
    const pending = await answered(async () => {
      const { trades, count } = await s.get<Listed>('/api/v1/pending-trades')
      return count === 1 && trades[0]?.status === 'submitted' ? trades[0] : undefined
    })
    assert.equal(pending.attempts, 1)
    const open = await s.get<Settlement>(`/api/v1/settlements/${pending.txHash}`)
    assert.deepEqual([open.found, open.status], [true, 'submitted'])
    const cancel = () =>
      s.clientOf(10).orders.cancel({ orderHash, marketId: s.marketId, side: 'sell' })
    const { seq: _, ...cancelled } = await cancel()
    assert.deepEqual(cancelled, {
      ...{ status: 'cancelled', orderHash, pendingSize: 2_000_000 },
      marketId: s.marketId,
    })
    await assert.rejects(cancel(), { code: 'ORDER_CLOSED' })
    await s.chain.automine(true)
    await s.chain.mine()
    const confirmed = await answered(async () => {
      const found = await newest()
      return found.status === 'confirmed' ? found : undefined
    })
    const receipt = await s.chain.publicClient.getTransactionReceipt({
      hash: confirmed.txHash as Hex,
    })
    assert.equal(receipt.status, 'success')
    const settlement = await answered(async () => {
      const found = await s.get<Settlement>(`/api/v1/settlements/${confirmed.txHash}`)
      return found.status === 'confirmed' ? found : undefined
    })
    assert.deepEqual(settlement.trades, [confirmed.tradeId])
    assert.equal(settlement.blockNumber, Number(receipt.blockNumber))
    await eventually(async () =>
      assert.equal((await s.get<Listed>('/api/v1/pending-trades')).count, 0),
    )
    const after = [await s.holdings(10), await s.holdings(11)] as const
    assert.equal(after[0].yes, before[0].yes - 2_000_000n)
    assert.equal(after[1].yes, before[1].yes + 2_000_000n)
    assert.equal(after[0].usdc, before[0].usdc + 1_000_000n)
    assert.equal(after[1].usdc, before[1].usdc - 1_000_000n)
    for (const account of [10, 11]) await assertPosition(account)
  })

  it('an unfunded trade is listed as failed with a reason, and its quantity returns to the seller’s order', async () => {
    // Account 6 has no stablecoin.
    await trade(12, 6, '3')
    const failed = await answered(async () => {
      const { trades } = await s.get<Listed>('/api/v1/failed-trades')
      return trades[0]
    })
    assert.equal(failed.reason, 'InsufficientCollateral')
    assert.deepEqual([failed.txHash, failed.attempts], ['', 0], 'without a transaction')
    const { address } = devnetAccount(12)
    const open = await s.get<{ orders: { remainingSize: number }[] }>(
      `/api/v1/orders?trader=${address}`,
    )
    assert.deepEqual(
      open.orders.map(({ remainingSize }) => remainingSize),
      [3_000_000],
    )
  })

  it('while a trader is paused for causing a failed trade, the exchange refuses the trader’s orders', async () => {
    const { orders } = s.clientOf(6)
    const signed = await orders.sign({ ...terms('1'), side: 'buy' })
    const refused = await fetch(`${s.exchange.url}/api/v1/orders`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(signed),
    })
    const body = (await refused.json()) as { code: string; field: string; error: string }
    assert.deepEqual(
      [refused.status, body.code, body.field],
      [429, 'TRADER_PAUSED', 'order.trader'],
    )
    const leftSec = Number(refused.headers.get('retry-after'))
    assert(leftSec > 60 && leftSec <= 300, String(leftSec))
    assert.match(body.error, new RegExp(`for ${leftSec} more seconds`))
    const { errors } = await orders.validate(signed)
    assert.deepEqual(
      errors.map(({ code }) => code),
      ['TRADER_PAUSED'],
    )
    await assert.rejects(s.clientOf(12).orders.place({ ...terms('0.001'), side: 'buy' }), {
      code: 'NOTIONAL_TOO_SMALL',
      field: 'order.size',
    })
  })

  it('a read of an unknown settlement transaction gets a 404, and a malformed hash gets a 400', async () => {
    assert.deepEqual(await s.get(`/api/v1/settlements/0x${'1'.repeat(64)}`), { found: false })
    const bad = await fetch(`${s.exchange.url}/api/v1/settlements/0x12`)
    assert.equal(bad.status, 400)
    assert.equal(((await bad.json()) as { field: string }).field, 'txHash')
  })

  it('the settlement metrics count batches, gas, outcomes and reasons', async () => {
    // The metrics omit a thread that is too busy to answer in time, so the test reads them repeatedly.
    await eventually(async () => {
      const metrics = await (await fetch(`${s.exchange.url}/metrics`)).text()
      for (const line of [
        /sibyl_settlement_trades_total\{.*status="confirmed".*\} 1/,
        /sibyl_settlement_failures_total\{.*reason="InsufficientCollateral".*fault="buyer".*\} 1/,
        /sibyl_settlement_failed_gas_total\{.*\} 0/,
        /sibyl_settlement_batch_trades_count\{.*\} 1/,
        /sibyl_settlement_gas_per_trade_count\{.*\} 1/,
        /sibyl_settlement_queued_trades\{.*\} 0/,
        /sibyl_settlement_oldest_seconds\{.*\} 0/,
      ]) {
        assert.match(metrics, line)
      }
    })
  })
})
