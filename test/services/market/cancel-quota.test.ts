/** Tests the quota of orders that a trader may place and cancel without a fill. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Address } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { CancelQuota } from '#services/market/host/cancel-quota.ts'
import { buy, hashNamed, type OrderBuilder, sell } from '../../support/orders.ts'
import { signed } from './market-fixture.ts'
import { type Command, inFolder, marketId, open, startHost } from './thread-fixture.ts'

const HOUR = 3_600

const place = (n: number, builder: OrderBuilder): Command => ({
  type: 'PlaceOrder',
  message: { order: signed(builder, marketId(n)) },
})
const cancel = (n: number, name: string, side: 0 | 1): Command => ({
  type: 'CancelOrder',
  message: { marketId: marketId(n), orderHash: hashNamed(name), side },
})

inFolder(
  'a trader who cancels too often without a fill cannot place orders for a while, but can still cancel',
  async (dataDir) => {
    const host = startHost(dataDir, { partitions: 1, cancelQuota: new CancelQuota(3) })
    const order = (name: string, at = 0.2) => place(1, buy('YES').at(at).named(name))
    await host.run(open(1), order('a'), order('b'), order('c'), order('d'))
    await host.run(cancel(1, 'a', 0), cancel(1, 'b', 0))
    assert.equal(codeOf((await host.run(order('e')))[0]), undefined)
    // A cancel of an order that had a fill does not count.
    await host.run(place(1, buy('YES').at(0.5).size(10).named('filled')))
    await host.run(place(1, sell('YES').at(0.5).size(4).by('bob').named('other')))
    await host.run(cancel(1, 'filled', 0))
    assert.equal(codeOf((await host.run(order('f')))[0]), undefined)
    await host.run(cancel(1, 'c', 0))
    const [refused, again, others, cancelled] = await host.run(
      order('g'),
      order('e'),
      place(1, sell('YES').at(0.9).by('bob').named('h')),
      cancel(1, 'd', 0),
    )
    assert.deepEqual(refused, { rejected: 'CANCEL_QUOTA_SPENT', field: 'order.trader' })
    assert.equal((again as { duplicate?: true }).duplicate, true)
    assert.equal(codeOf(others), undefined)
    assert.deepEqual(cancelled, { status: 'cancelled', orderHash: hashNamed('d') })
    host.at(HOUR / 2)
    assert.equal(codeOf((await host.run(order('g')))[0]), undefined)
    await host.stop()
  },
)

function codeOf(answer: unknown): string | undefined {
  return (answer as { rejected?: string }).rejected
}

test('the cancel quota remembers only a limited number of traders', () => {
  const quota = new CancelQuota(1, 3)
  const trader = (n: number) => `0x${n.toString(16).padStart(40, '0')}` as Address
  const cancelled = (n: number) =>
    ({
      type: 'OrderClosed',
      marketId: marketId(1),
      trader: trader(n),
      reason: 'cancelled',
      size: 5,
      remaining: 5,
    }) as unknown as MarketEvent
  // The quota is one cancel per hour, and at most three traders are remembered. Traders 1, 3 and 4 have used up their
  // quota. Trader 2 was removed to make room for trader 4.
  for (const n of [1, 2, 3, 1, 2, 3]) quota.note(cancelled(n), 1_000)
  quota.note(cancelled(1), 62_000)
  for (let times = 0; times < 2; times++) quota.note(cancelled(4), 62_000)
  assert.equal(quota.traders, 3)
  assert.deepEqual(
    [1, 2, 3, 4].map((n) => quota.isSpent(trader(n), 62_000)),
    [true, false, true, true],
  )
})
