import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Book } from '#book/book.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { BUY, OUTCOMES, SELL } from '#domain/order.ts'
import { apply, newMarket } from '#services/market/market.ts'
import type { MarketState } from '#services/market/state.ts'
import { withSeeds } from '../../support/random.ts'
import { sampleOf } from '../../support/sample.ts'
import { given } from './market-fixture.ts'
import { randomFlow } from './random-flow.ts'
import { stateHashOf } from './state-hash.ts'

const STEPS = sampleOf(6_000, 2)
const SEEDS = [1, 2, 3, 4]

/** The size at each price level, computed from the events as `domain/market-event.ts` describes. */
class Levels {
  readonly sizes = new Map<string, bigint>()

  take(event: MarketEvent): void {
    switch (event.type) {
      case 'OrderRested':
        this.#add(event.outcome, event.side, event.price, event.added)
        break
      case 'OrdersMatched': {
        const { outcome, side } = event.taker
        const opposite = side === BUY ? SELL : BUY
        for (const { price, size } of event.fills) this.#add(outcome, opposite, price, -size)
        break
      }
      case 'OrderClosed':
        this.#add(event.outcome, event.side, event.price, -event.remaining)
        break
      case 'MarketClosed':
        this.sizes.clear()
        break
    }
  }

  #add(outcome: number, side: number, price: number, size: number): void {
    const key = `${outcome}/${side}/${price}`
    const sum = (this.sizes.get(key) ?? 0n) + BigInt(size)
    assert(sum >= 0n, `${key} fell to ${sum}`)
    if (sum === 0n) this.sizes.delete(key)
    else this.sizes.set(key, sum)
  }
}

function levelsOf(state: MarketState): Map<string, bigint> {
  const sizes = new Map<string, bigint>()
  for (const outcome of OUTCOMES) {
    for (const side of [BUY, SELL] as const) {
      for (const level of state.books[outcome].depth(side)) {
        sizes.set(`${outcome}/${side}/${level.price}`, level.size)
      }
    }
  }
  return sizes
}

const sorted = (sizes: Map<string, bigint>) => [...sizes].toSorted()

test('a reader can compute the price levels of both books from the market’s events alone', () => {
  withSeeds(SEEDS, (random) => {
    const market = given({ selfTrade: random.chance(0.5) ? 'allow' : 'cancel-resting' })
    const flow = randomFlow(market, random)
    const levels = new Levels()
    let read = 0
    for (let step = 0; step < STEPS; step++) {
      flow.step()
      for (; read < market.events.length; read++) levels.take(market.events[read]!)
      if (step % 20 === 0) assert.deepEqual(sorted(levels.sizes), sorted(levelsOf(market.state)))
    }
    market.ask('CloseMarket', { marketId: market.marketId, reason: 'resolved' })
    for (; read < market.events.length; read++) levels.take(market.events[read]!)
    assert.deepEqual(sorted(levels.sizes), [])
    assert(flow.trades.length > STEPS / 12, 'the flow trades')
  })
})

test('the sequence numbers of a market have no gap, and the times of its events never go back', () => {
  withSeeds(SEEDS, (random) => {
    const market = given()
    const flow = randomFlow(market, random)
    for (let step = 0; step < STEPS; step++) flow.step()
    let atMs = 0
    for (const [index, event] of market.events.entries()) {
      assert.equal(event.seq, index + 1)
      assert.equal(event.marketId, market.marketId)
      assert(event.atMs >= atMs)
      atMs = event.atMs
    }
  })
})

