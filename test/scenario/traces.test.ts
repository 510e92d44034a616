import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StreamClient } from '../stream/stream-fixture.ts'
import { type CollectedSpan, openCollector } from '../support/collector.ts'
import { eventually } from '../support/eventually.ts'
import { openSettled, type Way } from '../support/settled.ts'

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'
const BATCH_ID = '5c0f92f3577b34da6a3ce929d0e0e473'
const REPLACING_ID = '6c0f92f3577b34da6a3ce929d0e0e473'
const STREAM_ID = '7c0f92f3577b34da6a3ce929d0e0e473'
const CALLER = '00f067aa0ba902b7'

test('all spans of an order, from its HTTP request to its settlement, have one trace id', async (t) => {
  const collector = await openCollector()
  t.after(collector.close)
  const s = await openSettled({
    environment: {
      SIBYL_TRACES_URL: collector.url,
      // Traces only the first order of each front, and requests that carry a trace id.
      SIBYL_TRACES_EVERY: '1000000',
      SIBYL_FRONT_THREADS: '1',
      SIBYL_RISK_FUNDS: 'reserve',
      SIBYL_SETTLEMENT_BATCH_WAIT_MS: '50',
    },
  })
  t.after(() => s.dispose())
  const terms = { marketId: s.marketId, outcome: 'YES', price: '0.5', ttlSeconds: 3_600 } as const
  const sell = { ...terms, side: 'sell', size: '1' } as const
  // Only the first order is sampled, even if it is refused because the exchange has not read the chain yet. So the test
  // reads funds first: the SDK retries that read until the exchange has read the chain.
  await s.clientOf(10).funds()
  await s.clientOf(10).orders.place(sell)
  await s.clientOf(10).orders.place(sell)

  const order = await s.clientOf(11).orders.sign({ ...terms, side: 'buy', size: '2' })
  const answer = await fetch(`${s.exchange.url}/api/v1/orders`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      traceparent: `00-${TRACE_ID}-${CALLER}-01`,
      'x-request-id': 'the-taker',
    },
    body: JSON.stringify(order),
  })
  assert.equal(answer.status, 200, await answer.text())
  const trades = await eventually(async () => {
    const found = (await s.get<{ trades: Way[] }>(`/api/v1/trades/${s.marketId}`)).trades
    assert.deepEqual(
      found.map(({ status }) => status),
      ['confirmed', 'confirmed'],
    )
    return found
  })

  const traced = () => collector.spans.filter(({ traceId }) => traceId === TRACE_ID)
  const named = (name: string) => traced().filter((span) => span.name === name)
  // Each thread sends its own spans, about once a second.
  await eventually(() => {
    const threads = new Map(traced().map(({ name, thread }) => [name, thread]))
    assert.deepEqual(Object.fromEntries(threads), {
      ...{ 'POST /api/v1/orders': 'front-0', parse: 'front-0', verify: 'front-0' },
      ...{ reserve: 'front-0', queue: 'front-0', match: 'front-0', commit: 'front-0' },
      ...{ answer: 'front-0', project: 'store', settle: 'settlement', confirm: 'settlement' },
    })
    assert.equal(named('confirm').length, 2)
  })
  const [root] = named('POST /api/v1/orders')
  assert.equal(root?.parentSpanId, CALLER)
  assert.equal(root.attributes['http.response.status_code'], '200')
  assert.equal(root.attributes['sibyl.request.id'], 'the-taker')
  for (const { name, parentSpanId, fromMs, toMs } of traced().filter((span) => span !== root)) {
    assert.equal(parentSpanId, root.spanId, name)
    assert(fromMs <= toMs, name)
  }
  for (const { tradeId, txHash } of trades) {
    const confirmed = named('confirm').find((span) => span.attributes['sibyl.trade.id'] === tradeId)
    assert.equal(confirmed?.attributes['sibyl.transaction.hash'], txHash)
  }

  // The first order was sampled. It rested, so its trace includes the later trade.
  await eventually(() => {
    const others = collector.spans.filter(({ traceId }) => traceId !== TRACE_ID)
    assert.equal(new Set(others.map(({ traceId }) => traceId)).size, 1, 'the second is not sampled')
    assert.equal(others.filter(({ name }) => name === 'confirm').length, 1)
  })

  const inTrace = (traceId: string) => collector.spans.filter((span) => span.traceId === traceId)
  const partsOf = (parent: CollectedSpan | undefined) =>
    inTrace(parent?.traceId ?? '')
      .filter(({ parentSpanId }) => parentSpanId === parent?.spanId)
      .map(({ name }) => name)
      .sort()
  const ENTERED = ['answer', 'commit', 'match', 'queue', 'reserve', 'verify']
  const SETTLED = ['confirm', 'project', 'settle']

  await t.test('a batch that is traced has one span for each of its orders', async () => {
    const { orders } = s.clientOf(11)
    await s.clientOf(10).orders.place(sell)
    const [meets, rests] = [
      await orders.sign({ ...terms, side: 'buy', size: '1' }),
      await orders.sign({ ...terms, price: '0.1', side: 'buy', size: '10' }),
    ]
    const results = await placeBatch(s.exchange.url, BATCH_ID, [meets, rests, { order: {} }])
    const [, resting] = results
    await eventually(() => {
      const [batch] = inTrace(BATCH_ID).filter(({ parentSpanId }) => parentSpanId === CALLER)
      assert.equal(batch?.name, 'POST /api/v1/orders/batch')
      assert.deepEqual(partsOf(batch), ['order', 'order', 'order', 'parse'])
      const [met, rested, refused] = inTrace(BATCH_ID).filter(({ name }) => name === 'order')
      assert.deepEqual(
        [met, rested, refused].map((span) => span?.attributes['sibyl.result']),
        ['accepted', 'accepted', 'MISSING_FIELD'],
      )
      assert.equal(rested?.attributes['sibyl.order.hash'], resting?.orderHash)
      assert.deepEqual(partsOf(met), [...ENTERED, ...SETTLED].sort())
      assert.deepEqual(partsOf(rested), ENTERED)
      assert.deepEqual(partsOf(refused), [])
    })
    const next = await orders.sign({ ...terms, price: '0.11', side: 'buy', size: '10' })
    await placeBatch(s.exchange.url, REPLACING_ID, [{ ...next, replaces: resting?.orderHash }])
    await eventually(() => {
      const [replaced] = inTrace(REPLACING_ID).filter(({ name }) => name === 'order')
      assert.deepEqual(partsOf(replaced), ENTERED)
    })
  })

  await t.test('orders and cancels over the stream are traced', async (subtest) => {
    const traceparent = `00-${STREAM_ID}-${CALLER}-01`
    const stream = await StreamClient.open(`${s.exchange.url.replace('http', 'ws')}/api/v1/stream`)
    subtest.after(() => stream.close())
    await s.clientOf(10).orders.place(sell)
    const { orders } = s.clientOf(11)
    const meets = await orders.sign({ ...terms, side: 'buy', size: '2' })
    const { orderHash } = await stream.ask({ op: 'place', ...meets, traceparent }, 'placed')
    const { marketId } = terms
    await stream.ask({ op: 'cancel', orderHash, marketId, traceparent }, 'cancelled')
    const bad = { op: 'cancel', orderHash, marketId, traceparent: 'mine' }
    const refused = await stream.ask(bad, 'error')
    assert.deepEqual([refused.code, refused.field], ['INVALID_FIELD', 'traceparent'])
    await eventually(() => {
      const roots = inTrace(STREAM_ID).filter(({ parentSpanId }) => parentSpanId === CALLER)
      assert.deepEqual(
        roots.map(({ name, attributes }) => [name, attributes['sibyl.result']]),
        [
          ['stream place', 'accepted'],
          ['stream cancel', 'accepted'],
        ],
      )
      assert.equal(roots[0]?.attributes['sibyl.order.hash'], orderHash)
      assert.deepEqual(partsOf(roots[0]), [...ENTERED, ...SETTLED].sort())
      assert.deepEqual(partsOf(roots[1]), ['answer', 'commit', 'match', 'queue'])
    })
  })
})

async function placeBatch(url: string, traceId: string, orders: readonly object[]) {
  const answer = await fetch(`${url}/api/v1/orders/batch`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', traceparent: `00-${traceId}-${CALLER}-01` },
    body: JSON.stringify({ orders }),
  })
  const text = await answer.text()
  assert.equal(answer.status, 200, text)
  return (JSON.parse(text) as { results: { orderHash?: string }[] }).results
}
