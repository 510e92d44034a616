/** Tests when the front answers reads of trades from its memory, and when it must read the database. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listTrades } from '#api/markets/list-trades.ts'
import { tradesPageJson } from '#api/markets/trade-pages.ts'
import type { Address, TradeId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { keepAnswers } from '#http/kept-answers.ts'
import { makeReadCache } from '#http/read-cache.ts'
import { isBefore, makeBoard, type ShownTrade } from '#live/market-board.ts'
import type { MarketView } from '#protocol/market.ts'
import { systemClock } from '#runtime/clock.ts'
import { marketNumbered } from '../support/seeded-markets.ts'

const market = marketNumbered(0x61)
const trader = `0x${'1'.repeat(40)}` as Address
const head = { marketId: market.id, atMs: 1_000 }
const opened = { ...head, type: 'MarketOpened', seq: 1, market } as MarketEvent
/** One large sell order. All buys in this test match it. */
const rested = {
  ...head,
  type: 'OrderRested',
  seq: 2,
  side: 1,
  outcome: 0,
  price: 500_000,
  added: 1_000,
} as unknown as MarketEvent
const idAt = (seq: number) => `${market.id}-${seq}-0` as TradeId

function matchedAt(seq: number): MarketEvent {
  const taker = { marketId: market.id, trader, side: 0, outcome: 0, price: 500_000, size: 1 }
  const fills = [{ maker: trader, makerHash: '0x', price: 500_000, size: 1 }]
  return { ...head, type: 'OrdersMatched', seq, taker, fills } as unknown as MarketEvent
}

function confirmedAt(seq: number, of: number): MarketEvent {
  return { ...head, type: 'TradeConfirmed', seq, tradeId: idAt(of), txHash: '0xaa' } as MarketEvent
}

const storedAt = (seq: number, status: ShownTrade['status'] = 'matched') =>
  ({
    tradeId: idAt(seq),
    marketId: market.id,
    seq,
    fillIndex: 0,
    outcome: 0,
    price: 500_000,
    size: 1,
    buyer: trader,
    seller: trader,
    takerSide: 0,
    matchedAtMs: 1_000,
    status,
    txHash: '',
  }) as unknown as ShownTrade

function fixture() {
  const board = makeBoard({ isWhole: () => true, isCurrent: () => true })
  let stored: ShownTrade[] = []
  let asked = 0
  const { handle } = listTrades({
    waiters: { until: () => undefined },
    board,
    kept: keepAnswers({ bytesMax: 1_000_000 }),
    over: makeReadCache({ keepMs: 0, entriesMax: 10, bytesMax: 1_000_000, clock: systemClock }),
    storedTrades: async (_marketId, limit, before) => {
      asked++
      const earlier = stored.toReversed().filter((trade) => isBefore(trade, before))
      return earlier.slice(0, limit)
    },
    earlierPage: async ({ list, marketId, limit, before }) => {
      asked++
      const earlier = stored.toReversed().filter((trade) => isBefore(trade, before))
      return tradesPageJson(list, marketId, earlier.slice(0, limit), limit)
    },
  })
  return {
    board,
    store: (...trades: ShownTrade[]) => {
      stored = trades
    },
    load: (seq: number) => {
      const asks = seq === 1 ? [] : [[500_000, 1_000n]]
      const sides = { bids: [[], []], asks: [asks, []] } as unknown as Pick<
        MarketView,
        'bids' | 'asks'
      >
      board.load({ market, seq, closed: undefined, updatedAtMs: 0, ...sides })
    },
    /** Lists trades. Returns the `seq` and status of each trade, and the number of database reads. */
    async list(query: { limit?: number; before?: string } = {}) {
      asked = 0
      const answer = await handle({ path: { marketId: market.id }, query } as never)
      const { raw } = answer as { raw: string | Uint8Array }
      const { trades } = JSON.parse(raw.toString()) as {
        trades: { seq: number; status: string }[]
      }
      return { trades: trades.map(({ seq, status }) => `${seq} ${status}`), asked }
    },
  }
}

test('a front that has followed a market since its opening lists the market’s trades without a database read', async () => {
  const live = fixture()
  live.board.follow([opened, rested, matchedAt(3), matchedAt(4)])
  assert.deepEqual(await live.list(), { trades: ['4 matched', '3 matched'], asked: 0 })

  const told = fixture()
  told.load(1)
  told.board.follow([rested, matchedAt(3)])
  assert.deepEqual(await told.list(), { trades: ['3 matched'], asked: 0 })
})

