/** Two traders follow the same book over the stream, through a kill and a restart. */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { createClient } from '#client/client.ts'
import { createStream } from '#client/stream.ts'
import type { StreamEvents } from '#client/stream-types.ts'
import type { OrdersMessage, TradesMessage } from '#protocol/shapes/stream.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { traderNumbered } from '../support/signed-orders.ts'

const ann = traderNumbered(51)
const bob = traderNumbered(52)
const carol = traderNumbered(53)

export type Following = {
  /** Called after a kill, before the exchange is restarted. */
  readonly whileGone: () => Promise<void>
  /** Called when the exchange runs again on the same port, to which the stream reconnects. */
  readonly whenBack: () => Promise<void>
  /** Called after a planned stop of the exchange. */
  readonly whenStopped: () => Promise<void>
}

/**
 * Opens a stream that follows a market's book until the test ends, and trades. Returns checks for a kill, a
 * restart and a planned stop.
 */
export async function followBook(
  t: TestContext,
  exchange: Exchange,
  marketId: string,
): Promise<Following> {
  const client = (key: `0x${string}`) =>
    createClient({ url: exchange.url, chainId: 31_337, signer: key })
  const intent = {
    marketId,
    outcome: 'YES' as const,
    ttlSeconds: 3_600,
  }

  const stream = createStream({ url: exchange.url, backoffMs: 20, backoffMsMax: 200 })
  t.after(() => stream.close())
  const events: [keyof StreamEvents, unknown][] = []
  for (const event of ['open', 'closed', 'subscribed', 'reset', 'gap', 'checksum'] as const) {
    stream.on(event, (news) => events.push([event, news]))
  }
  const trades: TradesMessage[] = []
  const orders: OrdersMessage[] = []
  const { book, ready } = stream.book({ marketId, outcome: 'YES' })
  const conflated = stream.book({ marketId, outcome: 'YES', maxHz: 20 })
  await ready
  await conflated.ready
  await stream.trades(marketId, (message) => trades.push(message)).ready
  await stream.orders(ann.address, (message) => orders.push(message)).ready

  async function inStep(): Promise<void> {
    const { bids, asks } = await client(ann.key).orderbook(marketId, 'YES')
    await eventually(() => {
      for (const each of [book, conflated.book]) {
        assert.deepEqual({ bids: each.bids(), asks: each.asks() }, { bids, asks })
      }
    })
  }

  // Ann places her order over the stream, Bob over HTTP.
  const signedByAnn = await client(ann.key).orders.sign({
    ...intent,
    side: 'buy',
    price: '0.42',
    size: '10',
  })
  const placed = await stream.place(signedByAnn)
  assert.equal(placed.matches, 0)
  const again = await stream.place(signedByAnn)
  assert.equal(again.duplicate, true)
  await inStep()
  await client(bob.key).orders.place({ ...intent, side: 'sell', price: '0.42', size: '4' })
  await inStep()
  await eventually(() => {
    const [trade] = trades.filter(({ type }) => type === 'trade')
    assert.ok(trade?.type === 'trade')
    assert.deepEqual([trade.price, trade.size, trade.takerSide], [420_000, 4_000_000, 1])
    assert.equal(trade.buyer, ann.address)
  })
  const statuses = () =>
    orders.flatMap((message) =>
      message.type === 'order' ? [[message.status, message.remainingSize]] : [],
    )
  await eventually(() =>
    assert.deepEqual(statuses(), [
      ['accepted', 10_000_000],
      ['partially_filled', 6_000_000],
    ]),
  )

  // The options of an order work over the stream as they do over HTTP.
  const other = { ...intent, outcome: 'NO' as const, price: '0.3' }
  const offer = await client(bob.key).orders.sign({ ...other, side: 'sell', size: '2' })
  const bid = (size: string) => client(carol.key).orders.sign({ ...other, side: 'buy', size })
  assert.equal((await stream.place({ ...offer, postOnly: true })).matches, 0)
  const five = await bid('5')
  const refused = (options: object) =>
    stream.place({ ...five, ...options }).then(
      () => assert.fail('it was placed'),
      ({ code, field }) => [code, field],
    )
  assert.deepEqual(await refused({ postOnly: true }), ['POST_ONLY_WOULD_MATCH', 'postOnly'])
  assert.deepEqual(await refused({ timeInForce: 'FOK' }), ['ORDER_NOT_FILLED', 'timeInForce'])
  assert.deepEqual(await refused({ postOnly: true, timeInForce: 'IOC' }), [
    'INVALID_FIELD',
    'timeInForce',
  ])
  const filled = await stream.place({ ...five, timeInForce: 'IOC' })
  assert.deepEqual([filled.matches, filled.filled], [1, 2_000_000])
  const { bids, asks } = await client(carol.key).orderbook(marketId, 'NO')
  assert.deepEqual([bids, asks], [[], []])
  const late = await bid('1')
  await assert.rejects(stream.place({ ...late, timeInForce: 'IOC' }), { code: 'ORDER_NOT_FILLED' })

  async function whileGone(): Promise<void> {
    await eventually(() => assert.ok(events.some(([name]) => name === 'closed')))
  }

  async function whenBack(): Promise<void> {
    await eventually(() => assert.equal(events.filter(([name]) => name === 'open').length, 2))
    await inStep()
    await stream.cancel({ orderHash: placed.orderHash, marketId, side: 'buy' })
    await inStep()
    assert.deepEqual(book.bids(), [])
    await eventually(() => assert.deepEqual(statuses().at(-1), ['cancelled', 6_000_000]))
    await assert.rejects(stream.cancel({ orderHash: placed.orderHash, marketId, side: 'buy' }), {
      code: 'ORDER_CLOSED',
    })
    // The new process does not know the cursors of the old process, so it sends a reset. The books are unchanged.
    const resets = events.flatMap(([name, news]) =>
      name === 'reset' ? [(news as StreamEvents['reset']).sub.split(':')[0]] : [],
    )
    assert.ok(resets.includes('orders'), String(resets))
    assert.ok(!events.some(([name]) => name === 'gap' || name === 'checksum'))
  }

  async function whenStopped(): Promise<void> {
    await eventually(() => {
      const last = events.findLast(([name]) => name === 'closed')?.[1]
      assert.ok((last as StreamEvents['closed']).code >= 1006)
    })
    assert.ok(
      events.some(
        ([name, news]) => name === 'closed' && (news as StreamEvents['closed']).code === 1012,
      ),
    )
  }

  return { whileGone, whenBack, whenStopped }
}
