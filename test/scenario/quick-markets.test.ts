/**
 * One quick market in real time on the local chain: it opens at its start time, trades before and after it is mined,
 * survives a kill of the exchange, ends, is resolved by its two prices, and pays its winners.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Client, createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import type { StreamQuickMarket } from '#client/stream-messages.ts'
import { devnetKey } from '#devnet/accounts.ts'
import type { QuickMarketMessage } from '#protocol/shapes/stream.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'

const INTERVAL_SEC = 6
const SHARES = 5_000_000n
/** Settlement, the report and redemptions each take a few blocks; a busy machine makes them slow. */
const PATIENCE_MS = 240_000

test('a quick market is opened, traded, resolved and redeemed', async (t) => {
  const exchange = await startExchange(t, {
    devnet: true,
    environment: { SIBYL_QUICK_INTERVAL_SECONDS: String(INTERVAL_SEC) },
  })
  const trader = (index: number): Client =>
    createClient({ url: exchange.url, signer: devnetKey(index) })
  let [ann, bob] = [trader(10), trader(11)]
  const stream = ann.stream()
  t.after(() => stream.close())
  const waiting: ((message: QuickMarketMessage) => void)[] = []
  const subscription = stream.quickMarket('BTC', (message) => {
    for (const tell of waiting.splice(0)) tell(message)
  })
  await subscription.ready
  const next = () => new Promise<QuickMarketMessage>((resolve) => waiting.push(resolve))
  async function opening(): Promise<StreamQuickMarket> {
    for (;;) {
      const message = await next()
      if (message.type === 'quick-market' && message.event === 'opened') return message.quickMarket
    }
  }

  const before = await balancesOf()
  const quick = await tradedMarket()
  // The exchange is killed while the market runs. The restarted one continues.
  stream.close()
  await exchange.kill()
  await exchange.start()
  ;[ann, bob] = [trader(10), trader(11)]
  const resolved = await eventually(async () => {
    const one = (await ann.quickMarkets.history('BTC')).find(({ id }) => id === quick.id)
    assert.ok(one?.resolved, `it is not decided yet: ${JSON.stringify(one)}`)
    return one
  }, PATIENCE_MS)
  const { marketId } = quick

  await t.test(
    'the prices of one source decide a quick market, and clients can read the evidence',
    async () => {
      assert.equal(resolved.startPrice, quick.startPrice)
      assert.equal(resolved.outcome, resolved.endPrice! >= resolved.startPrice ? 0 : 1)
      const evidence = await ann.quickMarkets.evidence('BTC', quick.id)
      assert.equal(evidence.decidedBy, quick.priceSource)
      assert.equal(evidence.start?.price, quick.startPrice)
      // If the sources disagree about the outcome, the market's end price can be a mean of several prices of the
      // deciding source.
      assert.equal(evidence.average?.price ?? evidence.end?.price, resolved.endPrice)
      assert.equal(evidence.start?.boundary, quick.startTime)
      assert.equal(evidence.end?.boundary, quick.endTime)
      assert.ok(evidence.start.timestamp >= quick.startTime * 1_000)
      assert.ok(evidence.end !== null && evidence.end.timestamp >= quick.endTime * 1_000)
      for (const { report, price } of [evidence.start, evidence.end]) {
        // The report of a usual provider has the price as an integer with eight decimals. The report of a fallback
        // provider has the price in dollars.
        const dollars = `"${(price / 1e8).toFixed(2)}`
        const isTold = report.includes(`"${price}"`) || report.includes(dollars)
        assert.ok(isTold, `${price} is in the report of its provider: ${report}`)
      }
      const listed = await ann.quickMarkets.history('btc')
      assert.deepEqual(
        listed.find(({ id }) => id === quick.id),
        resolved,
      )
      const starts = listed.map(({ startTime }) => startTime)
      assert.equal(new Set(starts).size, starts.length, 'one market for each interval')
    },
  )

  await t.test(
    'the trade of a quick market settles, the outcome is on chain, and the winners are paid',
    async () => {
      await eventually(async () => {
        const [trade] = await ann.trades(marketId)
        assert.equal(trade?.status, 'confirmed')
      }, PATIENCE_MS)
      const { contractAddress, reportTxHash } = await eventually(async () => {
        const evidence = await ann.quickMarkets.evidence('BTC', quick.id)
        assert.equal(evidence.onChain, 'reported')
        return evidence
      }, PATIENCE_MS)
      assert.match(reportTxHash, /^0x[0-9a-f]{64}$/)
      const market = { id: marketId, contractAddress }
      await eventually(async () =>
        assert.deepEqual(await ann.resolution.status(quick.marketId), {
          marketId: quick.marketId,
          expired: true,
          resolved: true,
          winningOutcome: resolved.outcome,
        }),
      )
      // Bob has only YES; if it lost, there is nothing to redeem.
      for (const client of resolved.outcome === 0 ? [ann, bob] : [ann]) {
        assert.equal((await client.relayer.ctfRedemption({ market })).success, true)
      }
      const wins = (yes: bigint, no: bigint) => (resolved.outcome === 0 ? yes : no)
      await eventually(async () => {
        const [annAfter, bobAfter] = await balancesOf()
        const price = SHARES / 2n
        // Ann split 2 × `SHARES` dollars into as many shares of each outcome, and sold `SHARES` of YES to Bob.
        assert.equal(annAfter - before[0], wins(SHARES, 2n * SHARES) - 2n * SHARES + price)
        assert.equal(bobAfter - before[1], wins(SHARES, 0n) - price)
      }, PATIENCE_MS)
    },
  )

  await t.test('prices are sent over the WebSocket and the event stream', async () => {
    const prices = ann.prices.stream('btc')
    const { value } = await prices.next()
    await prices.return(undefined)
    assert.equal(value?.asset, 'BTC')
    const metrics = await (await fetch(`${exchange.url}/metrics`)).text()
    assert.match(metrics, /^sibyl_quick_markets_total\{asset="BTC",event="resolved".*\} [1-9]/m)
    const ready = (await (await fetch(`${exchange.url}/readyz`)).json()) as { checks: object }
    assert.deepEqual((ready.checks as Record<string, unknown>)['price sources'], {
      ok: true,
      why: '',
      optional: true,
    })
  })

  async function balancesOf(): Promise<[bigint, bigint]> {
    const [a, b] = await Promise.all([ann.chain.balances(), bob.chain.balances()])
    return [a.stablecoin, b.stablecoin]
  }

  /**
   * Trades in the next market that opens, or in a later one if the machine was too slow. Skips markets with prices from
   * coinbase, which is used while the machine is too busy for the other sources. The history of coinbase has only whole
   * minutes, so after the kill, coinbase could not give the price at the market's end.
   */
  async function tradedMarket(): Promise<StreamQuickMarket> {
    for (;;) {
      const opened = await opening()
      if (opened.priceSource === 'coinbase') continue
      try {
        const { marketId } = opened
        const terms = { marketId, outcome: 'YES', ttlSeconds: 600 } as const
        // The order is placed at once, whether or not the market is mined yet.
        await ann.orders.place({ ...terms, side: 'buy', price: '0.01', size: '1' })
        await eventually(() => ann.chain.split(marketId, 2n * SHARES), PATIENCE_MS)
        const size = SHARES
        await ann.orders.place({ ...terms, side: 'sell', price: '0.5', size })
        const { matches } = await bob.orders.place({ ...terms, side: 'buy', price: '0.5', size })
        assert.equal(matches, 1)
        return opened
      } catch (error) {
        const isLate = error instanceof SibylError && error.code === 'MARKET_CLOSED'
        if (!isLate) throw error
        before.splice(0, 2, ...(await balancesOf()))
      }
    }
  }
})
