/** The listed markets, their order, and their updates from the stream. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chanceOf } from '#domain/chance.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import type { StreamTicker } from '#protocol/shapes/stream.ts'
import { readFilter, writeFilter } from '#web/list/list-address.ts'
import {
  categoriesOf,
  type Filter,
  isOver,
  listedMarkets,
  spreadOf,
} from '#web/list/market-rows.ts'
import { applyTickers } from '#web/state/markets.ts'
import { parseWatchlist, toggled } from '#web/state/watchlist.ts'

const NOW = 1_000

function market(id: string, part: Partial<Market> = {}): Market {
  return {
    ...{ id, question: `Question ${id}`, description: '', category: 'general', chainId: 1 },
    ...{ contractAddress: '', maker: '', expiration: NOW + 100, resolved: false, bestAskPrice: 0 },
    ...{ createdAt: 1, status: 'open', quick: false, seq: 5 },
    ...{ bestBidPrices: [0, 0], bestAskPrices: [0, 0], lastPrice: 0, lastOutcome: null },
    ...{ lastPrices: [0, 0], priceChanges24h: null, volume24h: 0, trades24h: 0, totalVolume: 0 },
    ...part,
  } as Market
}

const filter: Filter = readFilter('')
const ids = (markets: readonly Market[] | undefined) => markets?.map(({ id }) => id)

test('a market’s shown probability is the middle of bid and ask, else the last price, else unknown', () => {
  const both = market('a', { bestBidPrices: [400_000, 0], bestAskPrices: [450_000, 0] })
  assert.equal(chanceOf(both), 425_000)
  assert.equal(spreadOf(both), 50_000)
  const oneSide = market('b', { bestBidPrices: [400_000, 0], lastPrices: [300_000, 0] })
  assert.equal(chanceOf(oneSide), 300_000)
  assert.equal(spreadOf(oneSide), undefined)
  assert.equal(chanceOf(market('c')), undefined)
  assert.equal(chanceOf(market('d', { lastPrices: null })), undefined)
})

test('a market’s shown probability uses the best bid and the best ask from the books of both outcomes', () => {
  // The bid for NO at 0.42 implies an ask for YES at 0.58. The ask for NO at 0.46 implies a bid for YES at 0.54.
  const crossed = market('a', {
    bestBidPrices: [500_000, 420_000],
    bestAskPrices: [600_000, 460_000],
  })
  assert.equal(chanceOf(crossed), 560_000)
  const onlyNo = market('b', { bestBidPrices: [0, 300_000], bestAskPrices: [0, 310_000] })
  assert.equal(chanceOf(onlyNo), 695_000)
  assert.equal(chanceOf(market('c', { lastPrices: [0, 400_000] })), 600_000)
  const halves = market('d', { bestBidPrices: [450_000, 0], bestAskPrices: [0, 530_000] })
  assert.equal(chanceOf(halves), undefined, 'two bids of YES have no ask')
})

test('a market counts as over from its end time, even before a message reports the end', () => {
  assert.equal(isOver(market('a', { expiration: NOW }), NOW), true)
  assert.equal(isOver(market('b', { status: 'resolved' }), NOW), true)
  assert.equal(isOver(market('c'), NOW), false)
})

test('the market list filters by words, category and state, and omits quick markets', () => {
  const all = [
    market('a', { question: 'Will it RAIN?', description: 'In Delphi' }),
    market('b', { category: 'defi' }),
    market('c', { status: 'resolved' }),
    market('d', { quick: true }),
  ]
  assert.deepEqual(ids(listedMarkets(all, filter, NOW)), ['a', 'b'])
  assert.deepEqual(ids(listedMarkets(all, { ...filter, words: ' delphi rain ' }, NOW)), ['a'])
  assert.deepEqual(ids(listedMarkets(all, { ...filter, category: 'defi' }, NOW)), ['b'])
  assert.deepEqual(ids(listedMarkets(all, { ...filter, status: 'over' }, NOW)), ['c'])
  assert.deepEqual(ids(listedMarkets(all, { ...filter, status: 'all' }, NOW)), ['a', 'b', 'c'])
  assert.deepEqual(categoriesOf(all), ['defi', 'general'])
})

test('markets are sorted by the chosen order', () => {
  const all = [
    market('a', { volume24h: 1, expiration: NOW + 3, createdAt: 2, lastPrices: [5, 0] }),
    market('b', { volume24h: null, expiration: NOW + 1, createdAt: 3 }),
    market('c', { volume24h: 9, expiration: NOW + 2, createdAt: 1, lastPrices: [9, 0] }),
  ]
  const by = (sort: Filter['sort']) => ids(listedMarkets(all, { ...filter, sort }, NOW))
  assert.deepEqual(by('volume'), ['c', 'a', 'b'])
  assert.deepEqual(by('chance'), ['c', 'a', 'b'])
  assert.deepEqual(by('ends'), ['b', 'c', 'a'])
  assert.deepEqual(by('newest'), ['b', 'a', 'c'])
})

test('ticker messages replace older values in the market list', () => {
  const before = [market('a'), market('b')]
  const told = (id: string, part: Partial<Market>) => {
    return { ...market(id), ...part, marketId: id } as StreamTicker
  }
  const after = applyTickers(before, [told('a', { seq: 6, volume24h: 7 }), told('b', { seq: 4 })])
  assert.equal(after?.[0]?.volume24h, 7)
  assert.equal(after?.[1], before[1], 'the older one is not taken')
  const over = applyTickers(before, [told('b', { seq: 0, status: 'resolved' })])
  assert.equal(over?.[1]?.resolved, true)
  assert.equal(applyTickers(undefined, [told('a', {})]), undefined)
})

test('the URL contains the settings of the market list, and an invalid URL gives the default settings', () => {
  assert.equal(writeFilter(filter), '')
  const all: Filter = {
    ...{ words: 'rain & sun?', category: 'defi', status: 'over', sort: 'ends' },
    ...{ isReversed: true, isWatched: true },
  }
  assert.deepEqual(readFilter(writeFilter(all)), all)
  assert.deepEqual(readFilter('category=none&state=x&sort=%00&reversed=yes'), filter)
  assert.equal(readFilter(`search=${'a'.repeat(9_999)}`).words.length, 200)
})

test('each sort order can be reversed, and the watchlist filter shows only watched markets', () => {
  const all = [market('a', { volume24h: 1 }), market('b', { volume24h: 3 }), market('c')]
  assert.deepEqual(ids(listedMarkets(all, filter, NOW)), ['b', 'a', 'c'])
  const reversed = { ...filter, isReversed: true }
  assert.deepEqual(ids(listedMarkets(all, reversed, NOW)), ['c', 'a', 'b'])
  const isWatched = { ...filter, isWatched: true }
  assert.deepEqual(ids(listedMarkets(all, isWatched, NOW, new Set(['a', 'x']))), ['a'])
})

test('the watchlist is limited in size, and invalid stored data gives an empty watchlist', () => {
  const id = (n: number) => `0x${String(n).padStart(64, '0')}`
  const many = Array.from({ length: 500 }, (_, n) => id(n))
  assert.equal(parseWatchlist(JSON.stringify(many)).length, 200)
  const full = many.slice(0, 200)
  assert.deepEqual(toggled(full, id(900)), [id(900), ...full.slice(0, 199)])
  assert.deepEqual(toggled([id(1), id(2)], id(1)), [id(2)])
  for (const text of [null, '', '{', '{}', '[1,"0x12"]', 'null']) {
    assert.deepEqual(parseWatchlist(text), [], String(text))
  }
})
