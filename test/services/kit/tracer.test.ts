import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Registry } from 'prom-client'
import { loadSettings } from '#config/settings.ts'
import type { ThreadData } from '#config/thread-data.ts'
import { parseTraceparent } from '#runtime/trace.ts'
import { makeTracer } from '#services/kit/tracer.ts'
import { realWorld } from '#services/kit/world.ts'

const PARENT = `00-${'ab'.repeat(16)}-${'cd'.repeat(8)}`

function openTracer(environment: Record<string, string>) {
  const warnings: string[] = []
  const bodies: string[] = []
  const state = { nowMs: 1_000_000, status: 200, ticks: [] as (() => void)[] }
  const log = { warn: (_: object, message: string) => void warnings.push(message), info() {} }
  const registry = new Registry()
  const data = { settings: loadSettings(environment), name: 'front-0' } as ThreadData
  const tracer = makeTracer(
    data,
    { log, registry, random: realWorld.random, every: (_, act) => void state.ticks.push(act) },
    {
      wallMs: () => state.nowMs,
      originMs: 0,
      async post(_url, body) {
        bodies.push(body)
        return state.status
      },
    },
  )
  const counted = async () => {
    const metric = await registry.getSingleMetric('sibyl_trace_spans_total')?.get()
    return Object.fromEntries(
      (metric?.values ?? []).map(({ labels, value }) => [labels.result, value]),
    )
  }
  /** Sends the waiting spans, and waits for the answer. */
  const tick = async () => {
    for (const act of state.ticks) act()
    await new Promise((done) => setImmediate(done))
  }
  return { tracer, warnings, bodies, state, counted, tick }
}

const ON = { SIBYL_TRACES_URL: 'http://127.0.0.1:4318/v1/traces' }

test('a traceparent header is parsed as in the standard, and an invalid one is ignored', () => {
  assert.deepEqual(parseTraceparent(`${PARENT}-01`), {
    ...{ traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), isSampled: true },
  })
  assert.equal(parseTraceparent(`${PARENT}-00`)?.isSampled, false)
  assert.equal(
    parseTraceparent(`cc${PARENT.slice(2)}-01-what-a-later-version-adds`)?.isSampled,
    true,
  )
  for (const wrong of [
    ...['', 'x', `${PARENT}`, `ff${PARENT.slice(2)}-01`, `${PARENT.toUpperCase()}-01`],
    ...[`00-${'0'.repeat(32)}-${'cd'.repeat(8)}-01`, `00-${'ab'.repeat(16)}-${'0'.repeat(16)}-01`],
    `${PARENT}-01-${'x'.repeat(200)}`,
  ]) {
    assert.equal(parseTraceparent(wrong), undefined, wrong)
  }
})

test('tracing is off if no collector address is configured', () => {
  assert.equal(openTracer({}).tracer, undefined)
})

test('the tracer traces every nth request, plus at most ten per second that ask for a trace', () => {
  const { tracer, state } = openTracer({ ...ON, SIBYL_TRACES_EVERY: '4' })
  const begun = (header: string, times: number) =>
    Array.from({ length: times }, () => tracer?.begin('POST /x', header)).filter(Boolean).length
  assert.equal(begun('', 8), 2)
  assert.equal(begun(`${PARENT}-00`, 8), 2)
  assert.equal(begun(`${PARENT}-01`, 40), 10 + 10, 'a stranger cannot have all of them traced')
  state.nowMs += 1_000
  assert.equal(begun(`${PARENT}-01`, 4), 4)
})

test('spans wait in a bounded queue, and are dropped if the collector fails', async () => {
  const { tracer, warnings, bodies, state, counted, tick } = openTracer({
    ...ON,
    SIBYL_TRACES_EVERY: '1',
  })
  state.status = 503
  const parent = `${PARENT}-01`
  for (let span = 0; span < 6_000; span++) tracer?.add(parent, 'x', { fromMs: 1, toMs: 2 })
  const dropped = (await counted()).dropped ?? 0
  assert(dropped > 1_000 && dropped < 6_000)
  for (let turn = 0; turn < 12; turn++) await tick()
  assert.equal((await counted()).dropped, 6_000)
  assert.deepEqual(warnings, ['the collector of traces does not accept spans'])
  assert(bodies.every((body) => body.length < 512 * 400))

  state.status = 200
  const open = tracer?.begin('POST /x', parent)
  open?.part('verify', 5, 7)
  const child = open?.child('order')
  child?.part('match', 6, 7)
  child?.end({})
  open?.end({ 'http.response.status_code': 503 }, true)
  await tick()
  assert.equal((await counted()).sent, 4)
  const sent = JSON.parse(bodies.at(-1) ?? '') as {
    resourceSpans: { scopeSpans: { spans: Record<string, unknown>[] }[] }[]
  }
  const [part, match, order, request] = sent.resourceSpans[0]?.scopeSpans[0]?.spans ?? []
  assert.equal(part?.traceId, 'ab'.repeat(16))
  assert.equal(part.parentSpanId, request?.spanId)
  assert.deepEqual([part.startTimeUnixNano, part.endTimeUnixNano], ['5000000', '7000000'])
  assert.equal(request?.parentSpanId, 'cd'.repeat(8))
  assert.deepEqual(request.status, { code: 2 })
  assert.equal(match?.parentSpanId, order?.spanId)
  assert.deepEqual([order?.parentSpanId, order?.traceId], [request.spanId, part.traceId])
  assert.deepEqual([match?.name, order?.name, order?.status], ['match', 'order', {}])

  tracer?.begin('POST /x', '')?.end({})
  await tick()
  assert(!bodies.at(-1)?.includes('parentSpanId'), 'the first span of a trace has no parent')
})
