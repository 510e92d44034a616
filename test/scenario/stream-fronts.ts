/** Tests streams at an exchange that has two fronts and runs with `STREAM_LIMITS`. */

import assert from 'node:assert/strict'
import { request } from 'node:http'
import type { TestContext } from 'node:test'
import { createClient } from '#client/client.ts'
import { StreamClient } from '../stream/stream-fixture.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { traderNumbered } from '../support/signed-orders.ts'

const ann = traderNumbered(71)
const ORDERS = { op: 'subscribe', channel: 'orders', trader: ann.address }
const PER_IP = 30
export const STREAM_LIMITS = {
  SIBYL_STREAM_CONNECTIONS_PER_IP: String(PER_IP),
  SIBYL_LIMITS: 'true',
}

/** Returns one connection to each front. The fronts are distinguished by the beginning of their cursors. */
async function oneAtEach(t: TestContext, url: string): Promise<[StreamClient, StreamClient]> {
  const byFront = new Map<string, StreamClient>()
  for (let attempt = 0; byFront.size < 2 && attempt < 50; attempt++) {
    const client = await StreamClient.open(`${url.replace('http', 'ws')}/api/v1/stream`)
    t.after(() => client.close())
    const { seq } = await client.ask({ op: 'subscribe', channel: 'market' }, 'subscribed')
    const front = String(seq).slice(0, 12)
    if (byFront.has(front)) client.close()
    else byFront.set(front, client)
  }
  const [one, other] = [...byFront.values()]
  assert.ok(one !== undefined && other !== undefined, 'both fronts were met')
  return [one, other]
}

/**
 * Tests that a stream which moves to the other front continues there without a gap. No other stream may be
 * open.
 */
export async function changeFronts(
  t: TestContext,
  exchange: Exchange,
  marketId: string,
): Promise<void> {
  const book = { op: 'subscribe', channel: 'book', marketId, outcome: 0 }
  const client = createClient({ url: exchange.url, chainId: 31_337, signer: ann.key })
  const rest = (price: string) =>
    client.orders.place({
      marketId,
      outcome: 'YES',
      side: 'buy',
      price,
      size: '1',
      ttlSeconds: 3_600,
    })
  const [one, other] = await oneAtEach(t, exchange.url)
  await one.ask(book, 'book.snapshot')
  const { cursor } = await one.ask(ORDERS, 'orders.snapshot')
  // A client at the other front follows the book, so that the other front keeps the book's messages, too.
  const watch = await other.ask(book, 'book.snapshot')
  await rest('0.10')
  const first = await one.next('book.delta')
  assert.equal(first.prevSeq, watch.seq)
  one.close()
  await rest('0.11')
  await rest('0.12')
  const told = [await other.next('book.delta'), await other.next('book.delta')]
  told.push(await other.next('book.delta'))
  assert.deepEqual(told[0], first, 'every front says the same')

  await other.ask({ op: 'unsubscribe', sub: first.sub }, 'unsubscribed')
  const resumed = await other.ask({ ...book, since: first.seq }, 'subscribed')
  assert.equal(resumed.seq, first.seq)
  const replayed = [await other.next(), await other.next()]
  assert.deepEqual(replayed, told.slice(1), 'what followed, to the last byte')
  // The book of the other outcome had no subscriber at this front, so the front kept none of its messages. The stream
  // starts over with `reset`.
  await rest('0.13')
  await other.next('book.delta')
  const unknown = { ...book, outcome: 1, since: 0 }
  await other.ask(unknown, 'subscribed')
  assert.equal((await other.next('book.snapshot')).reset, true)
  // A cursor is valid only at the front that issued it, so the other front starts over with `reset`.
  await other.ask({ ...ORDERS, since: cursor }, 'subscribed')
  const orders = await other.next('orders.snapshot')
  assert.deepEqual([orders.reset, (orders.orders as unknown[]).length], [true, 4])

  await t.test('the limit of streams per IP address counts the streams of all fronts', async () => {
    const stream = `${exchange.url.replace('http', 'ws')}/api/v1/stream`
    const openStreams = async () => {
      const text = await (await fetch(`${exchange.url}/metrics`)).text()
      const lines = text.match(/^sibyl_stream_connections\{.*\} \d+$/gm) ?? []
      return lines.map((line) => Number(line.split(' ').at(-1)))
    }
    const untilOpen = (count: number) =>
      eventually(async () => {
        const sum = (await openStreams()).reduce((all, each) => all + each, 0)
        assert.equal(sum, count)
      })
    await untilOpen(1)
    const clients: StreamClient[] = []
    t.after(() => {
      for (const each of clients) each.close()
    })
    while (clients.length < PER_IP - 1) clients.push(await StreamClient.open(stream))
    // The metrics omit a thread that is too busy to answer in time, so the test reads them repeatedly.
    const perFront = await eventually(async () => {
      const found = await openStreams()
      assert.equal(found.length, 2)
      return found
    })
    assert.ok(
      perFront.every((count) => count > 0 && count < PER_IP),
      String(perFront),
    )
    const upgrade = {
      connection: 'upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    }
    assert.equal(await statusOf(exchange.url, upgrade), 429)
    clients.pop()?.close()
    await untilOpen(PER_IP - 1)
    assert.equal(await statusOf(exchange.url, upgrade), 101)
  })
}

/** Returns the HTTP status of an upgrade request; 101 if it succeeds. */
function statusOf(url: string, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve, reject) => {
    const asked = request(`${url}/api/v1/stream`, { headers })
    asked.once('response', (response) => {
      resolve(response.statusCode ?? 0)
      response.resume()
    })
    asked.once('upgrade', (_, socket) => {
      socket.destroy()
      resolve(101)
    })
    asked.once('error', reject)
    asked.end()
  })
}
