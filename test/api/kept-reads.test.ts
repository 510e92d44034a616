/**
 * Tests a front's cache of encoded first pages. A cached page always equals a newly made page, and the size of the
 * cache is limited.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { getMarket } from '#api/markets/list-markets.ts'
import { listActivity, listTrades } from '#api/markets/list-trades.ts'
import { checksumAddress } from '#domain/checksum-address.ts'
import type { Address, TradeId } from '#domain/ids.ts'
import { ACTIVITY_LISTED_MAX, TRADES_LISTED_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { tradesOf } from '#domain/match-trades.ts'
import { isRejection } from '#domain/rejection.ts'
import { keepAnswers } from '#http/kept-answers.ts'
import { makeReadCache } from '#http/read-cache.ts'
import type { AnswerRoute, RawReply } from '#http/route.ts'
import { makeBoard, type ShownTrade } from '#live/market-board.ts'
import { makeMarketEvents } from '#live/market-events.ts'
import { makeFiguresBook } from '#live/market-figures.ts'
import { makeMarketFinder } from '#live/market-finder.ts'
import type { MarketView } from '#protocol/market.ts'
import { type Random, randomFrom } from '../support/random.ts'
import { seedsOf } from '../support/sample.ts'
import { marketNumbered } from '../support/seeded-markets.ts'
import { simulatedClock } from '../support/simulated-clock.ts'

const STEPS = 150
const START_MS = 1_800_000_000_000
const ASKED = 1_000_000_000
const market = marketNumbered(0x62)
const traders = ['1', 'a', 'f'].map((digit) => `0x${digit.repeat(40)}` as Address)

/** Makes a simple model of the trade list. The model derives every trade from the market's events. */
function newLedger() {
  const trades = new Map<TradeId, ShownTrade>()
  return {
    trades,
    take(event: MarketEvent): void {
      if (event.type === 'OrdersMatched') {
        for (const trade of tradesOf(event)) {
          trades.set(trade.tradeId, { ...trade, status: 'matched', txHash: '' })
        }
      } else if (event.type === 'TradeSubmitted' || event.type === 'TradeConfirmed') {
        const status = event.type === 'TradeSubmitted' ? 'submitted' : 'confirmed'
        const trade = trades.get(event.tradeId)!
        trades.set(event.tradeId, { ...trade, status, txHash: event.txHash })
      } else if (event.type === 'TradeFailed') {
        trades.set(event.tradeId, { ...trades.get(event.tradeId)!, status: 'failed' })
      }
    },
    newest: (limit: number) => [...trades.values()].toReversed().slice(0, limit),
  }
}

/** The list as the API describes it. */
function expected(name: 'trades' | 'activity', trades: readonly ShownTrade[], limit: number) {
  const list = trades.map((trade) => ({
    tradeId: trade.tradeId,
    price: trade.price,
    size: trade.size,
    buyer: checksumAddress(trade.buyer),
    seller: checksumAddress(trade.seller),
    outcome: trade.outcome,
    timestamp: Math.floor(trade.matchedAtMs / 1_000),
    txHash: trade.txHash,
    status: trade.status,
    seq: trade.seq,
    ...(name === 'activity' ? { takerSide: trade.takerSide } : {}),
  }))
  const nextBefore = trades.length < limit ? null : trades.at(-1)!.tradeId
  return JSON.stringify({ marketId: market.id, [name]: list, count: list.length, nextBefore })
}

