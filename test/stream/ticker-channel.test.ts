/** The ticker channel: one message with the current state of several markets, at most twice a second. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketId } from '#domain/ids.ts'
import { EVENT_MARKETS_MAX, TICKERS_PER_MESSAGE_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { makeBoard } from '#live/market-board.ts'
import { makeFiguresBook, type StoredFigures } from '#live/market-figures.ts'
import type { Feed, TickerFeed } from '#stream/feeds.ts'
import { makeTickerChannel } from '#stream/ticker-channel.ts'
import { TICKER_MS } from '#stream/ticker-updates.ts'
import { makeTopicRegistry } from '#stream/topic-registry.ts'
import { aMarket, START_SEC } from '../services/market/market-fixture.ts'
import { buy, sell } from '../support/orders.ts'
import { simulatedClock } from '../support/simulated-clock.ts'
import { marketIdOf, startStream } from './stream-fixture.ts'

type Told = {
  readonly type: string
  readonly tickers: readonly { readonly marketId: string; readonly status: string }[]
  readonly count?: number
  readonly cursor: string
  readonly prevCursor?: string
}

/** Runs the callbacks of all settled promises. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

function fixture(stored: () => Promise<StoredFigures[]> = async () => []) {
  const clock = simulatedClock(START_SEC * 1_000)
  const published: Told[] = []
  const flushed: Feed<object>[] = []
  const registry = makeTopicRegistry<object>({
    limits: {
      ...{ replayMessages: 10, replayBytes: 10 ** 7, replayBytesTotal: 10 ** 7 },
      ...{ lingerMs: 1, lingeringMax: 1 },
    },
    clock,
    publish: (_, text) => void published.push(JSON.parse(text)),
    forgotten: (feed) => channel.forget(feed as TickerFeed<object>),
  })
  const board = makeBoard(
    { isWhole: () => true, isCurrent: () => true },
    {
      followed: (_, { marketId }) => channel.changed(marketId),
      loaded() {},
      forgotten: (marketId) => channel.forgotten(marketId),
    },
  )
  const figures = makeFiguresBook({ board: () => board, stored, clock })
  const channel = makeTickerChannel<object>({
    ...{ registry, board: () => board, figures, clock },
    flushed: (feed) => void flushed.push(feed),
  })
  const nth = (n: number) => `0x${n.toString(16).padStart(64, '0')}` as MarketId
  const open = (n: number) => {
    const market = aMarket({ id: nth(n), createdAt: START_SEC + n })
    board.follow([{ type: 'MarketOpened', marketId: nth(n), seq: 1, atMs: 1, market }])
  }
  const rest = (n: number, price: number, added = 5): void => {
    const seq = (board.markets.get(nth(n))?.seq ?? 0) + 1
    const { orderHash, trader, ...order } = buy('YES').named(`o${n}-${seq}`).fields
    const event = { ...order, orderHash, trader, price, added, remaining: added, size: added }
    board.follow([{ type: 'OrderRested', marketId: nth(n), seq, atMs: 1, ...event } as MarketEvent])
  }
  const take = (n: number, price: number): void => {
    const seq = (board.markets.get(nth(n))?.seq ?? 0) + 1
    const { orderHash, trader, ...order } = buy('YES').named(`o${n}`).fields
    const event = { ...order, orderHash, trader, price, size: 5, remaining: 5, reason: 'cancelled' }
    board.follow([
      { type: 'OrderClosed', marketId: nth(n), seq, atMs: 1, ...event } as unknown as MarketEvent,
    ])
  }
  const turn = async () => {
    clock.advance(TICKER_MS)
    await settled()
    return published.splice(0)
  }
  const feed = (ids?: readonly number[]): TickerFeed<object> => {
    const made = channel.feedOf(ids?.map(nth))
    assert('topic' in made, JSON.stringify(made))
    registry.join(made, {})
    return made
  }
  const snapshot = async (of: TickerFeed<object>): Promise<Told> => {
    const text = channel.snapshot(of, false)
    if (text !== undefined) return JSON.parse(text)
    await settled()
    return JSON.parse(channel.snapshot(of, false) ?? '')
  }
  return { clock, registry, board, channel, nth, open, rest, take, turn, feed, snapshot, flushed }
}

test('a subscriber of all tickers gets the newest open markets at once, then changes at intervals', async () => {
  const { board, channel, nth, open, rest, take, turn, feed, snapshot, flushed } = fixture()
  const many = TICKERS_PER_MESSAGE_MAX + 20
  for (let n = 1; n <= many; n++) open(n)
  board.follow([{ type: 'MarketClosed', marketId: nth(many), seq: 2, atMs: 1, reason: 'expired' }])
  const all = feed()
  assert.equal(channel.snapshot(all, false), undefined, 'the figures are asked for first')
  await settled()
  assert.deepEqual(flushed, [all])
  const first = await snapshot(all)
  assert.equal(first.type, 'ticker.snapshot')
  assert.equal(first.count, many - 1)
  assert.equal(first.tickers.length, TICKERS_PER_MESSAGE_MAX)
  assert.deepEqual([first.tickers[0]?.marketId, first.tickers[1]?.marketId], [nth(519), nth(518)])

  // Many changes of two markets give one message with a line for each market.
  for (let price = 1; price <= 50; price++) {
    rest(3, price)
    rest(7, price)
  }
  const [news, ...more] = await turn()
  assert.deepEqual(more, [])
  assert.deepEqual(
    news?.tickers.map((ticker) => [ticker.marketId, Reflect.get(ticker, 'bestBidPrices')]),
    [3, 7].map((n) => [nth(n), [50, 0]]),
  )
  assert.equal(news?.prevCursor, first.cursor)
  // A bid below the best bid does not change the market's ticker line, so no message is sent. If a line changes and
  // returns to its last sent state, no message is sent either.
  rest(3, 49)
  rest(7, 60)
  take(7, 60)
  assert.deepEqual(await turn(), [])
  // Changes beyond the maximum number of lines in a message are sent with the next message.
  for (let n = 1; n < many; n++) rest(n, 900)
  const sizes = [(await turn())[0]?.tickers.length, (await turn())[0]?.tickers.length]
  assert.deepEqual(sizes, [TICKERS_PER_MESSAGE_MAX, 19])
  assert.deepEqual(await turn(), [])

  open(many + 1)
  board.follow([{ type: 'MarketClosed', marketId: nth(5), seq: 3, atMs: 1, reason: 'expired' }])
  const [last] = await turn()
  assert.deepEqual(
    last?.tickers.map(({ marketId, status }) => [marketId, status]),
    [
      [nth(many + 1), 'open'],
      [nth(5), 'expired'],
    ],
  )
})

test('a subscriber of some tickers gets only changes of those markets, and other changes cause no work', async () => {
  const { clock, registry, channel, nth, open, rest, turn, feed, snapshot } = fixture()
  for (let n = 1; n <= 3; n++) open(n)
  assert.equal(clock.pending, 0, 'nobody follows')
  const two = feed([2, 1, 2])
  assert.equal(feed([1, 2]), two, 'the same markets in any order are one topic')
  const [first, second] = (await snapshot(two)).tickers
  assert.deepEqual([first?.marketId, second?.marketId], [nth(1), nth(2)])
  rest(3, 10)
  assert.equal(clock.pending, 0)
  rest(2, 10)
  const [news] = await turn()
  assert.deepEqual(
    news?.tickers.map(({ marketId }) => marketId),
    [nth(2)],
  )
  const refused = channel.feedOf([nth(1), nth(9)])
  assert(!('topic' in refused))
  assert.deepEqual([refused.rejected, refused.field], ['MARKET_NOT_FOUND', 'marketIds'])
  for (const member of two.topic.members) registry.leave(two, member)
  clock.advance(10)
  registry.tidy()
  rest(2, 20)
  assert.equal(clock.pending, 0)
})

test('if a ticker returns to its last sent value after a new snapshot, the change is still sent', async () => {
  const { open, rest, take, turn, feed, snapshot } = fixture()
  open(1)
  const all = feed()
  rest(1, 10)
  await turn()
  rest(1, 20)
  // The snapshot shows a best bid of 20. The bid then returns to 10, which was the last price sent. It must still be
  // sent, because the client with the snapshot has 20.
  assert.deepEqual(Reflect.get((await snapshot(all)).tickers[0] ?? {}, 'bestBidPrices'), [20, 0])
  take(1, 20)
  const [news] = await turn()
  assert.deepEqual(Reflect.get(news?.tickers[0] ?? {}, 'bestBidPrices'), [10, 0])
})

test('a database that does not answer delays ticker prices by three seconds at most', async () => {
  const { clock, board, nth, open, turn, feed } = fixture(() => new Promise(() => undefined))
  open(1)
  feed()
  const market = aMarket({ id: nth(2) })
  const sides = [[], []] as const
  const view = { market, seq: 2, closed: undefined, updatedAtMs: 1 }
  board.load({ ...view, bids: [[[10, 5n]], []], asks: sides })
  const rested = { ...buy('YES').named('o').fields, price: 20, added: 5, remaining: 5, size: 5 }
  board.follow([
    { type: 'OrderRested', marketId: nth(2), seq: 3, atMs: 1, ...rested } as MarketEvent,
  ])
  assert.deepEqual(await turn(), [], 'it is waited for')
  clock.advance(3_000)
  await settled()
  const [news] = await turn()
  const line = news?.tickers.find(({ marketId }) => marketId === nth(2))
  assert.deepEqual(Reflect.get(line ?? {}, 'bestBidPrices'), [20, 0])
  assert.equal(Reflect.get(line ?? {}, 'volume24h'), null)
})

test('a ticker subscription combines stored figures with the live book and later trades of a market', async (t) => {
  const asked: PromiseWithResolvers<StoredFigures[]>[] = []
  const stream = await startStream(t, {
    markets: 2,
    stored: () => {
      asked.push(Promise.withResolvers())
      return asked.at(-1)!.promise
    },
  })
  const [market] = stream.markets
  const M = marketIdOf(0)
  market!.place(sell('YES').at(0.5).size(2).by('ann').named('a'))
  // Simulates a restart of the front, which then does not know earlier trades.
  stream.lose()
  const client = await stream.connect()
  client.say({ op: 'subscribe', channel: 'ticker', marketIds: [M.toUpperCase().replace('X', 'x')] })
  while (asked.length === 0) await settled()
  asked[0]?.resolve([
    {
      ...{ marketId: M, totalVolume: 7n, volume24h: 5n, trades24h: 1 },
      ...{ lastPrices: [400_000, 0], lastSeqs: [1, 0], pricesBefore: [450_000, null] },
    },
  ])
  const { sub } = await client.next('subscribed')
  const snapshot = await client.next('ticker.snapshot')
  assert.deepEqual([snapshot.sub, snapshot.count], [sub, 1])
  assert.deepEqual(snapshot.tickers, [
    {
      ...{ marketId: M, status: 'open', quick: false, matching: 'same-outcome' },
      ...{ bestBidPrices: [0, 0], bestAskPrices: [500_000, 0] },
      ...{ lastPrice: 400_000, lastOutcome: 0, lastPrices: [400_000, 0] },
      ...{ priceChanges24h: [-50_000, null], volume24h: 5, trades24h: 1, totalVolume: 7, seq: 2 },
    },
  ])
  market!.place(buy('YES').at(0.5).size(2).by('bob').named('b'))
  stream.flow()
  const news = await client.next('ticker')
  assert.equal(news.prevCursor, snapshot.cursor)
  const [line] = news.tickers as Record<string, unknown>[]
  assert.deepEqual(
    [line?.lastPrice, line?.totalVolume, line?.bestAskPrices],
    [500_000, 1_000_007, [0, 0]],
  )
  const none = await client.ask({ op: 'subscribe', channel: 'ticker', marketIds: [] }, 'error')
  assert.deepEqual([none.code, none.field], ['INVALID_FIELD', 'marketIds'])
})

test('a ticker subscription to an event starts with the event’s markets and adds markets that join later', async () => {
  const { channel, registry, nth, open, rest, turn, snapshot } = fixture()
  const event = { slug: 'games', chainId: 5 }
  for (const n of [1, 2, 3]) open(n)
  const feed = channel.eventFeedOf({ ...event, marketIds: [1, 2].map(nth) })
  registry.join(feed, {})
  assert.equal(channel.eventFeedOf({ ...event, marketIds: [] }), feed)
  const first = await snapshot(feed)
  assert.deepEqual(
    first.tickers.map(({ marketId }) => marketId),
    [1, 2].map(nth),
  )
  rest(3, 400_000)
  assert.deepEqual(await turn(), [], 'another market')
  channel.joinedEvent({ slug: 'races', chainId: 5 }, nth(3))
  assert.deepEqual(await turn(), [], 'another event')
  channel.joinedEvent(event, nth(3))
  channel.joinedEvent(event, nth(4))
  const [joined] = await turn()
  assert.deepEqual(
    joined?.tickers.map(({ marketId }) => marketId),
    [nth(3)],
  )
  open(4)
  rest(2, 300_000)
  const [opened] = await turn()
  assert.deepEqual(opened?.tickers.map(({ marketId }) => marketId).sort(), [2, 4].map(nth))
  assert.equal((await snapshot(feed)).count, 4)
  // No message reported that market 5 has joined the event. So the subscription below, which names the market, adds it.
  // Markets beyond `EVENT_MARKETS_MAX` are not added to the event.
  assert.equal(channel.eventFeedOf({ ...event, marketIds: [nth(5)] }), feed)
  assert.deepEqual(channel.followedEvents(), [event])
  for (let n = 6; n <= EVENT_MARKETS_MAX + 20; n++) channel.joinedEvent(event, nth(n))
  assert.equal((await snapshot(feed)).count, EVENT_MARKETS_MAX)
})

test('after lost update messages, a ticker subscription to an event adds the markets that joined meanwhile', async (t) => {
  const members = [marketIdOf(0)]
  const stream = await startStream(t, {
    markets: 2,
    parts: { eventMarkets: async ({ slug }) => ({ slug, chainId: 5, marketIds: [...members] }) },
  })
  const client = await stream.connect()
  await client.ask({ op: 'subscribe', channel: 'ticker', event: 'games' }, 'subscribed')
  assert.equal((await client.next('ticker.snapshot')).count, 1)
  members.push(marketIdOf(1))
  await stream.hub.eventsMissed()
  const { tickers } = (await client.next('ticker')) as unknown as Told
  assert.deepEqual(
    tickers.map(({ marketId }) => marketId),
    [marketIdOf(1)],
  )
})

test('a subscription to tickers can name an event, and an unknown event is refused', async (t) => {
  const stream = await startStream(t, {
    parts: {
      eventMarkets: async ({ slug, chainId = 5 }) =>
        slug === 'games' ? { slug, chainId, marketIds: [marketIdOf(0)] } : undefined,
    },
  })
  const client = await stream.connect()
  const subscribe = { op: 'subscribe', channel: 'ticker' }
  const { sub } = await client.ask({ ...subscribe, event: 'games' }, 'subscribed')
  assert.equal(sub, 'ticker:event:5:games')
  const first = await client.next('ticker.snapshot')
  assert.deepEqual(
    (first as unknown as Told).tickers.map(({ marketId }) => marketId),
    [marketIdOf(0)],
  )
  const unknown = await client.ask({ ...subscribe, event: 'races' }, 'error')
  assert.deepEqual([unknown.code, unknown.field], ['EVENT_NOT_FOUND', 'event'])
  const both = { ...subscribe, event: 'games', marketIds: [marketIdOf(0)] }
  assert.equal((await client.ask(both, 'error')).field, 'event')
})
