import assert from 'node:assert/strict'
import { it } from 'node:test'
import { type Address, type MarketId, tradeId } from '#domain/ids.ts'
import { ONE, type Price, type Shares, SIZE_MAX } from '#domain/money.ts'
import { NO, type Outcome, YES } from '#domain/order.ts'
import { auditTrades } from '#store/audit/audit-trades.ts'
import { type Database, sqlConnection } from '#store/engine/database.ts'
import { project } from '#store/projection/project.ts'
import type { TradeChange } from '#store/projection/rows.ts'
import { candles } from '#store/reads/candles.ts'
import { marketFigures } from '#store/reads/market-figures.ts'
import { chainStats, marketStats } from '#store/reads/stats.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { fillSums } from '../../support/fill-sums.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import { seedsOf } from '../../support/sample.ts'
import { address, batch, CHAIN, id, market, START_MS, trade, withStore } from '../batches.ts'

const m = id<MarketId>('m')
/** The start of the tests' hour. */
const HOUR_MS = START_MS - (START_MS % 3_600_000)
const HOUR = HOUR_MS / 1_000
const MINUTE_MS = 60_000

const sold = (seq: number, atMs: number, price: number, size = ONE, outcome: Outcome = YES) =>
  trade(seq, 0, {
    matchedAtMs: atMs,
    price: price as Price,
    size: size as Shares,
    outcome,
  })

const fails = (...seqs: number[]): TradeChange[] =>
  seqs.map((seq) => ({
    tradeId: tradeId(m, seq, 0),
    status: 'failed',
    txHash: '',
    reason: 'no funds',
    atMs: START_MS,
  }))

async function shape(database: Database, intervalSec = 60, outcome: Outcome = YES) {
  const fromSec = HOUR - 86_400
  const found = await candles(database, {
    marketId: m,
    outcome,
    intervalSec,
    fromSec: fromSec - (fromSec % intervalSec),
    toSec: HOUR + 86_400,
  })
  return found.map(({ startSec, open, high, low, close, volume, trades }) => [
    (startSec - HOUR) / 60,
    open,
    high,
    low,
    close,
    Number(volume),
    trades,
  ])
}

async function assertAudited(database: Database): Promise<void> {
  assert.deepEqual((await auditTrades(database)).differences, [])
}