/** Makes a front with one market and its database. Each route exists twice: with and without a cache. */
function fixture() {
  const clock = simulatedClock(START_MS)
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
  const figures = makeFiguresBook({ board: () => board, stored: async () => [], clock })
  const told = newLedger()
  const stored = newLedger()
  const behind: MarketEvent[] = []
  let seq = 0
  let asked = 0

  function routes(bytesMax: number) {
    const kept = keepAnswers({ bytesMax })
    const over = makeReadCache({ keepMs: 0, entriesMax: 10, bytesMax: 1_000_000, clock })
    const waiters = { until: () => undefined }
    const sources = {
      ...{ board, waiters, kept, over },
      async storedTrades(_: unknown, limit: number) {
        asked++
        return stored.newest(limit)
      },
      earlierPage: async () => assert.fail('only first pages are read here'),
    }
    const find = makeMarketFinder({
      board,
      storedMarket: async () => ({ ...market, closeReason: null }),
    })
    const marketEvents = makeMarketEvents(async () => [])
    return {
      kept,
      trades: listTrades(sources),
      activity: listActivity(sources),
      market: getMarket({ ...{ board, find, waiters, figures, kept, over }, marketEvents }),
    }
  }

  function say(event: object): void {
    seq++
    const whole = { marketId: market.id, atMs: clock.nowMs(), seq, ...event } as MarketEvent
    assert(board.follow([whole]))
    told.take(whole)
    behind.push(whole)
  }

  return {
    ...{ board, clock, told, say },
    keeping: routes(1_000_000),
    plain: routes(0),
    asked: () => asked,
    isAbreast: () => behind.length === 0,
    project(count: number): void {
      for (const event of behind.splice(0, count)) stored.take(event)
    },
    /** Loads the market again, as after a restart of the front. */
    reload(): void {
      board.forget([market.id])
      const sides = { bids: [[], []], asks: [[[500_000, BigInt(ASKED)]], []] }
      const view = { market, seq, closed: undefined, updatedAtMs: clock.nowMs(), ...sides }
      board.load(view as unknown as MarketView)
    },
    match(random: Random): void {
      const trader = random.pick(traders)
      const taker = { marketId: market.id, trader, side: 0, outcome: 0, price: 500_000, size: 9 }
      const fills = Array.from({ length: random.int(1, 3) }, () => ({
        ...{ maker: random.pick(traders), makerHash: '0x', price: 500_000, size: 1 },
      }))
      say({ type: 'OrdersMatched', taker, fills })
    },
    settle(random: Random): void {
      const open = [...told.trades.values()].filter(
        ({ status }) => status === 'matched' || status === 'submitted',
      )
      if (open.length === 0) return
      const { tradeId } = random.pick(open.slice(-150))
      const type = random.pick(['TradeSubmitted', 'TradeConfirmed', 'TradeFailed'] as const)
      say({ type, tradeId, txHash: type === 'TradeFailed' ? '' : random.hex(32) })
    },
  }
}

async function ask(route: AnswerRoute, query: { limit?: number; minSeq?: number } = {}) {
  const answer = await route.handle({ path: { marketId: market.id }, query } as never)
  assert(!isRejection(answer) && 'raw' in answer, JSON.stringify(answer))
  return answer as RawReply
}

const text = ({ raw }: RawReply): string => Buffer.from(raw as string).toString()

async function compare(front: ReturnType<typeof fixture>, random: Random): Promise<void> {
  const { keeping, plain, board, told } = front
  const limit = random.pick([1, 7, 50, 100])
  for (const name of ['trades', 'activity'] as const) {
    const most = name === 'trades' ? TRADES_LISTED_MAX : ACTIVITY_LISTED_MAX
    const kept = text(await ask(keeping[name], { limit }))
    assert.equal(kept, text(await ask(plain[name], { limit })), `${name}, ${limit}`)
    const shown = board.markets.get(market.id)!
    const isWhole = front.isAbreast() || shown.hasAllTrades || shown.trades.size >= limit
    const all = told.newest(Math.min(limit, most))
    if (isWhole) assert.equal(kept, expected(name, all, Math.min(limit, most)), `${name}, ${limit}`)
  }
  const kept = text(await ask(keeping.market))
  assert.equal(kept, text(await ask(plain.market)))
  assert.equal(JSON.parse(kept).seq, board.markets.get(market.id)?.seq)
}

async function live(random: Random): Promise<void> {
  const front = fixture()
  front.say({ type: 'MarketOpened', market })
  const rested = { type: 'OrderRested', side: 1, outcome: 0, price: 500_000, added: ASKED }
  front.say(rested)
  for (let step = 0; step < STEPS; step++) {
    const what = random.next()
    if (what < 0.35) front.match(random)
    else if (what < 0.65) front.settle(random)
    else if (what < 0.7) front.say({ ...rested, price: random.int(500_001, 900_000), added: 5 })
    else if (what < 0.95) front.project(random.int(0, 40))
    else if (what < 0.98) front.clock.advance(random.int(1, 90_000))
    else front.reload()
    await compare(front, random)
  }
}

