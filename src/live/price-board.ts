/**
 * Memory of a front for prices and quick markets. For each asset it has the latest price, the prices of the last
 * minutes, and the current quick market. The prices thread sends updates, and the board passes them on to the streams.
 * The board makes no decisions.
 */

import { priceUsd } from '#domain/asset-price.ts'
import { PRICE_HISTORY_SEC } from '#domain/limits.ts'
import type { PriceSource } from '#domain/price-providers.ts'
import {
  endPriceOf,
  endSecOf,
  type QuickMarket as QuickMarketRecord,
  verdictOf,
} from '#domain/quick-market.ts'
import type { AssetPrices, PublishedPrice } from '#protocol/prices.ts'
import type { QUICK_MARKET_EVENTS, QuickMarket, StreamPrice } from '#protocol/shapes/prices.ts'

export type QuickMarketEvent = {
  readonly event: (typeof QUICK_MARKET_EVENTS)[number]
  readonly quickMarket: QuickMarket
  readonly atMs: number
}

export type ShownAsset = {
  readonly asset: string
  speaker: PriceSource | undefined
  why: string
  latest: PublishedPrice | undefined
  /** One price per second, the oldest first. */
  history: PublishedPrice[]
  /** Recent events of the price stream for readers that resume, the oldest first. */
  readonly events: { readonly number: number; readonly text: string }[]
  /** Newest quick market, including one that has ended. */
  quickMarket: QuickMarketRecord | undefined
}

export type PriceListener = {
  priced(asset: string, event: StreamPrice): void
  /** Receives a new price as the text of an event of the price stream. */
  streamed(asset: string, text: string): void
  quickMarket(asset: string, event: QuickMarketEvent): void
}

export type PriceBoard = {
  readonly assets: ReadonlyMap<string, ShownAsset>
  /**
   * Replaces the state of each asset by the state from the prices thread. Passes on the prices and quick
   * markets that are newer than those on the board.
   */
  load(assets: readonly AssetPrices[], active: readonly QuickMarketRecord[], atMs: number): void
  priced(price: PublishedPrice): void
  speakerChanged(asset: string, source: PriceSource | undefined, why: string): void
  quickMarketOpened(quickMarket: QuickMarketRecord, atMs: number): void
  quickMarketResolved(quickMarket: QuickMarketRecord, atMs: number): void
  /** Reports that the prices thread is unreachable: prices become stale. */
  lost(): void
  /** Returns the problem with the prices; '' if there is none. */
  why(): string
}

export function makePriceBoard(
  options: { readonly assets: readonly string[]; readonly replayEvents: number },
  listener: PriceListener,
): PriceBoard {
  const assets = new Map<string, ShownAsset>()
  for (const asset of options.assets) {
    assets.set(asset, {
      ...{
        asset,
        speaker: undefined,
        why: 'no provider has delivered a price yet',
        latest: undefined,
      },
      history: [],
      events: [],
      quickMarket: undefined,
    })
  }

  function priced(price: PublishedPrice): void {
    const shown = assets.get(price.asset)
    if (shown === undefined || price.number <= (shown.latest?.number ?? 0)) return
    shown.latest = price
    remember(shown, price)
    const event = priceEvent(price)
    const text = eventText(price.number, event)
    shown.events.push({ number: price.number, text })
    if (shown.events.length > options.replayEvents) shown.events.shift()
    listener.priced(price.asset, event)
    listener.streamed(price.asset, text)
  }

  function opened(quickMarket: QuickMarketRecord, atMs: number): void {
    const shown = assets.get(quickMarket.asset)
    const present = shown?.quickMarket
    if (shown === undefined || (present !== undefined && present.id >= quickMarket.id)) return
    shown.quickMarket = quickMarket
    const one = quickMarketBody(quickMarket)
    listener.quickMarket(quickMarket.asset, { event: 'opened', quickMarket: one, atMs })
  }

  return {
    assets,
    load(loaded, active, atMs) {
      for (const { asset, speaker, why, latest, history } of loaded) {
        const shown = assets.get(asset)
        if (shown === undefined) continue
        shown.speaker = speaker
        shown.why = why
        shown.history = [...history]
        if (latest !== undefined) priced(latest)
      }
      for (const quickMarket of active) opened(quickMarket, atMs)
    },
    priced,
    speakerChanged(asset, source, why) {
      const shown = assets.get(asset)
      if (shown === undefined) return
      shown.speaker = source
      shown.why = why
    },
    quickMarketOpened: opened,
    quickMarketResolved(quickMarket, atMs) {
      const shown = assets.get(quickMarket.asset)
      if (shown === undefined) return
      if (shown.quickMarket?.id === quickMarket.id) shown.quickMarket = quickMarket
      const one = quickMarketBody(quickMarket)
      listener.quickMarket(quickMarket.asset, { event: 'resolved', quickMarket: one, atMs })
    },
    lost() {
      for (const shown of assets.values()) {
        shown.speaker = undefined
        shown.why = 'the price service is restarting: retry shortly'
      }
    },
    why: () =>
      [...assets.values()]
        .filter(({ speaker }) => speaker === undefined)
        .map(({ asset, why }) => `${asset}: ${why}`)
        .join('; '),
  }
}

