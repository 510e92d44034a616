import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { MarketId } from '#domain/ids.ts'
import type { QuickMarket } from '#domain/quick-market.ts'
import { reject } from '#domain/rejection.ts'
import { makeQuickPlaces } from '#services/prices/thread/quick-places.ts'
import { traderNamed } from '../../support/orders.ts'
import { START_SEC } from '../market/market-fixture.ts'
import { type Command, inFolder, marketId, startHost } from '../market/thread-fixture.ts'

const INTERVAL_SEC = 900

function aQuickMarket(): QuickMarket {
  const strike: QuickMarket['strike'] = {
    ...{ asset: 'BTC', source: 'pyth', boundarySec: START_SEC, price: 100e8 },
    ...{ atMs: START_SEC * 1_000, receivedAtMs: START_SEC * 1_000, via: 'stream' },
    ...{ exact: true, raw: '' },
  }
  return {
    ...{ id: 1, marketId: marketId(1), chainId: 31_337, contractAddress: traderNamed('contract') },
    ...{ asset: 'BTC', startSec: START_SEC, intervalSec: INTERVAL_SEC, strike },
    ...{ createdAtMs: START_SEC * 1_000, contested: null, resolution: null, resolvedAtMs: null },
    ...{ createTxHash: '', reportTxHash: '', onChain: 'pending' },
  }
}

/** Returns the functions `place` and `close`, which open and close the book of a quick market on this host. */
function placesAt(host: ReturnType<typeof startHost>) {
  const ask = async (type: string, message: object): Promise<unknown> =>
    (await host.run({ type, message } as Command))[0]
  return placesWith(ask)
}

function placesWith(ask: (type: string, message: object) => Promise<unknown>) {
  const marketOf = ((_marketId: MarketId) => ({ ask })) as unknown as Parameters<
    typeof makeQuickPlaces
  >[0]
  return makeQuickPlaces(marketOf, traderNamed('operator'))
}

inFolder(
  'a market thread opens a quick market, opens it again after a restart, and closes it',
  async (dataDir) => {
    const host = startHost(dataDir)
    const { place, close } = placesAt(host)
    await place(aQuickMarket())
    await place(aQuickMarket())
    host.at(INTERVAL_SEC + 10)
    await place(aQuickMarket())
    await close(aQuickMarket())
    assert.equal(host.thread.markets.get(marketId(1))?.state.closed, 'resolved')
    await host.stop()
  },
)

inFolder(
  'the book of a quick market follows the matching rule that was recorded with the market',
  async (dataDir) => {
    const host = startHost(dataDir)
    const { place } = placesAt(host)
    await place({ ...aQuickMarket(), matching: 'complementary' })
    assert.equal(host.thread.markets.get(marketId(1))?.state.market.matching, 'complementary')
    // An open book keeps its matching rule, even if another one is requested.
    await place(aQuickMarket())
    assert.equal(host.thread.markets.get(marketId(1))?.state.market.matching, 'complementary')
    await host.stop()
  },
)

inFolder(
  'a quick market that ended before it was opened needs no further steps',
  async (dataDir) => {
    const host = startHost(dataDir)
    const { place, close } = placesAt(host)
    host.at(INTERVAL_SEC + 10)
    await place(aQuickMarket())
    await close(aQuickMarket())
    assert.equal(host.thread.markets.size, 0)
    await host.stop()
  },
)

test('opening or closing a quick market fails if the market thread rejects or does not answer the request', async () => {
  for (const answer of [reject('MARKET_NOT_FOUND'), reject('OVERLOADED'), { unanswered: 'late' }]) {
    const { place, close } = placesWith(async () => answer)
    await assert.rejects(place(aQuickMarket()) as Promise<unknown>)
    await assert.rejects(close(aQuickMarket()) as Promise<unknown>)
  }
})
