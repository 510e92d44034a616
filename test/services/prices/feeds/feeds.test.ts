import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type PriceServer, startPriceServer } from '#devnet/price-server.ts'
import type { Observation } from '#domain/asset-price.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import { systemClock } from '#runtime/clock.ts'
import type { Feed, FeedPorts } from '#services/prices/feeds/feed.ts'
import { eventually } from '../../../support/eventually.ts'
import { livePorts, makeFeeds } from '../../../support/price-feeds.ts'

const ASSETS = ['BTC', 'ETH']
const TIMING = { silenceMs: 400, pollMs: 100, backoffMs: 10, backoffMsMax: 40, requestMs: 60_000 }

async function start(t: TestContext): Promise<{
  server: PriceServer
  feeds: Feed[]
  observed: Observation[]
  troubles: string[]
  since(): (source: PriceSource) => Observation[]
}> {
  const server = await startPriceServer({
    seed: 5,
    assets: ASSETS,
    clock: systemClock,
    tickMs: 40,
  })
  const observed: Observation[] = []
  const troubles: string[] = []
  const portsOf = (source: PriceSource): FeedPorts => ({
    ...livePorts(systemClock),
    observed: (observation) => observed.push(observation),
    troubled: (trouble) => troubles.push(`${source} ${trouble}`),
    timing: TIMING,
  })
  const feeds = makeFeeds(server.feeds, portsOf)
  for (const feed of feeds) feed.start()
  t.after(async () => {
    for (const feed of feeds) feed.stop()
    await server.close()
  })
  await eventually(() => {
    for (const source of PRICE_SOURCES) {
      for (const asset of ASSETS)
        assert.ok(observed.some((o) => o.source === source && o.asset === asset))
    }
  })
  return {
    server,
    feeds,
    observed,
    troubles,
    since() {
      const from = observed.length
      return (source) => observed.slice(from).filter((observation) => observation.source === source)
    },
  }
}

/** Asserts that every observation equals the simulator's report at that instant. */
function assertTrue({ simulator }: PriceServer, observations: readonly Observation[]): void {
  for (const { source, asset, price, atMs } of observations) {
    const until = source === 'pyth' ? atMs + 1_000 : atMs + 1
    const prices: number[] = []
    for (let at = atMs; at < until; at += 40) prices.push(simulator.tickAt(source, asset, at).price)
    assert.ok(prices.includes(price), `${source} ${asset} ${price} at ${atMs}`)
  }
}

test('each simulated price provider reports the same prices in its stream and in its history', async (t) => {
  const { server, feeds, observed } = await start(t)
  assertTrue(server, observed)
  for (const feed of feeds) {
    // On a busy machine, the feed may have closed a silent connection. The test waits until the feed has opened a new
    // one.
    await eventually(() => assert.ok(feed.isOpen()))
    const atMs = Math.floor(systemClock.nowMs() / 60_000) * 60_000 - 600_000
    for (const asset of ASSETS) {
      const found = await feed.priceAt(asset, atMs, 60_000)
      const expected = server.simulator.tickAt(feed.source, asset, atMs)
      assert.equal(found?.price, expected.price)
      assert.ok(found.atMs >= atMs && found.atMs <= expected.atMs, feed.source)
      assert.equal(found.via, 'history')
      assert.ok(found.raw.length > 10)
    }
    assert.equal(await feed.priceAt('DOGE', atMs, 60_000), undefined)
    assert.equal(await feed.priceAt('BTC', systemClock.nowMs() + 600_000, 1_000), undefined)
  }
})

test('after a provider sent garbage or dropped its connections, its price feed recovers without a restart', async (t) => {
  const { server, observed, troubles, since } = await start(t)
  for (const fault of ['garbage', 'drop'] as const) {
    for (const source of PRICE_SOURCES) server.simulator.setFault(source, fault)
    await eventually(() => {
      const wanted = fault === 'garbage' ? 'garbage' : 'away'
      for (const source of PRICE_SOURCES) assert.ok(troubles.includes(`${source} ${wanted}`))
    })
    for (const source of PRICE_SOURCES) server.simulator.setFault(source, undefined)
    const back = since()
    await eventually(() => {
      for (const source of PRICE_SOURCES) {
        assert.ok(
          back(source).some(({ via }) => via === 'stream'),
          source,
        )
      }
    })
    assertTrue(server, observed)
    troubles.length = 0
  }
})

test('a price feed polls a provider that stops pushing, and polled prices keep their original times', async (t) => {
  const { server, troubles, since } = await start(t)
  for (const source of PRICE_SOURCES) server.simulator.setFault(source, 'stall')
  const stalledAtMs = systemClock.nowMs()
  const after = since()
  await eventually(() => {
    for (const source of PRICE_SOURCES) {
      assert.ok(
        after(source).some(({ via }) => via === 'latest'),
        source,
      )
      assert.ok(troubles.includes(`${source} silent`))
    }
  })
  for (const source of PRICE_SOURCES) {
    for (const { atMs } of after(source)) assert.ok(atMs <= stalledAtMs)
  }
  for (const source of PRICE_SOURCES) server.simulator.setFault(source, undefined)
  const back = since()
  await eventually(() => {
    for (const source of PRICE_SOURCES) {
      assert.ok(
        back(source).some(({ via }) => via === 'stream'),
        source,
      )
    }
  })
})

test('without an API key, the Pyth price feed reports that the provider refuses its requests', async (t) => {
  const { server } = await start(t)
  const troubles: string[] = []
  const [pyth] = makeFeeds({ ...server.feeds, pyth: { ...server.feeds.pyth, apiKey: '' } }, () => ({
    ...livePorts(systemClock),
    observed: () => assert.fail('nothing can be received'),
    troubled: (trouble) => troubles.push(trouble),
    timing: TIMING,
  }))
  pyth!.start()
  t.after(() => pyth!.stop())
  await eventually(() => assert.ok(troubles.includes('refused')))
  await assert.rejects(pyth!.priceAt('BTC', 1_700_000_000_000, 1_000), { code: 'FEED_REFUSED' })
})

test('an HTTP request sets or clears a fault of a simulated price provider', async (t) => {
  const { server } = await start(t)
  const at = `http://127.0.0.1:${server.port}/faults`
  assert.equal((await fetch(`${at}/pyth/stall`, { method: 'POST' })).status, 204)
  assert.equal(server.simulator.faultOf('pyth'), 'stall')
  assert.equal((await fetch(`${at}/pyth`, { method: 'DELETE' })).status, 204)
  assert.equal(server.simulator.faultOf('pyth'), undefined)
  assert.equal((await fetch(`${at}/pyth/hiccup`, { method: 'POST' })).status, 404)
})