test('after every change of a market, a cached answer about the market equals a newly generated one', async () => {
  for (const seed of seedsOf(1, 2, 3, 4, 5, 6)) {
    await live(randomFrom(seed)).catch((error: Error) => {
      error.message = `TEST_SEED=${seed}: ${error.message}`
      throw error
    })
  }
})

test('a market’s trade list keeps its bytes and its ETag until a trade is added or changes', async () => {
  const { say, match, settle, keeping, asked } = fixture()
  say({ type: 'MarketOpened', market })
  say({ type: 'OrderRested', side: 1, outcome: 0, price: 500_000, added: ASKED })
  match(randomFrom(1))
  const first = await ask(keeping.trades)
  assert.equal(first.headers?.etag, 'W/"3-100"')
  say({ type: 'OrderRested', side: 1, outcome: 0, price: 510_000, added: 1 })
  assert.equal(await ask(keeping.trades), first)
  settle(randomFrom(2))
  const second = await ask(keeping.trades)
  assert.equal(second.headers?.etag, 'W/"5-100"')
  assert.notEqual(text(second), text(first))
  assert.equal((await ask(keeping.trades, { limit: 1 })).headers?.etag, 'W/"5-1"')
  assert.equal(asked(), 0)
})

test('a change of a market discards the cached answer about this market', async () => {
  const { say, keeping } = fixture()
  say({ type: 'MarketOpened', market })
  const first = await ask(keeping.market)
  assert.equal(await ask(keeping.market), first)
  say({ type: 'OrderRested', side: 1, outcome: 0, price: 510_000, added: 1 })
  const second = await ask(keeping.market)
  assert.equal(JSON.parse(text(second)).bestAskPrice, 510_000)
  assert.notEqual(second.headers?.etag, first.headers?.etag)
})

test('a front caches an unknown market’s empty trade list only while it follows every market thread', async () => {
  const clock = simulatedClock(START_MS)
  let isCurrent = true
  let asked = 0
  const board = makeBoard({ isWhole: () => true, isCurrent: () => isCurrent })
  const route = listTrades({
    ...{ board, waiters: { until: () => undefined }, kept: keepAnswers({ bytesMax: 1_000_000 }) },
    over: makeReadCache({ keepMs: 1_000, entriesMax: 10, bytesMax: 1_000_000, clock }),
    async storedTrades() {
      asked++
      return []
    },
    earlierPage: async () => assert.fail('only first pages are read here'),
  })
  const asks = async () => {
    asked = 0
    await ask(route)
    return asked
  }
  assert.deepEqual([await asks(), await asks()], [1, 0])
  clock.advance(1_000)
  assert.deepEqual([await asks(), await asks()], [1, 0])
  // The front no longer follows every market thread, so the market may be on a thread that the front does not follow.
  // Therefore each request reads the database.
  isCurrent = false
  assert.deepEqual([await asks(), await asks()], [1, 1])
  isCurrent = true
  // The front loads the market and then forgets it. After that, the front must not use reads that it cached earlier, so
  // the next request reads the database.
  const head = { marketId: market.id, atMs: START_MS }
  board.follow([{ ...head, type: 'MarketOpened', seq: 1, market } as MarketEvent])
  assert.equal(await asks(), 0)
  board.forget([market.id])
  assert.deepEqual([await asks(), await asks()], [1, 0])
})

test('cached answers stay within their byte limit, and the least recently used is evicted first', () => {
  const kept = keepAnswers({ bytesMax: 3_000 })
  const body = 'x'.repeat(600)
  for (const name of ['a', 'b', 'c']) kept.keep(name, 1, body)
  assert(kept.bytes <= 3_000)
  assert.equal(kept.find('a', 1)?.raw.length, 600)
  kept.keep('d', 1, body)
  assert(kept.bytes <= 3_000)
  assert.equal(kept.find('b', 1), undefined)
  assert.equal(kept.find('a', 1)?.raw.length, 600)
  // The entry was stored with version 1. A look-up with version 2 finds nothing and drops the entry.
  const before = kept.bytes
  assert.equal(kept.find('a', 2), undefined)
  assert(kept.bytes < before)
  assert.equal(kept.find('a', 1), undefined)
  kept.keep('large', 1, 'x'.repeat(4_000))
  assert.equal(kept.find('large', 1), undefined)
  for (let count = 0; count < 100; count++) kept.keep(`n${count % 7}`, count, body)
  assert(kept.bytes <= 3_000)
})