test('a front caches trades from the database only if they include all trades that the front knows', async () => {
  const { board, load, store, list } = fixture()
  load(9)
  store(storedAt(4), storedAt(7))
  assert.deepEqual(await list(), { trades: ['7 matched', '4 matched'], asked: 1 })
  // The front loaded the market at seq 9, but the newest stored trade had seq 7. Newer trades may not have been stored
  // yet, so the front did not cache the trades that it read. It reads the database again.
  store(storedAt(4), storedAt(7), storedAt(8))
  assert.deepEqual((await list()).trades, ['8 matched', '7 matched', '4 matched'])
  board.follow([matchedAt(10)])
  store(storedAt(4), storedAt(7), storedAt(8), storedAt(10))
  const all = ['10 matched', '8 matched', '7 matched', '4 matched']
  // Even if a client requests a small page, the front reads as many trades as it can cache.
  assert.deepEqual(await list({ limit: 2 }), { trades: all.slice(0, 2), asked: 1 })
  assert.deepEqual(await list(), { trades: all, asked: 0 })
  // From here on, the front updates the cached trades from events only.
  board.follow([confirmedAt(11, 7), matchedAt(12)])
  const after = ['12 matched', '10 matched', '8 matched', '7 confirmed', '4 matched']
  assert.deepEqual(await list(), { trades: after, asked: 0 })
})

test('if the database lacks a trade confirmation that a front already received, the front caches no database trades', async () => {
  const { board, load, store, list } = fixture()
  load(9)
  board.follow([matchedAt(10), confirmedAt(11, 7)])
  // The database has only events up to seq 10, so it lacks the confirmation at seq 11. Therefore the front does not
  // cache the trades that it reads.
  store(storedAt(7), storedAt(10))
  assert.equal((await list()).asked, 1)
  board.follow([matchedAt(12)])
  store(storedAt(7, 'confirmed'), storedAt(10), storedAt(12))
  assert.deepEqual(await list(), { trades: ['12 matched', '10 matched', '7 confirmed'], asked: 1 })
  assert.deepEqual(await list(), { trades: ['12 matched', '10 matched', '7 confirmed'], asked: 0 })
})

test('a front reads the trades of a market from the database if some are missing in memory', async () => {
  const { board, load, store, list } = fixture()
  board.follow([opened, rested, matchedAt(3)])
  load(20)
  store(storedAt(3), storedAt(15))
  assert.deepEqual(await list(), { trades: ['15 matched', '3 matched'], asked: 1 })

  const many = fixture()
  const matched = Array.from({ length: 130 }, (_, at) => matchedAt(at + 3))
  many.board.follow([opened, rested, ...matched])
  assert.equal((await many.list()).trades.length, 100)
  assert.equal(many.board.markets.get(market.id)?.hasAllTrades, false)
})

test('if a trade’s status is older in the database than at the front, the front’s status is returned', async () => {
  const { board, load, store, list } = fixture()
  load(9)
  board.follow([matchedAt(10), confirmedAt(11, 10), matchedAt(12)])
  // The database lags behind the confirmation.
  store(storedAt(4), storedAt(7), storedAt(10), storedAt(12))
  const held = ['10 confirmed', '7 matched', '4 matched']
  assert.deepEqual(await list({ before: idAt(12) }), { trades: held, asked: 1 })
  assert.deepEqual(await list({ before: idAt(10) }), { trades: held.slice(1), asked: 1 })
  assert.deepEqual(await list({ before: idAt(7), limit: 1 }), { trades: ['4 matched'], asked: 1 })
})

test('a late match event does not overwrite the newer trade state that was read from the database', async () => {
  const { board, load, store, list } = fixture()
  load(9)
  store(storedAt(4), storedAt(10, 'confirmed'))
  assert.deepEqual((await list()).trades, ['10 confirmed', '4 matched'])
  board.follow([matchedAt(10)])
  assert.deepEqual(await list(), { trades: ['10 confirmed', '4 matched'], asked: 0 })
  board.follow([confirmedAt(11, 4)])
  assert.deepEqual((await list()).trades, ['10 confirmed', '4 confirmed'])
})