await onBothDatabases('sums', (databases) => {
  it('a market’s volume counts matched trades, and no longer counts trades that fail', async () => {
    await withStore(databases, async (database) => {
      const nowMs = HOUR_MS + 30 * MINUTE_MS
      const stats = () => marketStats(database, { marketId: m, nowMs })
      assert.deepEqual(await stats(), {
        totalVolume: 0n,
        volume24h: 0n,
        totalTrades: 0,
        trades24h: 0,
        lastPrice: 0,
        lastOutcome: null,
        lastPrices: [0, 0],
        openInterest: 0n,
      })
      await project(
        database,
        batch(1, 2, {
          trades: [
            sold(2, HOUR_MS + 1, 400_000),
            // A millionth of a share at a price of 0.3 costs 0.3 units, which are rounded up to 1.
            sold(3, HOUR_MS + 2, 300_000, 1, NO),
            sold(4, HOUR_MS + MINUTE_MS, 500_000, 2 * ONE),
          ],
        }),
      )
      const three = { totalVolume: 1_400_001n, volume24h: 1_400_001n, totalTrades: 3 }
      assert.deepEqual(await stats(), {
        ...three,
        trades24h: 3,
        lastPrice: 500_000,
        lastOutcome: 0,
        lastPrices: [500_000, 300_000],
        openInterest: 0n,
      })
      await project(database, batch(2, 3, { tradeChanges: fails(4) }))
      assert.deepEqual(await stats(), {
        totalVolume: 400_001n,
        volume24h: 400_001n,
        totalTrades: 2,
        trades24h: 2,
        lastPrice: 300_000,
        lastOutcome: 1,
        lastPrices: [400_000, 300_000],
        openInterest: 0n,
      })
      // The last trade of each outcome fails. Trade 3 is from an earlier batch, and trade 5 is inserted by this batch.
      await project(
        database,
        batch(3, 4, { trades: [sold(5, HOUR_MS + MINUTE_MS, 990_000)], tradeChanges: fails(3, 5) }),
      )
      assert.equal((await stats()).lastPrice, 400_000)
      await project(database, batch(4, 5, { tradeChanges: fails(2) }))
      assert.deepEqual(await stats(), {
        totalVolume: 0n,
        volume24h: 0n,
        totalTrades: 0,
        trades24h: 0,
        lastPrice: 0,
        lastOutcome: null,
        lastPrices: [0, 0],
        openInterest: 0n,
      })
      await assertAudited(database)
    })
  })

  it('a market’s 24-hour figures include the current minute and the 1,440 minutes before it', async () => {
    await withStore(databases, async (database) => {
      await project(
        database,
        batch(1, 2, {
          trades: [
            sold(2, HOUR_MS, 100_000),
            sold(3, HOUR_MS + 30 * MINUTE_MS, 200_000),
            sold(4, HOUR_MS + 59 * MINUTE_MS + 59_999, 400_000),
            sold(5, HOUR_MS + 60 * MINUTE_MS, 800_000, ONE, NO),
          ],
        }),
      )
      const dayLater = async (ms: number) => {
        const nowMs = HOUR_MS + 86_400_000 + ms
        const { volume24h, trades24h } = await marketStats(database, { marketId: m, nowMs })
        const chain = await chainStats(database, { chainId: CHAIN, nowMs })
        assert.deepEqual([chain.volume24h, chain.trades24h], [volume24h, trades24h])
        assert.deepEqual(await chainStats(database, { nowMs }), chain)
        return volume24h
      }
      assert.equal(await dayLater(0), 1_500_000n)
      assert.equal(await dayLater(MINUTE_MS - 1), 1_500_000n)
      assert.equal(await dayLater(MINUTE_MS), 1_400_000n)
      assert.equal(await dayLater(31 * MINUTE_MS), 1_200_000n)
      assert.equal(await dayLater(60 * MINUTE_MS), 800_000n)
      assert.equal(await dayLater(61 * MINUTE_MS), 0n)
    })
  })

  it('the figures of many markets are returned together, with each market’s price 24 hours ago', async () => {
    await withStore(databases, async (database) => {
      const dayMs = 86_400_000
      const marketIds = [m, id<MarketId>('n'), id<MarketId>('never traded')]
      const figures = (nowMs: number) => marketFigures(database, { marketIds, nowMs })
      assert.deepEqual(await marketFigures(database, { marketIds: [], nowMs: HOUR_MS }), [])
      assert.deepEqual(await figures(HOUR_MS), [])
      await project(
        database,
        batch(1, 2, {
          markets: [{ market: market('n'), seq: 1, atMs: START_MS }],
          trades: [
            sold(2, HOUR_MS, 300_000),
            sold(3, HOUR_MS + 5 * MINUTE_MS, 400_000),
            sold(4, HOUR_MS + 61 * MINUTE_MS, 450_000, 2 * ONE),
            sold(5, HOUR_MS + 62 * MINUTE_MS, 700_000, ONE, NO),
            { ...sold(2, HOUR_MS + dayMs, 200_000), marketId: id<MarketId>('n') },
          ],
        }),
      )
      const nowMs = HOUR_MS + dayMs + 6 * MINUTE_MS
      const [ofM, ofN, ...more] = (await figures(nowMs)).sort((a, b) => b.trades24h - a.trades24h)
      assert.deepEqual(more, [])
      assert.deepEqual(ofM, {
        marketId: m,
        ...{ totalVolume: 2_300_000n, volume24h: 1_600_000n, trades24h: 2 },
        ...{ lastPrices: [450_000, 700_000], lastSeqs: [4, 5], pricesBefore: [400_000, 700_000] },
      })
      assert.deepEqual(ofN, {
        marketId: id<MarketId>('n'),
        ...{ totalVolume: 200_000n, volume24h: 200_000n, trades24h: 1 },
        ...{ lastPrices: [200_000, 0], lastSeqs: [2, 0], pricesBefore: [200_000, null] },
      })
      // At each of these minutes, `figures` (one call for all markets) must return the same values as `marketStats` for
      // each market.
      for (const minute of [0, 1, 4, 5, 6, 59, 60, 61, 62, 90]) {
        const atMs = HOUR_MS + dayMs + minute * MINUTE_MS
        for (const one of await figures(atMs)) {
          const stats = await marketStats(database, { marketId: one.marketId, nowMs: atMs })
          const { totalVolume, volume24h, trades24h, lastPrices } = one
          assert.deepEqual(
            { totalVolume, volume24h, trades24h, lastPrices },
            {
              ...{ totalVolume: stats.totalVolume, volume24h: stats.volume24h },
              ...{ trades24h: stats.trades24h, lastPrices: stats.lastPrices },
            },
            `minute ${minute}`,
          )
        }
      }
      await project(database, batch(2, 3, { tradeChanges: fails(3, 4, 5) }))
      const after = (await figures(nowMs)).find(({ marketId }) => marketId === m)
      assert.deepEqual(
        [after?.lastPrices, after?.lastSeqs, after?.pricesBefore, after?.volume24h],
        [[300_000, 0], [2, 0], [300_000, null], 0n],
      )
    })
  })

  it('a candle no longer includes the price of a trade that failed', async () => {
    await withStore(databases, async (database) => {
      const at = (minute: number, ms: number) => HOUR_MS + minute * MINUTE_MS + ms
      await project(
        database,
        batch(1, 2, {
          trades: [
            sold(2, at(0, 1), 500_000),
            sold(3, at(0, 2), 900_000),
            sold(4, at(0, 3), 100_000),
            sold(5, at(0, 4), 450_000),
            sold(6, at(0, 5), 600_000),
            sold(7, at(7, 0), 300_000, 3 * ONE),
            sold(8, at(61, 0), 700_000),
          ],
        }),
      )
      assert.deepEqual(await shape(database), [
        [0, 500_000, 900_000, 100_000, 600_000, 2_550_000, 5],
        [7, 300_000, 300_000, 300_000, 300_000, 900_000, 1],
        [61, 700_000, 700_000, 700_000, 700_000, 700_000, 1],
      ])
      assert.deepEqual(await shape(database, 300), [
        [0, 500_000, 900_000, 100_000, 600_000, 2_550_000, 5],
        [5, 300_000, 300_000, 300_000, 300_000, 900_000, 1],
        [60, 700_000, 700_000, 700_000, 700_000, 700_000, 1],
      ])
      assert.deepEqual(await shape(database, 3_600), [
        [0, 500_000, 900_000, 100_000, 300_000, 3_450_000, 6],
        [60, 700_000, 700_000, 700_000, 700_000, 700_000, 1],
      ])
      // Fails the trades in four steps: first a trade that set no price of the candle, then those with the highest and
      // the lowest price, then the first trade, then all others.
      await project(database, batch(2, 3, { tradeChanges: fails(5) }))
      assert.deepEqual(
        (await shape(database))[0],
        [0, 500_000, 900_000, 100_000, 600_000, 2_100_000, 4],
      )
      await project(database, batch(3, 4, { tradeChanges: fails(3, 4) }))
      assert.deepEqual(
        (await shape(database))[0],
        [0, 500_000, 600_000, 500_000, 600_000, 1_100_000, 2],
      )
      await project(database, batch(4, 5, { tradeChanges: fails(2) }))
      assert.deepEqual(await shape(database, 3_600), [
        [0, 600_000, 600_000, 300_000, 300_000, 1_500_000, 2],
        [60, 700_000, 700_000, 700_000, 700_000, 700_000, 1],
      ])
      await project(database, batch(5, 6, { tradeChanges: fails(6, 7, 8) }))
      for (const interval of [60, 300, 900, 3_600, 14_400, 86_400]) {
        assert.deepEqual(await shape(database, interval), [])
      }
      await assertAudited(database)
    })
  })

  it('volume figures above 64 bits are stored exactly', async () => {
    await withStore(databases, async (database) => {
      const trades = Array.from({ length: 1_500 }, (_, at) =>
        sold(at + 2, HOUR_MS + at, 999_999, SIZE_MAX),
      )
      await project(database, batch(1, 2, { trades }))
      const nowMs = HOUR_MS + MINUTE_MS
      const cost = (999_999n * BigInt(SIZE_MAX) + 999_999n) / 1_000_000n
      const { totalVolume, volume24h } = await marketStats(database, { marketId: m, nowMs })
      assert.equal(totalVolume, 1_500n * cost)
      assert.equal(volume24h, 1_500n * cost)
      assert(totalVolume > 2n ** 63n)
      assert.equal((await chainStats(database, { nowMs })).totalVolume, 1_500n * cost)
      await assertAudited(database)
    })
  })

  it('the statistics of a chain count each trader once, and count active and resolved markets', async () => {
    await withStore(databases, async (database) => {
      const atMs = START_MS
      await project(
        database,
        batch(1, 2, {
          markets: ['n', 'o', 'p'].map((name) => ({ market: market(name), seq: 1, atMs })),
          trades: [
            trade(2, 0),
            trade(3, 0, { buyer: address('bob'), seller: address('ann') }),
            trade(4, 0, { buyer: address('eve'), seller: address('eve') }),
          ],
          marketChanges: [
            { marketId: m, closed: 'expired', seq: 5, atMs },
            { marketId: id<MarketId>('n'), closed: 'expired', seq: 2, atMs },
            { marketId: id<MarketId>('n'), closed: 'resolved', seq: 3, atMs },
          ],
        }),
      )
      const counts = async (chainId?: number) => {
        const nowMs = START_MS
        const stats = await chainStats(
          database,
          chainId === undefined ? { nowMs } : { chainId, nowMs },
        )
        const { totalMarkets, activeMarkets, resolvedMarkets, totalTraders } = stats
        return [totalMarkets, activeMarkets, resolvedMarkets, totalTraders]
      }
      assert.deepEqual(await counts(CHAIN), [4, 2, 1, 3])
      await project(
        database,
        batch(2, 3, {
          markets: [{ market: market('far', { chainId: 137 }), seq: 1, atMs }],
          trades: [trade(2, 0, { marketId: id<MarketId>('far') })],
          marketChanges: [{ marketId: m, closed: 'resolved', seq: 6, atMs }],
        }),
      )
      assert.deepEqual(await counts(CHAIN), [4, 2, 2, 3])
      assert.deepEqual(await counts(137), [1, 1, 0, 2])
      assert.deepEqual(await counts(), [5, 3, 2, 5])
      assert.deepEqual(await counts(1), [0, 0, 0, 0])
      await assertAudited(database)
    })
  })

  it('market and chain figures agree with any history of trades, and the audit finds altered figures', async () => {
    for (const [at, seed] of seedsOf(1, 2, 3).entries()) {
      await withStore(databases, async (database) => {
        await randomFlow(database, randomFrom(seed))
        const audit = await auditTrades(database)
        assert.deepEqual(audit.differences, [], `seed ${seed}`)
        assert(audit.trades > 50 && audit.candles > 50)
        if (at > 0) return
        const connection = sqlConnection(database)
        const spoilt = async (statement: string, what: RegExp) => {
          await connection.execute(statement)
          const { differences } = await auditTrades(database)
          assert(
            differences.some((difference) => what.test(difference.what)),
            JSON.stringify(differences),
          )
        }
        await spoilt(
          'update market_stats set volume_millionths = volume_millionths + 1',
          /^volume of/,
        )
        await spoilt('update candles set high_e6 = high_e6 + 1 where span_sec = 60', /^candle/)
        await spoilt('update chain_stats set traders = traders + 1', /^traders/)
        await spoilt('update chain_spans set trades = trades + 1', /^span/)
        await spoilt('delete from candles', /^rows of candles/)
      })
    }
  })

  it('market and chain figures stay the same when they are recomputed from the trades', async () => {
    await withStore(databases, async (database) => {
      await randomFlow(database, randomFrom(4))
      const connection = sqlConnection(database)
      const before = await marketStats(database, { marketId: m, nowMs: HOUR_MS })
      for (const table of ['market_stats', 'candles', 'chain_spans', 'chain_stats', 'traders']) {
        await connection.execute(`delete from ${table}`)
      }
      assert.equal(await fillSums(database), true)
      assert.deepEqual(await marketStats(database, { marketId: m, nowMs: HOUR_MS }), before)
      await assertAudited(database)
    })
  })
})

