import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRejection } from '#domain/rejection.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeHeldOrders } from '#stream/held-orders.ts'
import { signed } from '../services/market/market-fixture.ts'
import { eventually } from '../support/eventually.ts'
import { buy, type OrderBuilder, sell } from '../support/orders.ts'
import { marketIdOf, startStream } from './stream-fixture.ts'

test('orders that ended while events were lost do not count as held, and those that may come back do', async (t) => {
  const held = makeHeldOrders({
    ...{ threads: [], threadOf: () => 0, clock: systemClock },
    gateway: {
      cancel: async () => assert.fail('nothing is cancelled'),
      async recall({ marketId, orderHash, outcome }) {
        const answer = market().ask('RecallOrder', { marketId, orderHash, outcome })
        return !isRejection(answer) && 'unknown' in answer ? undefined : answer
      },
    },
    ...{ perSessionMax: 3, deadlineMs: 1_000 },
  })
  const stream = await startStream(t, { parts: { held } })
  const market = () => stream.markets[0]!
  const place = (builder: OrderBuilder) => {
    const order = signed(builder, marketIdOf(0))
    market().place(builder)
    return order
  }
  const orderOf = (name: string) => buy('YES').at(0.4).size(1).by('ann').named(name)
  const hold = (name: string) => held.hold('s', signed(orderOf(name), marketIdOf(0)))
  const [cancelled, filled] = ['cancelled', 'filled', 'resting'].map((name) => {
    assert.equal(hold(name), undefined)
    return place(orderOf(name))
  })
  stream.flow()
  const { marketId, orderHash, side } = cancelled!
  market().ask('CancelOrder', { marketId, orderHash, side })
  place(sell('YES').at(0.4).size(1).by('bob').named('s1'))
  const recalled = market().ask('RecallOrder', { ...filled!, marketId })
  assert.ok('left' in recalled && recalled.left === 'pending')
  assert.equal(hold('next')?.rejected, 'RATE_LIMITED')
  stream.lose()
  await eventually(() => assert.equal(hold('next'), undefined))
  assert.equal(hold('another')?.rejected, 'RATE_LIMITED', 'one rests, and one may come back')
  market().report('s1', { status: 'confirmed' })
  const settled = market().ask('RecallOrder', { ...filled!, marketId })
  assert.ok('left' in settled && settled.left === 'nothing')
  stream.lose()
  await eventually(() => assert.equal(hold('another'), undefined))
})
