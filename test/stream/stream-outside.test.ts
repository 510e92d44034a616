/** Stream messages that do not come from a market's log: those of the chain, prices and quick markets. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { marketIdOf, priceOf, quickMarketOf, startStream } from './stream-fixture.ts'

const M = marketIdOf(0)
const MARKET = { op: 'subscribe', channel: 'market', marketId: M }
const PRICE = { op: 'subscribe', channel: 'price', asset: 'BTC' }
const QUICK = { op: 'subscribe', channel: 'quick-market', asset: 'BTC' }

test('a market’s stream messages share one sequence, whether they come from the chain or the log', async (t) => {
  const stream = await startStream(t, { markets: 2 })
  const [market] = stream.markets
  const client = await stream.connect()
  const every = await stream.connect()
  const { seq: began } = await client.ask(MARKET)
  const snapshot = await client.next('market.snapshot')
  assert.deepEqual([snapshot.cursor, snapshot.resolution], [began, undefined])
  await every.ask({ op: 'subscribe', channel: 'market' })
  const { cursor: everyBegan } = await every.next('market.snapshot')

  market!.ask('CloseMarket', { marketId: M, reason: 'expired' })
  stream.flow()
  const proposal = { assertionId: '0xa', proposer: '0xb', proposedOutcome: true, bondAmount: '5' }
  stream.hub.marketHappened(M, 'proposed', proposal, 10)
  // A source that reconnects may repeat the current state of the market; the repetition is not sent to
  // clients.
  stream.hub.marketHappened(M, 'proposed', { ...proposal }, 11)
  stream.hub.marketHappened(marketIdOf(1), 'proposed', {}, 11)
  stream.hub.marketHappened(M, 'disputed', { assertionId: '0xa' }, 12)
  stream.hub.marketHappened(M, 'resolved', { winningOutcome: 1, txHash: '0xc' }, 13)

  let cursor = began
  const told: unknown[] = []
  for (let count = 0; count < 4; count++) {
    const news = await client.next()
    assert.deepEqual([news.type, news.marketId, news.prevCursor], ['market', M, cursor])
    cursor = news.cursor
    told.push([news.event, news.seq, news.resolution])
  }
  assert.deepEqual(told, [
    ['expired', 2, undefined],
    ['proposed', undefined, proposal],
    ['disputed', undefined, { assertionId: '0xa' }],
    ['resolved', undefined, { winningOutcome: 1, txHash: '0xc' }],
  ])
  let everyCursor = everyBegan
  const markets: unknown[] = []
  for (let count = 0; count < 5; count++) {
    const news = await every.next()
    assert.equal(news.prevCursor, everyCursor)
    everyCursor = news.cursor
    markets.push(news.marketId)
  }
  assert.deepEqual(markets, [M, M, marketIdOf(1), M, M])

  const again = await stream.connect()
  await again.ask({ ...MARKET, since: began })
  const events: unknown[] = []
  for (let count = 0; count < 4; count++) events.push((await again.next()).event)
  assert.deepEqual(events, ['expired', 'proposed', 'disputed', 'resolved'])
  const late = await stream.connect()
  await late.ask({ ...MARKET, since: 'of-another-thread.1' })
  const now = await late.next()
  assert.deepEqual(
    [now.type, now.reset, now.state, now.cursor],
    ['market.snapshot', true, 'resolved', cursor],
  )
  assert.deepEqual(now.resolution, { event: 'resolved', winningOutcome: 1, txHash: '0xc', ts: 13 })
  const refused = await late.ask({ ...MARKET, since: 3 })
  assert.deepEqual([refused.code, refused.field], ['INVALID_FIELD', 'since'])
})

test('a price subscriber gets the last price at once, then new prices, and missed prices after reconnecting', async (t) => {
  const stream = await startStream(t, { parts: { assets: ['BTC'] } })
  const client = await stream.connect()
  assert.equal((await client.ask({ ...PRICE, asset: 'DOGE' })).code, 'ASSET_NOT_FOUND')
  assert.equal((await client.ask(PRICE)).sub, 'price:BTC')
  const empty = await client.next('price.snapshot')
  assert.equal(empty.last, null)
  stream.hub.priced('BTC', priceOf(1))
  stream.hub.priced('BTC', priceOf(3))
  stream.hub.priced('BTC', priceOf(2))
  stream.hub.priced('ETH', priceOf(9, 'ETH'))
  const first = await client.next()
  const { cursor, prevCursor, type, sub, ...event } = first
  assert.deepEqual([type, sub, prevCursor], ['price', 'price:BTC', empty.cursor])
  assert.deepEqual(event, priceOf(1))
  const second = await client.next()
  assert.deepEqual([second.timestamp, second.prevCursor], [3, cursor])
  client.close()
  stream.hub.priced('BTC', priceOf(4))
  const back = await stream.connect()
  await back.ask({ ...PRICE, asset: 'btc', since: second.cursor })
  const missed = await back.next()
  assert.deepEqual([missed.timestamp, missed.prevCursor], [4, second.cursor])
  await back.ask({ ...PRICE, asset: 'ETH' })
  assert.deepEqual((await back.next()).last, priceOf(9, 'ETH'))
})

test('a quick-market subscriber gets the open quick market at once, then each resolution and opening', async (t) => {
  const stream = await startStream(t)
  const one = quickMarketOf(1)
  const two = quickMarketOf(2)
  stream.hub.quickMarket('BTC', { event: 'opened', quickMarket: one, atMs: 1 })
  const client = await stream.connect()
  await client.ask(QUICK)
  const snapshot = await client.next()
  assert.deepEqual([snapshot.type, snapshot.quickMarket], ['quick-market.snapshot', one])
  const resolved = { ...one, resolved: true, endPrice: 7, outcome: 0 }
  stream.hub.quickMarket('BTC', { event: 'resolved', quickMarket: resolved, atMs: 2 })
  const between = await stream.connect()
  await between.ask(QUICK)
  assert.equal((await between.next()).quickMarket, null)
  stream.hub.quickMarket('BTC', { event: 'opened', quickMarket: two, atMs: 3 })
  // A market's result may come after the next market has opened.
  stream.hub.quickMarket('BTC', { event: 'resolved', quickMarket: resolved, atMs: 4 })
  const told: unknown[] = []
  let { cursor } = snapshot
  for (let count = 0; count < 3; count++) {
    const news = await client.next('quick-market')
    assert.equal(news.prevCursor, cursor)
    cursor = news.cursor
    told.push([news.event, (news.quickMarket as { id: number }).id, news.ts])
  }
  assert.deepEqual(told, [
    ['resolved', 1, 2],
    ['opened', 2, 3],
    ['resolved', 1, 4],
  ])
  const late = await stream.connect()
  await late.ask(QUICK)
  assert.deepEqual((await late.next()).quickMarket, two)
})
