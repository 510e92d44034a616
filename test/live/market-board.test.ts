/** Data of ended markets that a front keeps. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketId } from '#domain/ids.ts'
import { MARKETS_GONE_KNOWN_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { makeBoard } from '#live/market-board.ts'
import { aMarket } from '../services/market/market-fixture.ts'

const marketId = (n: number) => `0x${n.toString(16).padStart(64, '0')}` as MarketId
const opened = (n: number): MarketEvent => ({
  type: 'MarketOpened',
  marketId: marketId(n),
  seq: 1,
  atMs: 1,
  market: aMarket({ id: marketId(n) }),
})
const closed = (n: number, seq: number): MarketEvent => ({
  type: 'MarketClosed',
  marketId: marketId(n),
  seq,
  atMs: 2,
  reason: 'resolved',
})

test('markets that their thread has removed leave the board, and the newest of them are remembered as gone', () => {
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
  // Messages in transit are ignored, and do not count as a gap.
  assert(board.follow([closed(count, 4)]))
  assert.equal(board.markets.size, 0)
})
