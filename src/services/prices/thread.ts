/**
 * The thread of prices and quick markets: the providers' feeds, the actor that publishes prices, and the actor that
 * opens quick markets. Both actors store their state in the database.
 */

import { databaseUrlOf, quickChain, type ThreadData } from '#config/thread-data.ts'
import type { PriceSource } from '#domain/price-providers.ts'
import type { PriceFollowerProtocol } from '#protocol/prices.ts'
import type { Served } from '#runtime/serve.ts'
import type { Thread } from '#runtime/thread.ts'
import { type ChainWorld, chainWorld } from '#services/kit/chain-world.ts'
import { linkWriters, makeFollowers, makeThreadContext, serveActor } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import { askWrite } from '#store/writes/ask-write.ts'
import type { Feed, FeedPorts, FeedTrouble } from './feeds/feed.ts'
import { pricesMeters } from './metrics.ts'
import {
  assetPricesOf,
  type PricesEvent,
  type PricesProtocol,
  type PricesState,
  prices,
  whyUnpriced,
} from './prices.ts'
import { activeOf } from './quick-markets/quick-markets.ts'
import type { QuickMarketsEvent } from './quick-markets/state.ts'
import { loadPrices } from './thread/load-prices.ts'
import { fetchFromFeed, makeFeeds, openFeedSocket } from './thread/price-feeds.ts'
import { type QuickMarkets, startQuickMarkets } from './thread/quick-markets.ts'

/** Name of the role that lets one node at a time publish prices and use the key of quick markets. */
const ROLE = 'prices'
const TICK_MS = 200
const MAILBOX_MAX = 100_000
const BATCH_MAX = 1_000

type PricesWorld = ChainWorld & Pick<FeedPorts, 'fetch' | 'openSocket'>

const REAL: PricesWorld = { ...chainWorld, fetch: fetchFromFeed, openSocket: openFeedSocket }

export function pricesThread(data: ThreadData, world: PricesWorld = REAL): Thread {
  const { settings } = data
  const { feeds: rules } = settings
  const chain = quickChain(settings)
  const kit = makeThreadContext(data, world)
  const { log, clock } = kit
  const { store: writeQueue, ...links } = linkWriters(settings, kit)
  const leases = makeLeases(data, kit, world)
  const writers = { ...links, store: leases.writeQueue(ROLE, writeQueue) }
  const fronts = makeFollowers<PriceFollowerProtocol>(settings, kit)
  const reads = world.makeReads(databaseUrlOf(settings))
  let feeds: Feed[] = []
  let state: PricesState | undefined
  let served: Served | undefined
  let quick: QuickMarkets | undefined
  let shownTrouble = ''
  const meters = pricesMeters(kit, {
    feeds: () => feeds,
    prices: () => state,
    quickMarkets: () => quick?.state,
    monotonicMs: kit.monotonicMs,
  })

  const pass = makePass(meters, fronts, () => quick)

  async function startPrices(): Promise<void> {
    state = await loadPrices(rules, reads, async (batch) =>
      meters.rowsRefused('price', await askWrite(writers.store, 'recordPrices', batch)),
    )
    served = serveActor<PricesState, PricesProtocol, PricesEvent>({
      ...{ behaviour: prices, state, clock, loop: kit.loop },
      say: pass.price,
      mailboxMax: MAILBOX_MAX,
      batchMax: BATCH_MAX,
    })
  }

  function tick(): void {
    served?.hear('Tick', {}, 0, undefined)
    quick?.served.hear('Tick', {}, 0, undefined)
    meters.lookAtSilences()
    const trouble = quick?.state.trouble ?? ''
    if (trouble !== shownTrouble && trouble !== '')
      log.warn({ why: trouble }, 'quick markets are delayed')
    shownTrouble = trouble
  }

  function quiet(): void {
    for (const feed of feeds) feed.stop()
    kit.quiet()
  }

  async function begin(): Promise<void> {
    await startPrices()
    if (chain !== undefined) {
      const say = pass.quick
      quick = await startQuickMarkets({
        ...{ chain, settings, kit, world, writers, reads, say, rowsRefused: meters.rowsRefused },
        feeds: () => feeds,
      })
    }
    feeds = makeFeeds(rules, world, (source) => ({
      observed: (observation) => served?.hear('Observed', { observation }, 0, undefined),
      troubled: (kind, detail) => pass.trouble(source, kind, detail),
    }))
    for (const feed of feeds) feed.start()
    kit.every(TICK_MS, tick)
    const sources = feeds.map(({ source }) => source)
    log.info({ sources, assets: rules.assets, quick: chain !== undefined }, 'prices are followed')
  }

  return {
    start: () => leases.hold(ROLE, begin),
    connect(peer, port) {
      if (writers.take(peer, port) !== undefined) return
      fronts.add(peer, port, (type, _message, replyTo, front) => {
        if (type !== 'Load' || state === undefined) return
        const active = quick === undefined ? [] : activeOf(quick.state, clock.nowMs())
        front.reply(replyTo, { assets: assetPricesOf(state), active })
      })
    },
    // Unreachable providers do not make the thread unhealthy, because a restart would not help. The state of each asset
    // tells the fronts why its price is missing.
    health: () => (state === undefined ? leases.standby() || 'starting' : (quick?.why() ?? '')),
    metrics: kit.metrics,
    async drain() {
      quiet()
    },
    async stop() {
      quiet()
      quick?.stop()
      writers.close()
      fronts.close()
      if (state !== undefined) log.info({ why: whyUnpriced(state) }, 'prices end')
      await reads.close()
      await leases.close()
    },
  }
}

/**
 * Makes the functions that pass events on. The fronts receive prices, active sources and quick markets. The actor of
 * quick markets receives accepted prices, refused reports and active sources.
 */
function makePass(
  meters: ReturnType<typeof pricesMeters>,
  fronts: Pick<ReturnType<typeof makeFollowers<PriceFollowerProtocol>>, 'tell'>,
  quick: () => QuickMarkets | undefined,
) {
  function priceSaid(event: PricesEvent): void {
    meters.priceSaid(event)
    switch (event.type) {
      case 'PricePublished':
        fronts.tell('Priced', { price: event.price })
        return
      case 'SpeakerChanged': {
        const { asset, source, why } = event
        fronts.tell('SpeakerChanged', { asset, source, why })
        quick()?.served.hear('SpeakerChanged', { asset, source }, 0, undefined)
        return
      }
      case 'ObservationAccepted':
        quick()?.served.hear('Observed', { observation: event.observation }, 0, undefined)
        return
      case 'ObservationRefused': {
        const { observation } = event
        quick()?.served.hear('Missed', { source: observation.source, observation }, 0, undefined)
      }
    }
  }

  function quickSaid(event: QuickMarketsEvent): void {
    meters.quickSaid(event)
    const { type, quickMarket, atMs } = event
    // Do not notify fronts that a market is contested: they treat the market as unresolved, and read the contest from
    // the database.
    if (type !== 'QuickMarketContested') fronts.tell(type, { quickMarket, atMs })
  }

  function troubled(source: PriceSource, kind: FeedTrouble, detail: string): void {
    meters.troubled(source, kind, detail)
    if (kind !== 'garbage' && kind !== 'unsure') return
    quick()?.served.hear('Missed', { source, observation: undefined }, 0, undefined)
  }

  return { price: priceSaid, quick: quickSaid, trouble: troubled }
}
