import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel, Worker } from 'node:worker_threads'
import { type HeldOrder, OrderHolds } from '#actors/order-holds.ts'
import { BUY } from '#domain/order.ts'
import { Channel } from '#runtime/channel.ts'
import { eventually } from '../support/eventually.ts'
import { hashNamed, traderNamed } from '../support/orders.ts'
import { MARKET_ID } from './market-fixture.ts'

const held = (name: string): HeldOrder => ({
  marketId: MARKET_ID,
  orderHash: hashNamed(name),
  side: BUY,
  trader: traderNamed('ann'),
})

test('what is held is what was neither released nor dropped', () => {
  const holds = new OrderHolds()
  const hold = (session: string, name: string) =>
    holds.hear('HoldOrder', { session, order: held(name) })
  assert.deepEqual(hold('s', 'a'), { held: true })
  hold('s', 'a')
  hold('s', 'b')
  hold('t', 'c')
  hold('u', 'd')
  holds.hear('ReleaseOrder', { session: 's', orderHash: hashNamed('a') })
  holds.hear('ReleaseOrder', { session: 's', orderHash: hashNamed('c') })
  holds.hear('ReleaseOrder', { session: 'x', orderHash: hashNamed('c') })
  holds.hear('DropSession', { session: 'u' })
  assert.deepEqual(holds.takeAll(), [held('b'), held('c')])
  assert.deepEqual(holds.takeAll(), [])
  assert.ok(!holds.hears('PlaceOrder'))
})

test('a thread that dies leaves its orders to whoever holds them', async () => {
  const { port1, port2 } = new MessageChannel()
  const holds = new OrderHolds()
  const cancelled: HeldOrder[] = []
  let heard = 0
  const options = { inFlightMax: 10, batchMax: 10, deadlineMs: 1_000 }
  new Channel(port1, options, {
    heard(type, message) {
      if (holds.hears(type)) holds.hear(type, message)
      heard++
    },
    closed: () => cancelled.push(...holds.takeAll()),
  })
  const worker = new Worker(
    `const { workerData } = require('node:worker_threads')
    const { port, orders } = workerData
    for (const order of orders) port.postMessage(['HoldOrder', 0, { session: 's', order }])
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
