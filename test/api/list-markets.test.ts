import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { keepPages } from '#api/markets/kept-pages.ts'
import { listMarkets } from '#api/markets/list-markets.ts'
import { defaults } from '#config/default.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { FairTurns } from '#http/fair-turns.ts'
import { joinAnswers } from '#http/joined-answers.ts'
import type { RawReply } from '#http/route.ts'
import { makeBoard } from '#live/market-board.ts'
import { makeMarketEvents } from '#live/market-events.ts'
import { makeFiguresBook } from '#live/market-figures.ts'
import { makeSeqWaiters } from '#live/seq-waiters.ts'
import { systemClock } from '#runtime/clock.ts'
import { marketNumbered } from '../support/seeded-markets.ts'

const COUNT = 60

type Body = { markets: { id: string; bestAskPrice: number }[]; count: number; nextCursor: string }

function fixture(
  isCurrent: () => boolean = () => true,
  count = COUNT,
  turns?: Pick<FairTurns, 'next'>,
) {
  const board = makeBoard({ isWhole: () => true, isCurrent })
  const clock = systemClock
  const follow = (event: object) => assert.ok(board.follow([event as MarketEvent]))
  // The newest market has the lowest id, so that a list ordered by id or arrival would be wrong.
  const markets = Array.from({ length: count }, (_, at) =>
    marketNumbered(at + 1, { createdAt: 2_000 - 10 * Math.floor(at / 2) }),
  )
  for (const market of markets) {
    const head = { marketId: market.id, seq: 1, atMs: clock.nowMs() }
    follow({ ...head, type: 'MarketOpened', market })
  }
  const route = listMarkets({
    ...{ board, storedMarkets: async () => [], nowMs: clock.nowMs },
    pages: keepPages({ board, nowMs: clock.nowMs, keepMs: 1_000, pagesMax: 4 }),
    figures: makeFiguresBook({ board: () => board, stored: async () => [], clock }),
    marketEvents: makeMarketEvents(async () => []),
    waiters: makeSeqWaiters(() => board, clock),
    joined: joinAnswers({ listsMax: 4 }),
    turns,
  })
  const ask = async (query: object = {}, accepted = '') =>
    (await route.handle({ query, headers: { 'accept-encoding': accepted } } as never)) as RawReply
  const read = (reply: RawReply) => JSON.parse(Buffer.from(reply.raw).toString()) as Body
  const rest = (at: number, seq: number, price: number) =>
    follow({
      ...{ type: 'OrderRested', marketId: markets[at]!.id, seq, atMs: clock.nowMs() },
      ...{ orderHash: `0x${'a'.repeat(64)}`, trader: `0x${'1'.repeat(40)}`, side: 1, outcome: 0 },
      ...{ price, size: 1_000_000, added: 1_000_000, remaining: 1_000_000, expiresAtSec: 9e9 },
    })
  const close = (at: number) =>
    follow({
      ...{ type: 'MarketClosed', marketId: markets[at]!.id, seq: 2, atMs: clock.nowMs() },
      reason: 'expired',
    })
  const sorted = markets
    .toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1))
    .map(({ id }) => id)
  return { ask, read, rest, close, sorted, markets, route }
}

test('reading all pages of the market list returns every market once, oldest first', async () => {
  const { ask, read, sorted } = fixture()
  const whole = read(await ask())
  assert.deepEqual([whole.count, whole.nextCursor], [COUNT, null])
  assert.deepEqual(
    whole.markets.map(({ id }) => id),
    sorted,
  )
  const paged: string[] = []
  for (let cursor: string | undefined; ; ) {
    const page = read(await ask({ limit: 25, ...(cursor === undefined ? {} : { cursor }) }))
    assert.equal(page.count, page.markets.length)
    paged.push(...page.markets.map(({ id }) => id))
    if (page.nextCursor === null) break
    cursor = page.nextCursor
  }
  assert.deepEqual(paged, sorted)
})

