import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Check } from 'typebox/value'
import { outcomeToken, STABLECOIN } from '#domain/funds.ts'
import { compileValidator } from '#http/validate.ts'
import type { FundsView } from '#protocol/accounts.ts'
import { SERVER_FRAMES } from '#protocol/shapes/stream.ts'
import { OP_FRAMES, SUBSCRIBE_FRAMES } from '#stream/frames.ts'
import { asyncapi } from '#stream/routes/asyncapi.ts'
import { startTestFront } from '../http/front-fixture.ts'
import { eventually } from '../support/eventually.ts'
import { buy, sell, traderNamed } from '../support/orders.ts'
import { marketIdOf, priceOf, quickMarketOf, startStream } from './stream-fixture.ts'

type Json = Record<string, unknown>

async function documentOf(t: TestContext): Promise<Json> {
  const { url } = await startTestFront(
    t,
    {},
    { routes: [asyncapi({ title: 'Sibyl', version: '1.2.3' })] },
  )
  return (await (await fetch(`${url}/asyncapi.json`)).json()) as Json
}

/** Resolves a JSON pointer of the document. */
function resolve(document: Json, pointer: string): unknown {
  let at: unknown = document
  for (const step of pointer.replace(/^#\//, '').split('/')) at = (at as Json | undefined)?.[step]
  return at
}

test('the document of the stream is valid AsyncAPI 3', async (t) => {
  const document = await documentOf(t)
  assert.equal(document.asyncapi, '3.0.0')
  const { title, version } = document.info as Json
  assert.deepEqual([title, version], ['Sibyl stream', '1.2.3'])
  const known = ['asyncapi', 'id', 'info', 'servers', 'defaultContentType', 'channels']
  for (const key of Object.keys(document)) {
    assert.ok([...known, 'operations', 'components'].includes(key), key)
  }
  for (const server of Object.values(document.servers as Json)) {
    const { host, protocol } = server as Json
    assert.ok(typeof host === 'string' && protocol === 'ws')
  }
  const references: string[] = []
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    for (const [key, part] of Object.entries(value)) {
      if (key === '$ref') references.push(part as string)
      else walk(part)
    }
  }
  walk(document)
  assert.ok(references.length > 50)
  for (const reference of references) {
    assert.notEqual(resolve(document, reference), undefined, reference)
  }
  const { stream } = document.channels as Record<string, Json>
  assert.equal(stream?.address, '/api/v1/stream')
  const names = Object.keys(stream?.messages as Json)
  for (const name of names) assert.match(name, /^[A-Za-z0-9._-]+$/)
  const operations = Object.values(document.operations as Record<string, Json>)
  for (const { action, channel, messages, reply } of operations) {
    assert.ok(action === 'send' || action === 'receive')
    assert.deepEqual(channel, { $ref: '#/channels/stream' })
    const replies = (reply as { messages: Json[] } | undefined)?.messages ?? []
    // An operation refers to the messages of its channel, never directly to the components.
    for (const { $ref } of [...(messages as Json[]), ...replies]) {
      assert.ok(($ref as string).startsWith('#/channels/stream/messages/'))
    }
  }
  const { messages } = document.components as Record<string, Record<string, Json>>
  assert.deepEqual(Object.keys(messages ?? {}), names)
  for (const [name, message] of Object.entries(messages ?? {})) {
    const payload = message.payload as Json
    assert.equal(payload.type, 'object', name)
    const properties = payload.properties as Json
    assert.ok('op' in properties || 'type' in properties, name)
  }
})

test('the schema of each client frame refuses unknown fields', () => {
  for (const schema of [...Object.values(SUBSCRIBE_FRAMES), ...Object.values(OP_FRAMES)]) {
    assert.equal((schema as { additionalProperties?: unknown }).additionalProperties, false)
    compileValidator(schema)
  }
})

test('the messages that the stream sends conform to its AsyncAPI document', async (t) => {
  const amounts = { held: '5', allowed: '5', reservedOpen: '1', reservedPending: '1', free: '3' }
  const funds: FundsView = {
    ...{ chainId: 7, trader: traderNamed('ann'), blockNumber: 1 },
    tokens: [
      { token: STABLECOIN, ...amounts },
      { token: outcomeToken(marketIdOf(0), 1), ...amounts },
    ],
  }
  const stream = await startStream(t, {
    settings: { heartbeatMs: 160 },
    parts: {
      assets: ['BTC'],
      funds: { gateway: { funds: async () => funds }, chainIds: new Set([7]) },
    },
  })
  const [market] = stream.markets
  const client = await stream.connect()
  const marketId = marketIdOf(0)
  const trader = traderNamed('ann')
  for (const request of [
    { channel: 'book', marketId, outcome: 0 },
    { channel: 'trades', marketId },
    { channel: 'orders', trader },
    { channel: 'funds', trader, chainId: 7 },
    { channel: 'market', marketId },
    { channel: 'market' },
    { channel: 'ticker' },
    { channel: 'price', asset: 'BTC' },
    { channel: 'quick-market', asset: 'BTC' },
    { channel: 'gossip' },
  ]) {
    client.say({ op: 'subscribe', ...request })
  }
  client.say({ op: 'ping', id: 1 })
  await client.next('orders.snapshot')
  await eventually(() => assert(client.frames.some(({ type }) => type === 'ticker.snapshot')))
  market!.place(buy('YES').at(0.42).size(10).by('ann').named('a'))
  market!.place(sell('YES').at(0.42).size(4).by('bob').named('b'))
  market!.report('b', { status: 'submitted' })
  market!.ask('CloseMarket', { marketId, reason: 'expired' })
  stream.flow()
  stream.hub.marketHappened(marketId, 'resolved', { winningOutcome: 0, txHash: '0x1' }, 5)
  await client.next('funds.snapshot')
  stream.hub.fundsChanged(trader, 7)
  await client.next('funds')
  stream.hub.priced('BTC', priceOf(1))
  stream.hub.quickMarket('BTC', { event: 'opened', quickMarket: quickMarketOf(1), atMs: 6 })
  const late = await stream.connect()
  late.say({ op: 'subscribe', channel: 'market', marketId })
  late.say({ op: 'subscribe', channel: 'price', asset: 'BTC' })
  late.say({ op: 'subscribe', channel: 'quick-market', asset: 'BTC' })
  await late.next('quick-market.snapshot')
  await eventually(() => assert(client.frames.some(({ type }) => type === 'ticker')))
  await client.next('heartbeat')
  client.say({ op: 'unsubscribe', sub: 'market' })
  await client.next('unsubscribed')
  stream.hub.shutdown()
  await client.ended()
  const seen = new Set<string>()
  for (const frame of [...client.frames, ...late.frames]) {
    seen.add(frame.type)
    const schema = SERVER_FRAMES[frame.type as keyof typeof SERVER_FRAMES]
    assert.ok(schema !== undefined, frame.type)
    const closed = { ...schema, additionalProperties: false }
    assert.ok(Check(closed, frame), JSON.stringify(frame))
  }
  const unseen = Object.keys(SERVER_FRAMES).filter((type) => !seen.has(type))
  assert.deepEqual(unseen, [
    ...['authenticated', 'placed', 'cancelled', 'cancelledAll', 'deadman', 'cancelOnDisconnect'],
    'lag',
  ])
})
