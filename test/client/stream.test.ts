import assert from 'node:assert/strict'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { crc32 as nodeCrc32 } from 'node:zlib'
import { crc32 } from '#client/crc32.ts'
import { LocalBook } from '#client/local-book.ts'
import { createStream } from '#client/stream.ts'
import type { SibylStream, StreamEvents } from '#client/stream-types.ts'
import { BUY, SELL } from '#domain/order.ts'
import { reject } from '#domain/rejection.ts'
import type { OrdersMessage, TradesMessage } from '#protocol/shapes/stream.ts'
import { marketIdOf, startStream, type TestStream } from '../stream/stream-fixture.ts'
import { eventually } from '../support/eventually.ts'
import { buy, sell, traderNamed } from '../support/orders.ts'

const M = marketIdOf(0)

/** Starts a proxy in front of the exchange. The test can cut the proxy's connections. */
async function startProxy(t: TestContext, stream: TestStream) {
  const pairs = new Set<Socket>()
  let open = true
  const server: Server = createServer((inward) => {
    if (!open) {
      inward.destroy()
      return
    }
    const outward = connect(stream.front.port, '127.0.0.1')
    for (const socket of [inward, outward]) {
      pairs.add(socket)
      socket.on('error', () => undefined)
    }
    inward.on('close', () => outward.destroy())
    outward.on('close', () => inward.destroy())
    inward.pipe(outward)
    outward.pipe(inward)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = (): void => {
    for (const socket of pairs) socket.destroy()
    pairs.clear()
  }
  t.after(() => {
    cut()
    server.close()
  })
  const { port } = server.address() as { port: number }
  return {
    url: `http://127.0.0.1:${port}`,
    cut,
    shut() {
      open = false
      cut()
    },
    reopen() {
      open = true
    },
  }
}

type News = { [K in keyof StreamEvents]: [K, StreamEvents[K]] }[keyof StreamEvents]

function openStream(
  t: TestContext,
  url: string,
  more: Partial<Parameters<typeof createStream>[0]> = {},
): { stream: SibylStream; news: News[]; names: () => string[] } {
  const stream = createStream({ url, backoffMs: 5, backoffMsMax: 40, ...more })
  t.after(() => stream.close())
  const news: News[] = []
  const events = [
    'open',
    'closed',
    'subscribed',
    'reset',
    'gap',
    'checksum',
    'lag',
    'silent',
  ] as const
  for (const event of [...events, 'shutdown', 'error', 'heartbeat'] as const) {
    stream.on(event, (told) => news.push([event, told] as News))
  }
  const names = () => news.map(([name]) => name).filter((name) => name !== 'heartbeat')
  return { stream, news, names }
}

/** The exchange's own book. */
function truth(stream: TestStream): string {
  const book = stream.board.markets.get(M)!.books[0]
  return JSON.stringify([book.levels(BUY), book.levels(SELL)])
}

function shown(book: LocalBook): string {
  const pairs = (levels: { price: number; size: bigint }[]) =>
    levels.map(({ price, size }) => [price, Number(size)])
  return JSON.stringify([pairs(book.bids()), pairs(book.asks())])
}

test('the checksum of the SDK is the standard CRC-32', () => {
  for (const text of ['', '|', '420000:10000000|', '123456789']) {
    assert.equal(crc32(text), nodeCrc32(text))
  }
  const book = new LocalBook()
  book.load(1, [[420_000, '27021597764222973']], [[500_000, 3]])
  assert.equal(book.checksum(), nodeCrc32('420000:27021597764222973|500000:3'))
})

test('the client keeps a subscribed book up to date, also after a lost connection', async (t) => {
  const server = await startStream(t)
  const [market] = server.markets
  const proxy = await startProxy(t, server)
  const { stream, names } = openStream(t, proxy.url)
  const { book, ready } = stream.book({ marketId: M, outcome: 'YES' })
  const trades: TradesMessage[] = []
  const orders: OrdersMessage[] = []
  stream.trades(M, (message) => trades.push(message))
  stream.orders(traderNamed('ann'), (message) => orders.push(message))
  await ready
  for (let count = 0; count < 20; count++) {
    market!.place(
      buy('YES')
        .at(0.3 + count / 100)
        .size(1)
        .by('ann')
        .named(`a${count}`),
    )
  }
  server.flow()
  await eventually(() => assert.equal(shown(book), truth(server)))
  proxy.shut()
  market!.place(sell('YES').at(0.4).size(5).by('bob').named('b'))
  server.flow()
  await eventually(() => assert.ok(names().includes('closed')))
  proxy.reopen()
  await eventually(() => assert.equal(shown(book), truth(server)))
  await eventually(() => assert.equal(trades.length, 6))
  await eventually(() => assert.equal(orders.filter(({ type }) => type === 'order').length, 25))
  assert.equal(names().filter((name) => name === 'subscribed').length, 6)
  for (const bad of ['reset', 'gap', 'checksum', 'error'])
    assert.ok(!names().includes(bad as never))
  const ids = trades.flatMap((message) => (message.type === 'trade' ? [message.tradeId] : []))
  assert.equal(new Set(ids).size, 5)
})

test('if the exchange no longer has the messages that the client missed, the client resets the book and emits an event', async (t) => {
  const server = await startStream(t, { settings: { replayMessages: 2 } })
  const [market] = server.markets
  const proxy = await startProxy(t, server)
  const { stream, news } = openStream(t, proxy.url)
  const { book, ready } = stream.book({ marketId: M, outcome: 'YES' })
  await ready
  proxy.shut()
  for (let count = 0; count < 5; count++) {
    market!.place(buy('YES').at(0.3).size(1).by('ann').named(`a${count}`))
  }
  server.flow()
  proxy.reopen()
  await eventually(() => assert.equal(shown(book), truth(server)))
  assert.ok(news.some(([name]) => name === 'reset'))
})

/** Returns a WebSocket class that loses or corrupts some messages. */
function lossy(spoil: (text: string) => string | undefined): typeof WebSocket {
  return class extends WebSocket {
    // biome-ignore lint/suspicious/noExplicitAny: the overloads of the DOM's types cannot be written
    override addEventListener(type: string, listener: any): void {
      super.addEventListener(type, (event: Event) => {
        if (type !== 'message') {
          listener(event)
          return
        }
        const data = spoil((event as MessageEvent<string>).data)
        if (data !== undefined) listener({ data })
      })
    }
  } as typeof WebSocket
}

test('if a message within a stream is lost, the client repairs the book with a snapshot', async (t) => {
  const server = await startStream(t)
  const [market] = server.markets
  let deltas = 0
  const WebSocket = lossy((text) =>
    text.includes('"book.delta"') && ++deltas === 2 ? undefined : text,
  )
  const { stream, news } = openStream(t, server.url.replace('ws', 'http'), { WebSocket })
  const { book, ready } = stream.book({ marketId: M, outcome: 'YES' })
  await ready
  for (let count = 0; count < 4; count++) {
    market!.place(buy('YES').at(0.3).size(1).by('ann').named(`a${count}`))
    server.flow()
  }
  await eventually(() => assert.equal(shown(book), truth(server)))
  const gap = news.find(([name]) => name === 'gap')
  assert.deepEqual(gap, ['gap', { sub: `book:${M}:0`, had: 2, got: 3 }])
})

test('the client notices at the next heartbeat that the last message of a stream was lost', async (t) => {
  const server = await startStream(t, { settings: { heartbeatMs: 160 } })
  const [market] = server.markets
  const WebSocket = lossy((text) => (text.includes('"book.delta"') ? undefined : text))
  const { stream, news } = openStream(t, server.url.replace('ws', 'http'), { WebSocket })
  const { book, ready } = stream.book({ marketId: M, outcome: 'YES' })
  await ready
  market!.place(buy('YES').at(0.3).size(1).by('ann').named('a'))
  server.flow()
  await eventually(() => assert.equal(shown(book), truth(server)))
  assert.ok(news.some(([name]) => name === 'gap'))
})

test('the client detects a corrupted message by the checksum of the book, and repairs the book with a snapshot', async (t) => {
  const server = await startStream(t)
  const [market] = server.markets
  const WebSocket = lossy((text) =>
    text.includes('"book.delta"') ? text.replace('1000000]', '1000001]') : text,
  )
  const { stream, news } = openStream(t, server.url.replace('ws', 'http'), { WebSocket })
  const { book, ready } = stream.book({ marketId: M, outcome: 'YES' })
  await ready
  market!.place(buy('YES').at(0.3).size(1).by('ann').named('a'))
  server.flow()
  await eventually(() => assert.equal(shown(book), truth(server)))
  assert.ok(news.some(([name]) => name === 'checksum'))
})

test('each trade of a match is delivered once, even if the connection is lost between two of the trades', async (t) => {
  const server = await startStream(t)
  const [market] = server.markets
  const proxy = await startProxy(t, server)
  let cutAt = 3
  const WebSocket = lossy((text) => {
    if (!text.includes('"type":"trade"') || --cutAt !== 0) return text
    proxy.cut()
    return undefined
  })
  const { stream, names } = openStream(t, proxy.url, { WebSocket })
  const ids: string[] = []
  const { ready } = stream.trades(M, (message) => {
    if (message.type === 'trade') ids.push(message.tradeId)
  })
  await ready
  for (let count = 0; count < 5; count++) {
    market!.place(sell('YES').at(0.3).size(1).by('ann').named(`a${count}`))
  }
  market!.place(buy('YES').at(0.3).size(5).by('bob').named('b'))
  server.flow()
  await eventually(() => assert.equal(ids.length, 5))
  assert.equal(new Set(ids).size, 5)
  assert.ok(!names().includes('reset'))
})

test('two subscriptions of a client to one channel receive every message, and can be closed separately', async (t) => {
  const server = await startStream(t)
  const [market] = server.markets
  const { stream, names } = openStream(t, server.url.replace('ws', 'http'))
  const received: TradesMessage['type'][][] = [[], []]
  const ann = traderNamed('ann')
  const orders: OrdersMessage[][] = [[], []]
  const trade = (name: string) => {
    market!.place(sell('YES').at(0.3).size(1).by('ann').named(`sell-${name}`))
    market!.place(buy('YES').at(0.3).size(1).by('bob').named(`buy-${name}`))
    server.flow()
  }
  const first = stream.trades(M, ({ type }) => received[0]!.push(type))
  const firstOrders = stream.orders(ann, (message) => orders[0]!.push(message))
  const firstBook = stream.book({ marketId: M, outcome: 'YES' })
  await Promise.all([first.ready, firstOrders.ready, firstBook.ready])
  trade('one')
  await eventually(() => assert.deepEqual(received[0], ['trades.snapshot', 'trade']))
  const second = stream.trades(M.toUpperCase().replace('0X', '0x'), ({ type }) =>
    received[1]!.push(type),
  )
  const secondOrders = stream.orders(ann.toLowerCase(), (message) => orders[1]!.push(message))
  const secondBook = stream.book({ marketId: M, outcome: 'YES' })
  await Promise.all([second.ready, secondOrders.ready, secondBook.ready])
  assert.equal(server.hub.figures().subscriptions, 3)
  trade('two')
  market!.place(buy('YES').at(0.2).size(1).by('ann').named('rests'))
  server.flow()
  await eventually(() => assert.deepEqual(received[0], ['trades.snapshot', 'trade', 'trade']))
  await eventually(() => assert.deepEqual(received[1], ['trades.snapshot', 'trade']))
  await eventually(() => assert.deepEqual(orders[0]!.slice(-3), orders[1]!.slice(-3)))
  for (const { book } of [firstBook, secondBook]) {
    await eventually(() => assert.equal(shown(book), truth(server)))
  }
  assert.equal(orders[0]!.filter(({ type }) => type === 'orders.snapshot').length, 1)
  for (const each of [first, firstOrders, firstBook]) each.close()
  first.close()
  trade('three')
  await eventually(() => assert.deepEqual(received[1], ['trades.snapshot', 'trade', 'trade']))
  await eventually(() => assert.equal(shown(secondBook.book), truth(server)))
  assert.equal(received[0]!.length, 3)
  assert.equal(server.hub.figures().subscriptions, 3)
  for (const each of [second, secondOrders, secondBook]) each.close()
  await eventually(() => assert.equal(server.hub.figures().subscriptions, 0))
  for (const bad of ['reset', 'gap', 'checksum', 'error']) {
    assert.ok(!names().includes(bad as never), bad)
  }
})

test('two subscriptions to one channel resume after a lost connection, even if a third is added meanwhile', async (t) => {
  const server = await startStream(t)
  const [market] = server.markets
  const proxy = await startProxy(t, server)
  const { stream, names } = openStream(t, proxy.url)
  const received: string[][] = [[], [], []]
  const follow = (which: number) =>
    stream.trades(M, (message) => {
      received[which]!.push(message.type === 'trade' ? message.tradeId : message.type)
    }).ready
  const trade = (name: string) => {
    market!.place(sell('YES').at(0.3).size(1).by('ann').named(`sell-${name}`))
    market!.place(buy('YES').at(0.3).size(1).by('bob').named(`buy-${name}`))
    server.flow()
  }
  await Promise.all([follow(0), follow(1)])
  trade('one')
  await eventually(() => assert.equal(received[1]!.length, 2))
  proxy.shut()
  trade('two')
  await eventually(() => assert.ok(names().includes('closed')))
  const third = follow(2)
  proxy.reopen()
  await third
  trade('three')
  await eventually(() => assert.equal(received[0]!.length, 4))
  assert.equal(new Set(received[0]).size, 4)
  await eventually(() => assert.deepEqual(received[1], received[0]))
  await eventually(() => assert.deepEqual(received[2], ['trades.snapshot', received[0]!.at(-1)]))
  assert.equal(server.hub.figures().subscriptions, 1)
  for (const bad of ['reset', 'gap', 'error']) assert.ok(!names().includes(bad as never), bad)
})

test('if a client closes a subscription before the exchange answers, the exchange keeps no subscription', async (t) => {
  const server = await startStream(t)
  const { stream } = openStream(t, server.url.replace('ws', 'http'))
  await stream.ping()
  const types: string[] = []
  stream.trades(M, () => assert.fail('it was closed')).close()
  const { close, ready } = stream.trades(M, ({ type }) => types.push(type))
  await ready
  assert.deepEqual(types, ['trades.snapshot'])
  close()
  await eventually(() => assert.equal(server.hub.figures().subscriptions, 0))
  const { ready: never, close: atOnce } = stream.book({ marketId: M, outcome: 'NO' })
  atOnce()
  await stream.ping()
  await stream.ping()
  assert.equal(server.hub.figures().subscriptions, 0)
  await assert.rejects(never, { code: 'ABORTED' })
})

test('after a reconnect, a client with the maximum number of subscriptions can authenticate and renew them all', async (t) => {
  const count = 20
  const tokens: string[] = []
  const server = await startStream(t, {
    markets: count,
    settings: { subscriptionsMax: count, messagesBurst: count, messagesPerSecond: 10 },
    parts: {
      authenticator: {
        async identify(header) {
          tokens.push(String(header))
          return { address: traderNamed('ann'), keyId: 'k' }
        },
      },
    },
  })
  const proxy = await startProxy(t, server)
  const headers = () => ({ authorization: `Bearer t${tokens.length}` })
  const { stream, names } = openStream(t, proxy.url, { headers })
  await stream.ping()
  const all = Array.from({ length: count }, (_, at) => stream.trades(marketIdOf(at), () => {}))
  await Promise.all(all.map(({ ready }) => ready))
  proxy.cut()
  await eventually(() => assert.equal(names().filter((name) => name === 'open').length, 2))
  assert.deepEqual(tokens, ['Bearer t0', 'Bearer t1'])
  await eventually(() => assert.equal(server.hub.figures().subscriptions, count))
  assert.ok(!names().includes('error'))
})

test('the error of a refused subscription states the reason', async (t) => {
  const server = await startStream(t)
  const { stream } = openStream(t, server.url.replace('ws', 'http'))
  const { ready } = stream.book({ marketId: marketIdOf(50), outcome: 'NO' })
  await assert.rejects(ready, { code: 'MARKET_NOT_FOUND' })
  await assert.rejects(stream.cancelOnDisconnect(true), { code: 'UNAUTHORIZED_MISSING_HEADER' })
  assert.ok((await stream.ping()) > 0)
})

test('after a shutdown of the exchange, the client reconnects at the announced time', async (t) => {
  const server = await startStream(t)
  const { stream, news } = openStream(t, server.url.replace('ws', 'http'))
  await stream.book({ marketId: M, outcome: 'YES' }).ready
  server.hub.shutdown()
  const closed = await eventually(() => {
    const found = news.find(([name]) => name === 'closed')
    assert.ok(found?.[0] === 'closed')
    return found[1]
  })
  const told = news.find(([name]) => name === 'shutdown')
  assert.equal(closed.code, 1012)
  assert.deepEqual(told?.[1], { reconnectInMs: closed.reconnectInMs })
})

test('while the exchange stops, open stream requests are answered, and new requests wait for the next start', async (t) => {
  const gate = Promise.withResolvers<void>()
  const asked: string[] = []
  const server = await startStream(t, {
    parts: {
      gateway: {
        openOrdersPage: async () => ({ orders: [], count: 0 }),
        async cancel({ orderHash }) {
          asked.push(orderHash)
          await gate.promise
          return reject('ORDER_CLOSED')
        },
      },
    },
  })
  const { stream, news, names } = openStream(t, server.url.replace('ws', 'http'))
  const orderOf = (digit: string) => ({ marketId: M, orderHash: `0x${digit.repeat(64)}` })
  const first = stream.cancel(orderOf('1'))
  first.catch(() => undefined)
  await eventually(() => assert.equal(asked.length, 1))
  const done = server.hub.shutdown()
  await eventually(() => assert.ok(names().includes('shutdown')))
  const second = stream.cancel(orderOf('2'))
  second.catch(() => undefined)
  gate.resolve()
  await assert.rejects(first, { code: 'ORDER_CLOSED' })
  await done
  const closed = news.find(([name]) => name === 'closed')
  assert.ok(closed?.[0] === 'closed' && closed[1].code === 1012)
  assert.deepEqual(asked, [orderOf('1').orderHash])
  stream.close()
  await assert.rejects(second, { code: 'ABORTED' })
})

test('a stream request fails with NETWORK if no connection opens before the request’s deadline', async (t) => {
  const server = await startStream(t)
  const proxy = await startProxy(t, server)
  proxy.shut()
  const { stream } = openStream(t, proxy.url, { timeoutMs: 50 })
  const order = { marketId: M, orderHash: `0x${'1'.repeat(64)}` }
  await assert.rejects(stream.cancel(order), {
    ...{ code: 'NETWORK', attempts: 0, outcomeUnknown: false },
  })
})
