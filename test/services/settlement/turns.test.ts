/** Tests the turns of takers: their order, and that no taker has to wait for thousands of trades of another. */

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Address, TradeId } from '#domain/ids.ts'
import { BUY, SELL } from '#domain/order.ts'
import type { TradeToSettle } from '#domain/trade.ts'
import { byAge, inTurns, takerOf } from '#services/settlement/turns.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import { traderNumbered, World } from './settlement-fixture.ts'

const [ANN, BOB, CID, MAKER] = [1, 2, 3, 4].map((number) => traderNumbered(900 + number))
assert(ANN !== undefined && BOB !== undefined && CID !== undefined && MAKER !== undefined)

let made = 0
function tradeOf(taker: Address, matchedAtMs = ++made): TradeToSettle {
  const tradeId = `${taker}/${matchedAtMs}/${++made}` as TradeId
  const parts = {
    buyer: taker,
    seller: MAKER,
    takerSide: BUY,
    matchedAtMs,
    seq: made,
    fillIndex: 0,
  }
  return { tradeId, ...parts } as unknown as TradeToSettle
}

describe('settlement divides its batches fairly between takers', () => {
  it('a settlement batch takes each taker’s oldest trades in turn, and sorts the chosen trades by age', () => {
    const a = Array.from({ length: 9 }, () => tradeOf(ANN))
    const [b1, c1, c2] = [tradeOf(BOB), tradeOf(CID), tradeOf(CID)]
    const turns = new Set([ANN, BOB, CID])
    const first = inTurns([...a, b1, c1, c2], turns, 4)
    assert.deepEqual(first, [a[0], a[1], b1, c1])
    const second = inTurns([...a.slice(2), c2], new Set([ANN, CID]), 4)
    assert.deepEqual(second, [a[2], a[3], a[4], c2])
  })

  it('a settlement batch begins with the taker whose last turn was longest ago', () => {
    const [a, b, c] = [tradeOf(ANN), tradeOf(BOB), tradeOf(CID)]
    assert.deepEqual(inTurns([a, b, c], new Set([CID, ANN, BOB]), 2), [a, c])
  })

  it('a trade counts towards its taker’s turns, whether the taker is the buyer or the seller', () => {
    const trade = tradeOf(ANN)
    assert.equal(takerOf(trade), ANN)
    assert.equal(takerOf({ ...trade, takerSide: SELL }), MAKER)
  })
})

/**
 * Asserts that trades are chosen fairly. A taker has at most one trade fewer in the batch than any other taker, unless
 * all trades of the taker are in the batch.
 */
function assertFair(chosen: readonly TradeToSettle[], waiting: readonly TradeToSettle[]): void {
  const of = (list: readonly TradeToSettle[], taker: Address) =>
    list.filter((trade) => takerOf(trade) === taker)
  const takers = new Set(waiting.map(takerOf))
  const most = Math.max(...[...takers].map((taker) => of(chosen, taker).length))
  for (const taker of takers) {
    const [had, got] = [of(waiting, taker), of(chosen, taker)]
    assert(got.length >= Math.min(had.length, most - 1), `${taker}: ${got.length}, another ${most}`)
    assert.deepEqual(got, [...had].sort(byAge).slice(0, got.length), 'his oldest ones')
  }
}

it('a random settlement batch is full, fair between takers, without duplicates, and sorted by age', () => {
  const seed = Number(process.env.TEST_SEED ?? Math.floor(Math.random() * 2 ** 31))
  for (let run = seed; run < seed + 300; run++) {
    const random: Random = randomFrom(run)
    const takers = Array.from({ length: random.int(1, 12) }, (_, at) => traderNumbered(at + 1))
    const waiting: TradeToSettle[] = []
    for (const taker of takers) {
      const count = random.chance(0.3) ? random.int(0, 200) : random.int(0, 3)
      for (let at = 0; at < count; at++) waiting.push(tradeOf(taker, random.int(0, 50)))
    }
    waiting.sort(() => random.next() - 0.5)
    const max = random.int(1, 60)
    const turns = new Set(takers.sort(() => random.next() - 0.5))
    const chosen = inTurns(waiting, turns, max)
    try {
      assert.equal(chosen.length, Math.min(max, waiting.length))
      assert.equal(new Set(chosen.map(({ tradeId }) => tradeId)).size, chosen.length)
      assert.deepEqual(chosen, [...chosen].sort(byAge))
      assertFair(chosen, waiting)
    } catch (error) {
      if (error instanceof Error) error.message = `TEST_SEED=${run}: ${error.message}`
      throw error
    }
  }
})

describe('takers with thousands of trades do not delay other takers', () => {
  const batchOf = (world: World, id: TradeId): number =>
    world.submissions.findIndex((batch) => batch.includes(id))

  it('a taker with a thousand trades delays other takers’ later trades by at most three batches', async () => {
    const world = new World({ batchMax: 10, inFlightMax: 1 })
    const flood = Array.from({ length: 1_000 }, () => world.trade({ buyer: ANN, seller: MAKER }))
    await world.steps(3)
    const before = world.submissions.length
    const late = [
      world.trade({ buyer: BOB, seller: MAKER }),
      world.trade({ seller: CID, takerSide: SELL }),
    ]
    await world.steps(5)
    for (const id of late) {
      const batch = batchOf(world, id)
      assert(batch >= before && batch <= before + 3, `batch ${batch}, it came at ${before}`)
      assert.equal(world.status(id), 'confirmed')
    }
    assert(batchOf(world, flood.at(-1)!) < 0, 'the flood is not over')
    assert(world.state.trades.size < 700, `${world.state.trades.size} are in hand`)
    await world.steps(220)
    for (const id of flood) assert.equal(world.status(id), 'confirmed')
    const sent = world.rows.flatMap(({ tradeIds }) => tradeIds).filter((id) => !late.includes(id))
    assert.deepEqual(sent, flood, 'in their order, each once')
    assert.equal(world.state.queue.turns.size, 0)
  })

  it('a taker with hundreds of mints delays another taker’s later trade by at most three batches', async () => {
    const world = new World({ batchMax: 10, inFlightMax: 1 })
    const mint = { seller: ANN, takerSide: SELL, kind: 'mint' } as const
    for (let index = 0; index < 300; index++) world.trade(mint)
    await world.steps(3)
    const before = world.submissions.length
    const late = world.trade({ buyer: BOB })
    await world.steps(8)
    const batch = batchOf(world, late)
    assert(batch >= before && batch <= before + 3, `batch ${batch}, it came at ${before}`)
  })

  it('twenty takers with a hundred trades each delay another taker’s trade by at most eight batches', async () => {
    const world = new World({ batchMax: 4, inFlightMax: 1 })
    for (let round = 0; round < 100; round++) {
      for (let trader = 0; trader < 20; trader++)
        world.trade({ buyer: traderNumbered(2_000 + trader) })
    }
    await world.steps(3)
    const before = world.submissions.length
    const late = world.trade({ buyer: BOB })
    await world.steps(12)
    const batch = batchOf(world, late)
    assert(batch >= 0 && batch <= before + 20 / 4 + 3, `batch ${batch}, it came at ${before}`)
  })
})
