import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel, Worker } from 'node:worker_threads'
import { BUY } from '#domain/order.ts'
import { reject } from '#domain/rejection.ts'
import type { HeldOrder, HoldsProtocol } from '#protocol/market-followers.ts'
import { Channel } from '#runtime/channel.ts'
import { OrderHolds, OrphanedOrders } from '#services/market/host/order-holds.ts'
import { eventually } from '../../support/eventually.ts'
import { buy, hashNamed, traderNamed } from '../../support/orders.ts'
import { MARKET_ID, signed } from './market-fixture.ts'

const held = (name: string): HeldOrder => ({
  marketId: MARKET_ID,
  orderHash: hashNamed(name),
  side: BUY,
  trader: traderNamed('ann'),
})

test('what is held is what was neither released nor dropped', () => {
  const holds = new OrderHolds()
  const hold = (session: string, name: string) =>
    holds.handlers.HoldOrder({ session, order: held(name) })
  assert.deepEqual(hold('s', 'a'), { held: true })
  hold('s', 'a')
  hold('s', 'b')
  hold('t', 'c')
  hold('u', 'd')
  holds.handlers.ReleaseOrder({ session: 's', orderHash: hashNamed('a') })
  holds.handlers.ReleaseOrder({ session: 's', orderHash: hashNamed('c') })
  holds.handlers.ReleaseOrder({ session: 'x', orderHash: hashNamed('c') })
  holds.handlers.DropSession({ session: 'u' })
  assert.deepEqual(holds.takeAll(), [held('b'), held('c')])
  assert.deepEqual(holds.takeAll(), [])
})

test('an order that is placed in the name of a session is held, and no other', () => {
  const holds = new OrderHolds()
  const placed = (name: string) => signed(buy('YES').by('ann').named(name), MARKET_ID)
  assert.equal(holds.placed({ order: placed('a') }), undefined)
  assert.deepEqual(holds.takeAll(), [])
  assert.equal(holds.placed({ order: placed('a'), session: 's' }), undefined)
  assert.deepEqual(holds.takeAll(), [held('a')])
})

test('a thread that dies leaves its orders to their holder', async () => {
  const { port1, port2 } = new MessageChannel()
  const holds = new OrderHolds()
  const cancelled: HeldOrder[] = []
  let heard = 0
  const options = { inFlightMax: 10, batchMax: 10, deadlineMs: 120_000 }
  new Channel(port1, options, {
    heard(type, message) {
      if (type === 'HoldOrder') holds.handlers[type](message as HoldsProtocol['HoldOrder']['takes'])
      heard++
    },
    closed: () => cancelled.push(...holds.takeAll()),
  })
  const worker = new Worker(
    `const { workerData } = require('node:worker_threads')
    const { port, orders } = workerData
    for (const order of orders) port.postMessage(['HoldOrder', 0, { session: 's', order }, 0])
    port.on('message', () => undefined)`,
    {
      eval: true,
      workerData: { port: port2, orders: [held('a'), held('b')] },
      transferList: [port2],
    },
  )
  await eventually(() => assert.equal(heard, 2))
  assert.deepEqual(cancelled, [])
  await worker.terminate()
  await eventually(() => assert.deepEqual(cancelled, [held('a'), held('b')]))
})

test('orphaned orders are asked for until their market has said what became of them', () => {
  const asked: { order: HeldOrder; answered: (answer: unknown) => void }[] = []
  const orphans = new OrphanedOrders((order, answered) => asked.push({ order, answered }))
  const all = Array.from({ length: 1_000 }, (_, index) => held(`o${index}`))
  orphans.add(all)
  assert.equal(asked.length, 256, 'not all at once')
  const answer = (from: number, to: number, what: unknown) => {
    for (let at = from; at < to; at++) asked[at]!.answered(what)
  }
  answer(0, 100, reject('OVERLOADED'))
  answer(100, 200, reject('OUTCOME_UNKNOWN'))
  answer(200, 300, reject('ORDER_CLOSED'))
  answer(300, 1_000, { status: 'cancelled' })
  assert.equal(asked.length, 1_000)
  assert.equal(orphans.size, 200)
  orphans.retry()
  assert.equal(asked.length, 1_200)
  assert.deepEqual(
    new Set(asked.slice(1_000).map(({ order }) => order)),
    new Set(asked.slice(0, 200).map(({ order }) => order)),
  )
  answer(1_000, 1_200, reject('ORDER_NOT_FOUND'))
  assert.equal(orphans.size, 0)
  orphans.retry()
  assert.equal(asked.length, 1_200)
})

test('a mailbox that refuses at once is asked again later, and not in a circle', () => {
  let asked = 0
  let full = true
  const orphans = new OrphanedOrders((_, answered) => {
    asked++
    answered(full ? reject('OVERLOADED') : reject('ORDER_CLOSED'))
  })
  orphans.add(Array.from({ length: 50_000 }, () => held('o')))
  assert.deepEqual([asked, orphans.size], [50_000, 50_000])
  full = false
  orphans.retry()
  assert.deepEqual([asked, orphans.size], [100_000, 0])
})
