/** Metrics and log lines of prices, price providers, and quick markets. */

import { Counter, Gauge } from 'prom-client'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import { verdictOf } from '#domain/quick-market.ts'
import { evidenceText } from '#domain/quick-votes.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { Feed, FeedTrouble } from './feeds/feed.ts'
import type { PricesEvent, PricesState } from './prices.ts'
import type { QuickMarketsEvent, QuickMarketsState } from './quick-markets/state.ts'

/**
 * Time without an active provider after which a warning is logged. A shorter time would cause false warnings: when the
 * machine's clock is corrected, all providers count as silent for a moment.
 */
const SILENCE_MS = 5_000
/** Time after the start in which providers can deliver the first price of an asset before a warning is logged. */
const FIRST_PRICE_MS = 30_000
/** Period in which the same trouble of a provider is logged only once. */
const LOG_AGAIN_MS = 600_000

const EVENT_LABELS = {
  QuickMarketOpened: 'opened',
  QuickMarketContested: 'contested',
  QuickMarketResolved: 'resolved',
} as const

export function pricesMeters(
  { registry, log, clock }: ThreadContext,
  now: {
    readonly feeds: () => readonly Feed[]
    readonly prices: () => PricesState | undefined
    readonly quickMarkets: () => QuickMarketsState | undefined
    /** Returns the time of the monotonic clock: setting the system time does not change it. */
    readonly monotonicMs: () => number
  },
) {
  const registers = [registry]
  /** Time since which prices are expected; undefined on a standby node, which expects no prices. */
  let waitsSinceMs: number | undefined
  const observed = new Counter({
    name: 'sibyl_price_observations_total',
    help: 'Reports of price providers, by result',
    labelNames: ['source', 'result'],
    registers,
  })
  const troubles = new Counter({
    name: 'sibyl_price_troubles_total',
    help: 'Failures of price providers, by kind',
    labelNames: ['source', 'kind'],
    registers,
  })
  const published = new Counter({
    name: 'sibyl_prices_total',
    help: 'Published prices, by asset and provider',
    labelNames: ['asset', 'source'],
    registers,
  })
  const speaking = new Gauge({
    name: 'sibyl_price_speaker',
    help: '1 for the active provider of an asset',
    labelNames: ['asset', 'source'],
    registers,
  })
  const quickEvents = new Counter({
    name: 'sibyl_quick_markets_total',
    help: 'Quick markets that were opened, contested and resolved',
    labelNames: ['asset', 'event'],
    registers,
  })
  const refusedRows = new Counter({
    name: 'sibyl_price_rows_refused_total',
    help: 'Prices and marks that were not stored, because the database rejected them',
    labelNames: ['row'],
    registers,
  })
  new Gauge({
    name: 'sibyl_price_age_seconds',
    help: 'Age of the price of an asset, measured with the clock of its provider; before the first price arrives, the time since the exchange started',
    labelNames: ['asset'],
    registers,
    collect() {
      const state = now.prices()
      if (state === undefined) return
      waitsSinceMs ??= now.monotonicMs()
      for (const { asset, latest } of state.assets.values()) {
        const ageMs =
          latest === undefined ? now.monotonicMs() - waitsSinceMs : clock.nowMs() - latest.atMs
        this.set({ asset }, ageMs / 1_000)
      }
    },
  })
  new Gauge({
    name: 'sibyl_price_provider_open',
    help: '1 while a provider pushes prices',
    labelNames: ['source'],
    registers,
    collect() {
      for (const feed of now.feeds()) this.set({ source: feed.source }, feed.isOpen() ? 1 : 0)
    },
  })
  new Gauge({
    name: 'sibyl_quick_markets_unfinished',
    help: 'Quick markets without an outcome on the chain',
    registers,
    collect() {
      this.set(now.quickMarkets()?.rows.size ?? 0)
    },
  })
  new Gauge({
    name: 'sibyl_quick_markets_contested',
    help: 'Quick markets with contradicting price sources that wait for the oracle',
    labelNames: ['asset'],
    registers,
    collect() {
      this.reset()
      for (const asset of now.prices()?.assets.keys() ?? []) this.set({ asset }, 0)
      for (const { quickMarket } of now.quickMarkets()?.rows.values() ?? []) {
        if (verdictOf(quickMarket) === 'contested') this.inc({ asset: quickMarket.asset })
      }
    },
  })
  const loggedAtMs = new Map<string, number>()
  /** Assets that have had an active provider. */
  const spoken = new Set<string>()
  const silences = new Map<
    string,
    { readonly sinceMs: number; readonly why: string; isLogged: boolean }
  >()

  return {
    priceSaid(event: PricesEvent): void {
      switch (event.type) {
        case 'PricePublished': {
          const { asset, source } = event.price
          published.inc({ asset, source })
          return
        }
        case 'SpeakerChanged': {
          const { asset, source, why } = event
          for (const each of PRICE_SOURCES) {
            speaking.set({ asset, source: each }, each === source ? 1 : 0)
          }
          if (source !== undefined) {
            spoken.add(asset)
            silences.delete(asset)
            log.info(
              { asset, source },
              'a provider has become the active price provider of an asset',
            )
          } else {
            const { sinceMs, isLogged } = silences.get(asset) ?? {
              sinceMs: now.monotonicMs(),
              isLogged: false,
            }
            silences.set(asset, { sinceMs, why, isLogged })
          }
          return
        }
        case 'ObservationAccepted':
          observed.inc({ source: event.observation.source, result: 'accepted' })
          return
        case 'ObservationRefused':
          observed.inc({ source: event.observation.source, result: event.why })
      }
    },
    rowsRefused(row: 'price' | 'mark', count: number): void {
      if (count === 0) return
      refusedRows.inc({ row }, count)
      log.warn(
        { row, count },
        'the database rejected rows of prices, so these rows were not stored',
      )
    },
    /**
     * Logs a warning once for each asset that has had no active provider for `SILENCE_MS`, or for
     * `FIRST_PRICE_MS` if it never had one. Called at intervals.
     */
    lookAtSilences(): void {
      for (const [asset, silence] of silences) {
        const limitMs = spoken.has(asset) ? SILENCE_MS : FIRST_PRICE_MS
        if (silence.isLogged || now.monotonicMs() - silence.sinceMs < limitMs) continue
        silence.isLogged = true
        log.warn({ asset, why: silence.why }, 'an asset has no active price provider')
      }
    },
    quickSaid({ type, quickMarket }: QuickMarketsEvent): void {
      const { id, asset, marketId, strike, resolution, contested } = quickMarket
      quickEvents.inc({ asset, event: EVENT_LABELS[type] })
      const about = { id, asset, marketId, strike: strike.price }
      if (type === 'QuickMarketContested') {
        const evidence = contested === null ? '' : evidenceText(contested)
        log.warn(
          { ...about, evidence },
          'price sources contradict each other, so the oracle decides the quick market',
        )
      } else log.info({ ...about, outcome: resolution?.outcome }, type)
    },
    troubled(source: PriceSource, kind: FeedTrouble, detail: string): void {
      troubles.inc({ source, kind })
      const about = { source, kind, detail }
      const nowMs = clock.nowMs()
      const isNew = nowMs - (loggedAtMs.get(`${source} ${kind}`) ?? 0) > LOG_AGAIN_MS
      // Log a warning only for problems that an operator can fix, such as a wrong key, a wrong URL, or a provider that
      // has changed its answers.
      if (!isNew || kind === 'closed' || kind === 'silent' || kind === 'away') {
        log.debug(about, 'a price provider failed or sends no prices')
        return
      }
      loggedAtMs.set(`${source} ${kind}`, nowMs)
      log.warn(about, 'a price provider failed or sends no prices')
    },
  }
}