function remember({ history }: ShownAsset, price: PublishedPrice): void {
  const second = ({ atMs }: PublishedPrice): number => Math.floor(atMs / 1_000)
  const last = history.at(-1)
  if (last !== undefined && second(last) >= second(price)) history.pop()
  history.push(price)
  if (history.length > PRICE_HISTORY_SEC) history.shift()
}

function priceEvent({ asset, price, atMs, source }: PublishedPrice): StreamPrice {
  return { asset, price, priceUSD: priceUsd(price), timestamp: atMs, source }
}

function eventText(number: number, event: StreamPrice): string {
  return `id: ${number}\ndata: ${JSON.stringify(event)}\n\n`
}

/**
 * Returns the first events for a reader of the price stream: the remembered events after `lastEventId`. If
 * there are none, or if `lastEventId` is not usable, returns the latest price. Returns '' if the asset has no
 * price yet.
 */
export function firstEvents({ events, latest }: ShownAsset, lastEventId: string): string {
  if (latest === undefined) return ''
  const newest = eventText(latest.number, priceEvent(latest))
  if (!/^[0-9]{1,16}$/.test(lastEventId)) return newest
  const since = Number(lastEventId)
  const oldest = events[0]
  // If `lastEventId` is older than the remembered events, or in the future, the reader starts with the latest
  // price.
  if (oldest === undefined || since < oldest.number || since > latest.number) return newest
  const missed = events.filter(({ number }) => number > since).map(({ text }) => text)
  return missed.length === 0 ? newest : missed.join('')
}

/** Returns the asset's quick market if it can be traded now, otherwise undefined. */
export function activeMarket(
  { quickMarket }: ShownAsset,
  nowMs: number,
): QuickMarketRecord | undefined {
  if (quickMarket === undefined || quickMarket.resolution !== null) return undefined
  return nowMs < endSecOf(quickMarket) * 1_000 ? quickMarket : undefined
}

export function quickMarketBody(record: QuickMarketRecord): QuickMarket {
  const { strike, resolution } = record
  return {
    id: record.id,
    marketId: record.marketId,
    asset: record.asset,
    intervalMinutes: Math.max(1, Math.round(record.intervalSec / 60)),
    intervalSeconds: record.intervalSec,
    startPrice: strike.price,
    startTime: record.startSec,
    endTime: endSecOf(record),
    resolved: resolution !== null,
    priceSource: strike.source,
    createdAt: Math.floor(record.createdAtMs / 1_000),
    endPrice: endPriceOf(record),
    outcome: resolution === null ? null : resolution.outcome,
    verdict: verdictOf(record),
  }
}