/** Makes trades of two markets over three hours; some fail at once, soon or much later. */
async function randomFlow(database: Database, random: Random): Promise<void> {
  const atMs = START_MS
  await project(database, batch(1, 2, { markets: [{ market: market('n'), seq: 1, atMs }] }))
  const open: { tradeId: ReturnType<typeof tradeId> }[] = []
  let nowMs = HOUR_MS
  let seq = 2
  let fills = 0
  for (let offset = 2; offset < 40; offset++) {
    const trades = Array.from({ length: random.int(0, 12) }, () => {
      // A trade may be another fill of the previous event, with the same `seq` and time.
      if (random.chance(0.6)) {
        nowMs += random.int(0, 90_000)
        seq += 1
      }
      const marketId = random.pick([m, m, id<MarketId>('n')])
      return trade(seq, ++fills, {
        marketId,
        matchedAtMs: nowMs,
        outcome: random.pick([YES, NO]),
        price: random.int(1, 9) as Price,
        size: random.int(1, 20 * ONE) as Shares,
        buyer: address(`t${random.int(0, 30)}`) as Address,
        seller: address(`t${random.int(0, 30)}`) as Address,
      })
    })
    open.push(...trades)
    const failing = open.filter(() => random.chance(0.03))
    for (const one of failing) open.splice(open.indexOf(one), 1)
    await project(
      database,
      batch(offset, offset + 1, {
        trades,
        tradeChanges: failing.map((one) => ({
          tradeId: one.tradeId,
          status: 'failed',
          txHash: '',
          reason: '',
          atMs: nowMs,
        })),
      }),
    )
  }
}
