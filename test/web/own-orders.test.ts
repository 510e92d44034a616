/** The account's open orders, updated from the stream. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { OrdersMessage } from '#protocol/shapes/stream.ts'
import { applyOrders } from '#web/state/own-orders.ts'

const order = (orderHash: string, marketId = 'm', remainingSize = 10) => ({
  ...{ orderHash, marketId, side: 0, outcome: 0, price: 420_000, size: 10, remainingSize },
  ...{ status: 'accepted', ts: 1 },
})
const told = (message: object) => ({ sub: '1', ...message }) as OrdersMessage
const hashes = (orders: ReturnType<typeof applyOrders>) => orders?.map(({ orderHash }) => orderHash)

test('the list of own orders starts with a snapshot, follows each message, and drops orders of closed markets', () => {
  const first = { type: 'orders.snapshot', orders: [order('a'), order('b')], nextCursor: null }
  let open = applyOrders(undefined, told(first))
  assert.deepEqual(hashes(open), ['b', 'a'], 'the newest first')
  open = applyOrders(open, told({ type: 'order', ...order('c', 'n') }))
  assert.deepEqual(hashes(open), ['c', 'b', 'a'])
  const filled = { orderHash: 'a', status: 'partially_filled', remainingSize: 4 }
  open = applyOrders(open, told({ type: 'order', ...filled }))
  assert.deepEqual(open?.[2], { ...told({ type: 'order', ...order('a') }), ...filled })
  open = applyOrders(open, told({ type: 'order', ...order('b'), status: 'filled' }))
  assert.deepEqual(hashes(open), ['c', 'a'])
  open = applyOrders(open, told({ type: 'order', ...order('x'), status: 'cancelled' }))
  assert.deepEqual(hashes(open), ['c', 'a'], 'one that was never open is no loss')
  open = applyOrders(open, told({ type: 'orders.ended', marketId: 'm' }))
  assert.deepEqual(hashes(open), ['c'])
})

test('the page ignores a snapshot of own orders that is only the first part of the list', () => {
  const part = { type: 'orders.snapshot', orders: [order('a')], nextCursor: 'more' }
  assert.equal(applyOrders(undefined, told(part)), undefined)
  assert.equal(applyOrders(undefined, told({ type: 'order', ...order('b') })), undefined)
})
