/**
 * Tests the trading figures in market lists: a front reads them from the database, and the board then adds
 * later trades.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { TRADES_LISTED_MAX } from '#domain/limits.ts'
import { makeBoard } from '#live/market-board.ts'
import { makeFiguresBook, type StoredFigures } from '#live/market-figures.ts'
import { viewOf } from '#services/market/market.ts'
import { given, MARKET_ID, START_SEC } from '../services/market/market-fixture.ts'
import { buy, sell } from '../support/orders.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

const DAY_MS = 86_400_000

function stored(more: Partial<StoredFigures> = {}): StoredFigures {
  return {
    marketId: MARKET_ID,
    totalVolume: 9_000_000n,
    volume24h: 5_000_000n,
    trades24h: 3,
    lastPrices: [400_000, 0],
    lastSeqs: [2, 0],
    pricesBefore: [350_000, null],
    ...more,
  }
}

/** Makes a market, a front that follows it, and a database controlled by the test. */
function fixture(options: { readonly restarted: boolean }) {
  const market = given()
  const clock = simulatedClock(START_SEC * 1_000)
  const asked: (readonly MarketId[])[] = []
  const database: { says: StoredFigures[] | Fault } = { says: [] }
  const board = makeBoard(
    { isWhole: () => true, isCurrent: () => true },
    {
      followed(_, event) {
        if (event.type === 'TradeFailed') figures.touched(event.marketId)
      },
      loaded: (shown, missed) => missed && figures.touched(shown.market.id),
      forgotten: (marketId) => figures.forgotten(marketId),
    },
  )
  const figures = makeFiguresBook({
    board: () => board,
    stored: async (marketIds) => {
      asked.push(marketIds)
      if (database.says instanceof Fault) throw database.says
      return database.says
    },
    clock,
  })
  let told = 0
  const flow = () => {
    assert(board.follow(market.events.slice(told)))
    told = market.events.length
  }
  let orders = 0
  /** One share changes hands. */
  const trade = (price: number, outcome: 'YES' | 'NO' = 'YES') => {
    orders++
    market.place(sell(outcome).at(price).size(1).by('ann').named(`s${orders}`))
    market.place(buy(outcome).at(price).size(1).by('bob').named(`b${orders}`))
    return `b${orders}`
  }
  if (options.restarted) {
    market.place(sell('YES').at(0.99).size(1).by('ann').named('before'))
    board.load(structuredClone(viewOf(market.state)))
    told = market.events.length
  } else flow()
  const now = async () => {
    flow()
    await figures.prepare([MARKET_ID])
    return figures.of(MARKET_ID)
  }
  return { market, clock, asked, database, board, figures, trade, now }
}

test('a front that has followed a market since its opening computes the market’s figures without a database read', async () => {
  const { market, asked, clock, trade, now } = fixture({ restarted: false })
  assert.deepEqual(await now(), {
    ...{ lastPrices: [0, 0], lastOutcome: null, priceChanges24h: [null, null] },
    ...{ volume24h: 0n, trades24h: 0, totalVolume: 0n },
  })
  trade(0.4)
  const failing = trade(0.45)
  trade(0.7, 'NO')
  assert.deepEqual(await now(), {
    ...{ lastPrices: [450_000, 700_000], lastOutcome: 1, priceChanges24h: [50_000, 0] },
    ...{ volume24h: 1_550_000n, trades24h: 3, totalVolume: 1_550_000n },
  })
  // A trade that the chain refuses is removed from the figures.
  market.report(failing, { status: 'failed', fault: 'buyer' })
  assert.deepEqual(await now(), {
    ...{ lastPrices: [400_000, 700_000], lastOutcome: 1, priceChanges24h: [0, 0] },
    ...{ volume24h: 1_100_000n, trades24h: 2, totalVolume: 1_100_000n },
  })
  // A day and a minute later, all earlier trades are older than 24 hours, so the 24-hour volume no longer counts them.
  // The 24-hour price change is now measured from the last price of these trades.
  clock.advance(DAY_MS + 60_000)
  market.at(DAY_MS / 1_000 + 60)
  trade(0.42)
  assert.deepEqual(await now(), {
    ...{ lastPrices: [420_000, 700_000], lastOutcome: 0, priceChanges24h: [20_000, 0] },
    ...{ volume24h: 420_000n, trades24h: 1, totalVolume: 1_520_000n },
  })
  assert.deepEqual(asked, [])
})