test('no order trades or rests for more than its size, even when failed trades return quantity', () => {
  withSeeds(SEEDS, (random) => {
    const market = given()
    const flow = randomFlow(market, random)
    for (let step = 0; step < STEPS; step++) flow.step()
    const used = new Map<string, number>()
    const add = (hash: string, size: number) => used.set(hash, (used.get(hash) ?? 0) + size)
    for (const { report } of flow.trades) {
      if (market.recall.trades.get(report.tradeId)?.status === 'failed') continue
      add(report.buy.orderHash, report.size)
      add(report.sell.orderHash, report.size)
    }
    for (const outcome of OUTCOMES) {
      for (const side of [BUY, SELL] as const) {
        for (const order of market.state.books[outcome].orders(side)) {
          add(order.orderHash, order.remaining)
        }
      }
    }
    for (const order of flow.placed) assert((used.get(order.orderHash) ?? 0) <= order.size)
  })
})

test('every resubmitted order gets its first answer, or a refusal if the order was cancelled or has expired', () => {
  withSeeds(SEEDS, (random) => {
    const market = given()
    const flow = randomFlow(market, random)
    for (let step = 0; step < STEPS; step++) flow.step()
    const seen = { open: 0, filled: 0, closed: 0 }
    for (const { orderHash, answer, open, reason } of flow.repeats) {
      const first = flow.firstAnswers.get(orderHash)
      if (first === undefined) continue
      // An IOC or FOK order ends when it is first answered. If it is submitted again, it gets the same answer, even if
      // part of the order was cancelled.
      const isFilled = reason === 'filled' || reason === 'taken' || 'filled' in first
      if (isFilled || (open && reason === '')) {
        assert.deepEqual(answer, { ...first, duplicate: true })
        seen[isFilled ? 'filled' : 'open']++
      } else {
        assert.deepEqual(answer, { rejected: 'ORDER_CLOSED' }, reason)
        seen.closed++
      }
    }
    assert(Math.min(seen.open, seen.filled, seen.closed) > 5, JSON.stringify(seen))
  })
})

test('a replay of a market’s events gives the state of the market that wrote them', () => {
  withSeeds(SEEDS, (random) => {
    const market = given({ selfTrade: random.chance(0.5) ? 'allow' : 'cancel-resting' })
    const flow = randomFlow(market, random)
    for (let step = 0; step < STEPS; step++) flow.step()
    assert.equal(stateHashOf(market.replayed()), market.hash())
    market.at(2_000_000)
    market.ask('Expire', { marketId: market.marketId })
    assert.equal(stateHashOf(market.replayed()), market.hash())
  })
})

test('a snapshot made while a market changes, together with the later events, restores the market’s state', () => {
  withSeeds(SEEDS, (random) => {
    const market = given()
    const flow = randomFlow(market, random)
    for (let step = 0; step < STEPS / 2; step++) flow.step()
    const { seq, updatedAtMs, unsettled } = market.state
    const pending = JSON.parse(JSON.stringify(market.state.pending.rows()))
    const copies = market.state.books.map((book) => book.beginSnapshot())
    const chunks: Buffer[][] = [[], []]
    for (let step = 0; step < STEPS / 2; step++) {
      flow.step()
      if (step % 50 !== 0) continue
      for (const [outcome, copy] of copies.entries()) chunks[outcome]!.push(...copy.copySome(1))
    }
    for (const [outcome, copy] of copies.entries()) {
      while (!copy.done) chunks[outcome]!.push(...copy.copySome(1_000))
    }
    const { rules, recall } = market.state
    const options = { ordersMax: 2 * rules.ordersMax, seed: 99 }
    const restored: MarketState = {
      ...newMarket(market.state.market, rules, recall),
      seq,
      updatedAtMs,
      unsettled,
      books: [Book.restore(chunks[0]!, options), Book.restore(chunks[1]!, options)],
    }
    restored.pending.restore(pending)
    for (const event of market.events.slice(seq)) apply(restored, event)
    assert.equal(stateHashOf(restored), market.hash())
  })
})

test('a replay refuses an event that does not directly follow the previous event', () => {
  const market = given()
  const [opened] = market.events
  const state = market.replayed()
  assert.throws(() => apply(state, opened!), /the next event must have the number 2, not 1/)
})