test('the market list returns open before ended markets, and its status filter selects either kind', async () => {
  const { ask, read, close, sorted, markets } = fixture()
  const over = [3, 20, 41].map((at) => markets[at]!.id)
  for (const at of [3, 20, 41]) close(at)
  const open = sorted.filter((id) => !over.includes(id))
  const ended = sorted.filter((id) => over.includes(id))
  const pages = async (query: object, limit: number) => {
    const found: string[] = []
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = read(await ask({ ...query, limit, ...(cursor === undefined ? {} : { cursor }) }))
      found.push(...page.markets.map(({ id }) => id))
      cursor = page.nextCursor
    }
    return found
  }
  for (const limit of [1, 2, 19, 57, 58, 60]) {
    assert.deepEqual(await pages({}, limit), [...open, ...ended], `pages of ${limit}`)
    assert.deepEqual(await pages({ status: 'open' }, limit), open)
    assert.deepEqual(await pages({ status: 'ended' }, limit), ended)
  }
})

test('requests for the market list get the same encoded answer until a market changes', async () => {
  const { ask, read, rest, markets } = fixture()
  const first = await ask()
  const again = await ask()
  assert.equal(again.raw, first.raw, 'it is not written again')
  rest(7, 2, 430_000)
  const changed = await ask()
  assert.notEqual(changed.headers?.etag, first.headers?.etag)
  const shown = read(changed).markets.find(({ id }) => id === markets[7]?.id)
  assert.equal(shown?.bestAskPrice, 430_000)
  assert.equal((await ask()).raw, changed.raw)
})

test('the list of markets is compressed once for all clients that accept compression', async () => {
  const { ask } = fixture()
  const [plain, zipped, other] = [
    await ask(),
    await ask({}, 'gzip, br'),
    await ask({}, 'deflate;q=1, gzip;q=0.5'),
  ]
  assert.equal(zipped.headers?.['content-encoding'], 'gzip')
  assert.deepEqual(gunzipSync(zipped.raw), plain.raw)
  assert.equal(zipped.headers.etag, plain.headers?.etag)
  assert.equal(other.raw, zipped.raw)
  for (const reply of [plain, zipped]) assert.equal(reply.headers?.vary, 'accept-encoding')
  assert.equal((await ask({}, 'br')).headers?.['content-encoding'], undefined)
})

test('a market-list request costs rate-limit units in proportion to the markets that it returns or searches', () => {
  const { route } = fixture()
  const weigh = (query: object) => route.weigh?.(query as never)
  assert.equal(weigh({}), 3)
  assert.equal(weigh({ limit: 1 }), 1)
  assert.equal(weigh({ limit: 26 }), 2)
  assert.equal(weigh({ limit: 1, search: 'rain' }), 3)
})

test('one IP address can afford a filtered list of 60,000 markets within its rate-limit burst', () => {
  const { route } = fixture(undefined, 60_000)
  const weigh = (query: object) => route.weigh?.(query as never) ?? 0
  assert.equal(weigh({ limit: 100 }), 4)
  for (const filter of [{ search: 'rain' }, { resolved: true }, { category: 'defi' }]) {
    const weight = weigh({ limit: 100, ...filter })
    assert(weight > 100 && weight < defaults.limits.ipBurst, `${weight} reads`)
  }
})

test('while a market thread has not confirmed ownership of its markets, market lists have the header sibyl-stale', async () => {
  let isCurrent = true
  const { ask } = fixture(() => isCurrent)
  const marks = async () => {
    const replies = [await ask(), await ask({}, 'gzip')]
    return replies.map(({ headers }) => headers?.['sibyl-stale'])
  }
  assert.deepEqual(await marks(), [undefined, undefined])
  isCurrent = false
  assert.deepEqual(await marks(), ['true', 'true'])
  isCurrent = true
  assert.deepEqual(await marks(), [undefined, undefined])
})

test('the encoding of a long market list spans several event-loop turns; later requests encode only changed markets', async () => {
  let turns = 0
  const next = () => {
    turns++
    return undefined
  }
  const { ask, read, rest } = fixture(() => true, 300, { next })
  assert.equal(read(await ask()).count, 300)
  assert.equal(turns, 1 + 300 / 50)
  rest(7, 2, 640_000)
  const prices = read(await ask()).markets.map(({ bestAskPrice }) => bestAskPrice)
  assert.deepEqual(prices.toSorted((a, b) => b - a).slice(0, 2), [640_000, 0])
  assert.equal(turns, 2 + 300 / 50)
})
