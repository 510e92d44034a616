/**
 * Tests the short forms of messages on a real channel: each message arrives unchanged, whether or not it has a short
 * form.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageChannel } from 'node:worker_threads'
import type { Address, MarketId, Uint64 } from '#domain/ids.ts'
import { ZERO_ADDRESS } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { NO, SELL, type VerifiedOrder } from '#domain/order.ts'
import { reject } from '#domain/rejection.ts'
import type { MarketProtocol, OrderAccepted, OrderCancelled } from '#protocol/market.ts'
import { MARKET_FORMS } from '#protocol/market-forms.ts'
import { Channel, type ChannelOptions, type Form } from '#runtime/channel.ts'
import { hashNamed, traderNamed } from '../support/orders.ts'

type Takes = { [K in keyof MarketProtocol]: MarketProtocol[K]['takes'] }

const OPTIONS: ChannelOptions = { inFlightMax: 200, batchMax: 64, deadlineMs: 60_000 }

/** An order with every field: if a field is added to the type, this does not compile until it is added here. */
const order: Required<VerifiedOrder> = {
  marketId: hashNamed('m') as string as MarketId,
  trader: traderNamed('ann'),
  side: SELL,
  outcome: NO,
  price: 420_000 as Price,
  size: Number.MAX_SAFE_INTEGER as Shares,
  nonce: '18446744073709551615' as Uint64,
  expiration: '1800000000' as Uint64,
  makerFeeRecipient: ZERO_ADDRESS as Address,
  orderHash: hashNamed('a'),
  signature: `0x${'1b'.repeat(65)}`,
  permit: { deadline: '1800000001', v: 27, r: '0x01', s: '0x02' } as never,
}
const { permit: _, ...unpermitted } = order
const cancel: Required<Takes['CancelOrder']> = {
  marketId: order.marketId,
  orderHash: order.orderHash,
  side: SELL,
  trader: order.trader,
  requestId: 'r1',
}
const placed: Required<Omit<Takes['PlaceOrder'], 'trace' | 'reservedUntilMs'>> = {
  ...{ order, requestId: 'r1', session: 's1' },
  timeInForce: 'IOC',
  tags: { label: 'a', group: 'b', protection: { windowMs: 5, fillsMax: 1 } },
  bookByMs: 1_800_000_000_000,
  reservedMs: 10_000,
  replaces: hashNamed('b'),
  replaceMode: 'always',
}

const requests: [keyof MarketProtocol, object][] = [
  ['PlaceOrder', placed],
  ['PlaceOrder', { ...placed, trace: `00-${'a1'.repeat(16)}-${'b2'.repeat(8)}-01` }],
  ['PlaceOrder', { order: unpermitted }],
  ['PlaceOrder', { order, requestId: 'r2' }],
  ['PlaceOrder', { order: unpermitted, session: 's2' }],
  ['PlaceOrder', { order: unpermitted, timeInForce: 'POST_ONLY' }],
  ['PlaceOrder', { order: unpermitted, tags: { label: 'a' } }],
  ['PlaceOrder', { order: unpermitted, bookByMs: 7 }],
  ['PlaceOrder', { order: unpermitted, reservedMs: 7 }],
  ['PlaceOrder', { order: unpermitted, replaces: hashNamed('c') }],
  ['CancelOrder', cancel],
  ['CancelOrder', { marketId: order.marketId, orderHash: order.orderHash, side: SELL }],
  [
    'CancelOrder',
    { marketId: order.marketId, orderHash: order.orderHash, side: SELL, requestId: 'r3' },
  ],
  ['Snapshot', { marketId: order.marketId }],
]

const again: Required<OrderAccepted> = {
  orderHash: order.orderHash,
  status: 'accepted',
  matches: 3,
  timestamp: 17,
  duplicate: true,
  filled: 7,
}
const { duplicate: __, filled: ____, ...accepted } = again
const { filled: _____, ...duplicate } = again
const pending: Required<OrderCancelled> = {
  status: 'cancelled',
  orderHash: order.orderHash,
  pendingSize: 5,
}
const { pendingSize: ___, ...cancelled } = pending
const answers: object[] = [
  accepted,
  { ...accepted, filled: 9 },
  duplicate,
  again,
  cancelled,
  pending,
  reject('OVERLOADED', undefined, 'later'),
  reject('PRICE_OUT_OF_RANGE', 'order.price'),
]

/**
 * Sends every request once for each prepared answer. Returns the messages that each side received, and the messages
 * that it should receive.
 */
async function exchange(near: ChannelOptions, far: ChannelOptions) {
  const { port1, port2 } = new MessageChannel()
  const received: [string, unknown][] = []
  const market = new Channel<never>(port2, far, {
    received(type, message, replyTo) {
      received.push([type, message])
      market.reply(replyTo, answers[(received.length - 1) % answers.length])
    },
  })
  const front = new Channel<MarketProtocol>(port1, near, { received() {} })
  const all = answers.flatMap(() => requests)
  const got = await Promise.all(all.map(([type, message]) => front.ask(type, message as never)))
  front.close()
  const wanted = all.map((_, at) => answers[at % answers.length])
  return { received, all, got, wanted }
}

/** Forms of an older front: without the last form, which contains `reservedMs`. */
const OLDER_FORMS = { ...MARKET_FORMS, requests: MARKET_FORMS.requests.slice(0, 2) }
const formed = { ...OPTIONS, forms: MARKET_FORMS }

test('orders, cancels and answers keep all fields when a front and a market thread exchange them', async () => {
  const { received, all, got, wanted } = await exchange(formed, formed)
  assert.deepEqual(received, all)
  assert.deepEqual(got, wanted)
})

test('orders from a front of an older version reach the market thread unchanged', async () => {
  const older = { ...OPTIONS, forms: OLDER_FORMS }
  const { received, all, got, wanted } = await exchange(older, formed)
  const known = all.map(([type, message]) => {
    if ('trace' in message) return [type, message]
    const { reservedMs: _, ...before } = message as Takes['PlaceOrder']
    return [type, before]
  })
  assert.deepEqual(received, known)
  assert.deepEqual(got, wanted)
})

test('a thread that knows packed messages also answers a caller that sends only unpacked messages', async () => {
  const { received, all, got, wanted } = await exchange(OPTIONS, formed)
  assert.deepEqual(received, all)
  assert.deepEqual(got, wanted)
})

test('orders, cancels and their frequent answers are sent between threads in a packed form', () => {
  const fits = (form: Form<unknown> | undefined, message: object): boolean => {
    const cells: unknown[] = []
    const isWritten = form?.write(message, cells) ?? false
    assert.equal(cells.length, isWritten ? form?.cells : 0)
    return isWritten
  }
  const [, cancelForm, place] = MARKET_FORMS.requests
  assert.ok(fits(place, placed) && fits(cancelForm, cancel))
  const taken = answers.map(
    (answer) => MARKET_FORMS.answers.filter((form) => fits(form, answer)).length,
  )
  assert.deepEqual(taken, [1, 1, 1, 1, 1, 1, 0, 0])
})