test('after a restart, a front reads a market’s figures once and updates them with each later trade', async () => {
  const { clock, asked, database, trade, now } = fixture({ restarted: true })
  database.says = [stored()]
  const before = await now()
  assert.deepEqual(before, {
    ...{ lastPrices: [400_000, 0], lastOutcome: 0, priceChanges24h: [50_000, null] },
    ...{ volume24h: 5_000_000n, trades24h: 3, totalVolume: 9_000_000n },
  })
  trade(0.45)
  trade(0.6, 'NO')
  const after = {
    ...{ lastPrices: [450_000, 600_000], lastOutcome: 1, priceChanges24h: [100_000, 0] },
    ...{ volume24h: 6_050_000n, trades24h: 5, totalVolume: 10_050_000n },
  } as const
  assert.deepEqual(await now(), after)
  assert.equal(asked.length, 1)
  // The database now has all trades, and agrees with the front's figures.
  database.says = [
    stored({
      ...{ totalVolume: 10_050_000n, volume24h: 6_050_000n, trades24h: 5 },
      ...{ lastPrices: [450_000, 600_000], lastSeqs: [4, 8], pricesBefore: [350_000, 600_000] },
    }),
  ]
  clock.advance(60_000)
  assert.deepEqual(await now(), after)
  assert.equal(asked.length, 2)
})

test('a front reads a market’s figures from the database again until they include the latest trades', async () => {
  const { market, clock, asked, database, trade, now } = fixture({ restarted: true })
  database.says = [stored()]
  await now()
  // The front read the figures less than a second ago, so it does not read them again yet.
  clock.advance(999)
  await now()
  assert.equal(asked.length, 1)
  clock.advance(1)
  await now()
  assert.equal(asked.length, 2)
  clock.advance(5_000)
  await now()
  clock.advance(5_000)
  await now()
  assert.equal(asked.length, 3, 'then it is believed')
  // More trades than the board holds.
  for (let count = 0; count <= TRADES_LISTED_MAX; count++) trade(0.5)
  await now()
  assert.equal(asked.length, 4)
  // The database now has all trades, so the front reads the figures once more and then stops. When a trade fails below,
  // the front reads them again.
  database.says = [stored({ lastSeqs: [1_000_000, 0] })]
  clock.advance(1_000)
  await now()
  clock.advance(1_000)
  await now()
  assert.equal(asked.length, 5)
  market.report('b1', { status: 'failed' })
  await now()
  clock.advance(1_000)
  await now()
  assert.equal(asked.length, 7)
})

test('while the database is unavailable, a front shows figures that it has read before and omits others', async () => {
  const { asked, database, trade, clock, figures, now } = fixture({ restarted: true })
  database.says = new Fault('gone', 'the database is away', { retryable: true })
  assert.equal(await now(), undefined)
  database.says = [stored()]
  await now()
  database.says = new Fault('gone', 'the database is away', { retryable: true })
  clock.advance(70_000)
  trade(0.9)
  assert.equal((await now())?.volume24h, 5_900_000n)
  assert.equal(asked.length, 3)
  database.says = new Fault('broken', 'it will not come back', { retryable: false })
  await assert.rejects(figures.prepare([MARKET_ID]), /will not come back/)
})

test('simultaneous requests for the figures of a page of markets share one database query', async () => {
  const { asked, figures } = fixture({ restarted: true })
  const page = Array.from(
    { length: 1_000 },
    (_, index) => `0x${index.toString(16).padStart(64, '0')}` as MarketId,
  )
  await Promise.all([figures.prepare(page), figures.prepare(page), figures.prepare(page.slice(5))])
  assert.deepEqual(
    asked.map((ids) => ids.length),
    [1_000],
  )
  assert.equal(figures.of(page[3]!)?.totalVolume, 0n)
})
