/** Tests which markets a front keeps and in which order, and which market a share link leads to. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketId } from '#domain/ids.ts'
import { MARKETS_GONE_KNOWN_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { makeBoard } from '#live/market-board.ts'
import { byCreation } from '#live/market-order.ts'
import { aMarket } from '../services/market/market-fixture.ts'
import { randomFrom } from '../support/random.ts'

const SEED = Number(process.env.TEST_SEED ?? 20_261_119)

const marketId = (n: number) => `0x${n.toString(16).padStart(64, '0')}` as MarketId
const opened = (n: number): MarketEvent => ({
  type: 'MarketOpened',
  marketId: marketId(n),
  seq: 1,
  atMs: 1,
  market: aMarket({ id: marketId(n) }),
})
const openedAt = (id: MarketId, createdAt: number): MarketEvent => ({
  ...{ type: 'MarketOpened', marketId: id, seq: 1, atMs: 1 },
  market: aMarket({ id, createdAt }),
})
const closed = (n: number, seq: number): MarketEvent => ({
  type: 'MarketClosed',
  marketId: marketId(n),
  seq,
  atMs: 2,
  reason: 'resolved',
})

test('a front drops the markets that a market thread has unloaded, and remembers recent ones as gone', () => {
  const forgotten: MarketId[] = []
  const board = makeBoard(
    { isWhole: () => true, isCurrent: () => true },
    {
      followed: () => undefined,
      loaded: () => undefined,
      forgotten: (id) => void forgotten.push(id),
    },
  )
  const count = MARKETS_GONE_KNOWN_MAX + 50
  for (let n = 1; n <= count; n++) {
    assert(board.follow([opened(n), closed(n, 2)]))
    assert(board.markets.has(marketId(n)) && !board.isGone(marketId(n)))
    board.forget([marketId(n)])
    assert.equal(board.markets.size, 0)
  }
  assert.equal(forgotten.length, count)
  assert(board.isGone(marketId(count)) && board.isGone(marketId(51)))
  assert(!board.isGone(marketId(50)))
  // Events of the ended market that are still in transit are ignored, and do not count as a gap.
  assert(board.follow([closed(count, 4)]))
  assert.equal(board.markets.size, 0)
})

test('a front’s list of markets stays in order while markets are added and removed', () => {
  const board = makeBoard({ isWhole: () => true, isCurrent: () => true })
  const random = randomFrom(SEED)
  let added = 0
  for (let round = 0; round < 60; round++) {
    // In every tenth round 400 markets are added. In such a round the board sorts its list once, instead of inserting
    // each market.
    const count = round % 10 === 0 ? 400 : random.int(0, 19)
    for (let one = 0; one < count; one++) {
      const known = [...board.markets.keys()]
      const removed = known[random.int(0, Math.max(0, known.length - 1))]
      if (removed !== undefined && random.chance(1 / 3)) {
        board.forget([removed])
        // Some removed markets are opened again, as new objects, before the list is read.
        if (random.chance(1 / 2)) board.follow([openedAt(removed, random.int(0, 49))])
      } else board.follow([openedAt(marketId(++added), random.int(0, 49))])
    }
    const expected = [...board.markets.values()].sort((a, b) => byCreation(a.market, b.market))
    const ids = (list: readonly { market: { id: string } }[]) => list.map(({ market }) => market.id)
    assert.deepEqual(ids(board.inOrder()), ids(expected), `seed ${SEED}, round ${round}`)
    assert(board.inOrder().every((shown) => board.markets.get(shown.market.id) === shown))
  }
})

test('a short market id finds the oldest market that it fits, and nothing after that market’s removal', () => {
  const board = makeBoard({ isWhole: () => true, isCurrent: () => true })
  const id = (end: string) => `0x${'3fa9c1d2e4b5'.padEnd(64 - end.length, '0')}${end}` as MarketId
  board.follow([openedAt(id('1'), 20), openedAt(id('2'), 10), openedAt(id('3'), 30)])
  assert.equal(board.byShortId('3fa9c1d2e4b5')?.market.id, id('2'))
  assert.equal(board.byShortId('3fa9c1d2e4b6'), undefined)
  board.forget([id('3'), id('2')])
  assert.equal(board.byShortId('3fa9c1d2e4b5'), undefined)
})
