import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openCollector } from '../support/collector.ts'
import { eventually } from '../support/eventually.ts'
import { openSettled, type Way } from '../support/settled.ts'

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'
const CALLER = '00f067aa0ba902b7'

test('one trace id leads from an HTTP request to the hash of the transaction that settles its trade', async (t) => {
  const collector = await openCollector()
  t.after(collector.close)
  const s = await openSettled({
    environment: {
      SIBYL_TRACES_URL: collector.url,
      // Only the first order of each front, and those whose client asks.
      SIBYL_TRACES_EVERY: '1000000',
      SIBYL_FRONT_THREADS: '1',
      SIBYL_RISK_FUNDS: 'reserve',
      SIBYL_SETTLEMENT_BATCH_WAIT_MS: '50',
    },
  })
  t.after(() => s.dispose())
  const terms = { marketId: s.marketId, outcome: 'YES', price: '0.5', ttlSeconds: 3_600 } as const
  const sell = { ...terms, side: 'sell', size: '1' } as const
  // A first order that is refused because the chain is not read yet would use up the sample. The SDK repeats this read.
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
  // Each thread sends its spans by itself, about once a second.
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

  // The first order was sampled by its turn and rested: its trace has the trade that it met later.
  await eventually(() => {
    const others = collector.spans.filter(({ traceId }) => traceId !== TRACE_ID)
    assert.equal(new Set(others.map(({ traceId }) => traceId)).size, 1, 'the second is not sampled')
    assert.equal(others.filter(({ name }) => name === 'confirm').length, 1)
  })
})
