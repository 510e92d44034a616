import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { startPriceServer } from '#devnet/price-server.ts'
import { systemClock } from '#runtime/clock.ts'

test('a simulated price provider reads a message that arrives in fragments', async (t) => {
  const server = await startPriceServer({
    seed: 1,
    assets: ['BTC'],
    clock: systemClock,
    tickMs: 40,
  })
  t.after(() => server.close())
  const client = new WebSocket(server.feeds.coinbase.socketUrl!)
  await once(client, 'open')
  const text = JSON.stringify({ type: 'subscribe', product_ids: ['BTC-USD'], channels: ['ticker'] })
  client.send(text.slice(0, 20), { fin: false })
  client.send(text.slice(20), { fin: true })
  const [answer] = await once(client, 'message')
  assert.equal(JSON.parse(String(answer)).type, 'subscriptions')
})

test('the simulated price server refuses a WebSocket on a path that belongs to no provider', async (t) => {
  const server = await startPriceServer({
    seed: 1,
    assets: ['BTC'],
    clock: systemClock,
    tickMs: 40,
  })
  t.after(() => server.close())
  const client = new WebSocket(`ws://127.0.0.1:${server.port}/nowhere`)
  await once(client, 'error')
  const pyth = new WebSocket(`ws://127.0.0.1:${server.port}/pyth`)
  await once(pyth, 'close')
})
