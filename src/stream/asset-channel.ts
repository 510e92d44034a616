/**
 * Prices and quick markets of an asset. These events do not come from a market's log, so each front numbers the
 * messages itself. A new subscriber receives the last price, or the open quick market, at once.
 */

import { type Rejection, reject } from '#domain/rejection.ts'
import type { QuickMarketEvent } from '#live/price-board.ts'
import type { QuickMarket, StreamPrice } from '#protocol/shapes/prices.ts'
import type { Clock } from '#runtime/clock.ts'
import type { AssetChannel, AssetFeed } from './feeds.ts'
import * as messages from './messages.ts'
import type { TopicRegistry } from './topic-registry.ts'

type Asset<M> = {
  price: StreamPrice | undefined
  /** Open quick market; undefined between two markets. */
  quickMarket: QuickMarket | undefined
  readonly feeds: Map<AssetChannel, AssetFeed<M>>
}

type AssetChannels<M> = {
  feedOf(channel: AssetChannel, asset: string): AssetFeed<M> | Rejection
  /** Adds an asset before any data about it exists. */
  know(asset: string): void
  priced(asset: string, event: StreamPrice): void
  quickMarket(asset: string, event: QuickMarketEvent): void
  snapshot(feed: AssetFeed<M>, reset: boolean): string
  forget(feed: AssetFeed<M>): void
}

export function makeAssetChannels<M>(registry: TopicRegistry<M>, clock: Clock): AssetChannels<M> {
  const assets = new Map<string, Asset<M>>()

  function known(name: string): Asset<M> {
    const asset = assets.get(name) ?? { price: undefined, quickMarket: undefined, feeds: new Map() }
    assets.set(name, asset)
    return asset
  }

  return {
    feedOf(channel, name) {
      const asset = assets.get(name)
      if (asset === undefined) return reject('ASSET_NOT_FOUND', 'asset')
      const feed = asset.feeds.get(channel)
      if (feed !== undefined) return feed
      const topic = registry.counted(`${channel}:${name}`)
      const made: AssetFeed<M> = { kind: channel, topic, asset: name }
      asset.feeds.set(channel, made)
      return registry.put(made)
    },
    know: (name) => void known(name),
    priced(name, event) {
      const asset = known(name)
      // Ignore a price that is older than the last one. Its source may have been unavailable while another source sent
      // newer prices.
      if (asset.price !== undefined && event.timestamp < asset.price.timestamp) return
      asset.price = event
      const feed = asset.feeds.get('price')
      if (feed === undefined) return
      registry.sayNext(feed, (step) => messages.price(feed.topic.name, event, step))
    },
    quickMarket(name, event) {
      const asset = known(name)
      const { quickMarket } = event
      if (event.event === 'opened') asset.quickMarket = quickMarket
      else if (asset.quickMarket?.id === quickMarket.id) asset.quickMarket = undefined
      const feed = asset.feeds.get('quick-market')
      if (feed === undefined) return
      registry.sayNext(feed, (step) => messages.quickMarket(feed.topic.name, name, event, step))
    },
    snapshot({ kind, topic, asset: name }, reset) {
      const { price, quickMarket } = known(name)
      const head = { type: `${kind}.snapshot`, sub: topic.name, asset: name }
      const state =
        kind === 'price' ? { last: price ?? null } : { quickMarket: quickMarket ?? null }
      const end = { cursor: topic.cursor(topic.last), ts: clock.nowMs() }
      return JSON.stringify({ ...head, ...state, ...end, ...(reset ? { reset } : {}) })
    },
    forget: ({ kind, asset }) => void assets.get(asset)?.feeds.delete(kind),
  }
}
