import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OrderHash } from '#domain/ids.ts'
import { DEPARTURES_MAX, EXPIRATIONS_MAX } from '#domain/limits.ts'
import { isRejection } from '#domain/rejection.ts'
import { marketsToExpire } from '#services/market/host/due-markets.ts'
import { buy, sell, traderNamed } from '../../support/orders.ts'
import { given, MARKET_ID, START_SEC, signed } from './market-fixture.ts'
import { type Command, inFolder, marketId, open, startHost } from './thread-fixture.ts'

const MANY = 2 * DEPARTURES_MAX + 500

/** Returns a market with `MANY` resting orders of ann. */
function crowded(market = given()): ReturnType<typeof given> {
  for (let n = 0; n < MANY; n++)
    market.place(
      buy(n % 2 ? 'YES' : 'NO')
        .at(0.1)
        .by('ann')
        .named(`o${n}`),
    )
  market.said()
  return market
}

test('a cancel of thousands of a trader’s orders is done in several steps of limited size', () => {
  const market = crowded()
  market.place(buy('YES').at(0.1).by('bob').named('bobs'))
  const cancelled = new Set<OrderHash>()
  const steps: [number, true | undefined][] = []
  for (let more: true | undefined = true; more; ) {
    const answer = market.ask('CancelOrders', { marketId: MARKET_ID, trader: traderNamed('ann') })
    assert(!isRejection(answer))
    for (const orderHash of answer.orderHashes) cancelled.add(orderHash)
    more = answer.more
    steps.push([answer.orderHashes.length, more])
  }
  assert.deepEqual(steps, [
    [DEPARTURES_MAX, true],
    [DEPARTURES_MAX, true],
    [500, undefined],
  ])
  assert.equal(cancelled.size, MANY)
  assert.equal(market.state.books[0].count + market.state.books[1].count, 1)
})

test('if a trader at fault has very many orders, they are cancelled in steps before the trade fails', () => {
  const market = given()
  market.place(sell('YES').at(0.4).size(10).by('bob').named('s'))
  market.place(buy('YES').at(0.5).size(10).by('ann').named('b'))
  crowded(market)
  const failed = { status: 'failed', txHash: '0x01', fault: 'buyer' } as const
  const counts: number[] = []
  for (let step = 0; step < 2; step++) {
    const answer = market.report('b', failed)
    assert(isRejection(answer) && answer.rejected === 'OVERLOADED')
    counts.push(market.said().length)
    assert.equal(market.state.books[0].bestAsk, 0, 'nothing has come back yet')
  }
  assert.deepEqual(counts, [DEPARTURES_MAX, DEPARTURES_MAX])
  assert.deepEqual(market.report('b', failed), { status: 'failed' })
  assert.equal(market.state.books[0].count + market.state.books[1].count, 1)
  assert.equal(market.state.books[0].bestAsk, 400_000)
})

inFolder(
  'many orders that expire in the same second end in several batches, and each order ends once',
  async (dataDir) => {
    const host = startHost(dataDir)
    const orders = 2 * EXPIRATIONS_MAX + 300
    await host.run(open(1), open(2), open(3), open(4, { expiration: START_SEC + 500 }))
    await host.run(
      ...Array.from({ length: orders }, (_, n): Command => {
        const order = buy('YES')
          .at(0.1)
          .by(`t${n % 50}`)
          .until(START_SEC + 400)
          .named(`o${n}`)
        return { type: 'PlaceOrder', message: { order: signed(order, marketId(1 + (n % 3))) } }
      }),
    )
    host.at(399)
    assert.deepEqual(await expire(), [], 'nothing is due yet')
    host.at(400)
    const batches = await expire()
    assert(
      batches.every((count) => count <= EXPIRATIONS_MAX),
      batches.join(' '),
    )
    assert.equal(
      batches.reduce((sum, count) => sum + count, 0),
      orders,
    )
    assert.equal(host.resting(), 0)
    host.at(500)
    assert.deepEqual(await expire(), [1], 'a market expires too')
    assert.equal(host.thread.markets.get(marketId(4))?.state.closed, 'expired')
    await host.stop()

    /** Expires orders as the thread does; returns the number of events of each batch. */
    async function expire(): Promise<number[]> {
      const counts: number[] = []
      for (;;) {
        const due = marketsToExpire(host.thread, host.nowMs)
        if (due.length === 0) return counts
        await host.run(...due.map((id): Command => ({ type: 'Expire', message: { marketId: id } })))
        if (host.said.length > 0) counts.push(host.said.length)
      }
    }
  },
)

inFolder('books whose orders have ended free their memory', async (dataDir) => {
  const host = startHost(dataDir)
  await host.run(open(1))
  const order = signed(buy('YES').at(0.1).by('ann').named('a'), marketId(1))
  const { orderHash } = order
  for (let round = 0; round < 3; round++) {
    await host.run({ type: 'PlaceOrder', message: { order: { ...order, orderHash: hash(round) } } })
    await host.run({
      type: 'CancelOrder',
      message: { marketId: marketId(1), orderHash: hash(round), side: 0 },
    })
    host.tidy()
    await host.keepHouse()
    assert.equal(host.resting(), 0)
  }
  await host.run({ type: 'PlaceOrder', message: { order: { ...order, orderHash: hash(9) } } })
  host.tidy()
  assert.equal(host.resting(), 1, 'an order that came meanwhile stays')
  await host.stop()

  function hash(round: number): OrderHash {
    return `${orderHash.slice(0, -1)}${round}` as OrderHash
  }
})
