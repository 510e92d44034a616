/**
 * The latest price of each asset, and the prices of the last minutes. The actor receives observations of the providers,
 * lets the failover choose the active source, and publishes a price when the active source has a new one. The times of
 * published prices never go back.
 */

import type { Observation } from '#domain/asset-price.ts'
import { PRICE_HISTORY_SEC, PRICES_WAITING_MAX } from '#domain/limits.ts'
import type { PriceSource } from '#domain/price-providers.ts'
import type { AssetPrices, PublishedPrice } from '#protocol/prices.ts'
import type { Behaviour, Context } from '#runtime/actor.ts'
import type { PriceBatch, PriceRecord } from '#store/writes/prices.ts'
import type { Failover, GateVerdict } from './feeds/failover.ts'

export type PricesProtocol = {
  Observed: { takes: { observation: Observation }; answers: undefined }
  /** Sent at intervals: the actor detects stale providers and writes waiting prices. */
  Tick: { takes: object; answers: undefined }
  PricesWritten: { takes: { count: number }; answers: undefined }
  PricesNotWritten: { takes: { why: string }; answers: undefined }
}

export type PricesEvent =
  | { readonly type: 'PricePublished'; readonly price: PublishedPrice }
  | {
      readonly type: 'SpeakerChanged'
      readonly asset: string
      readonly source: PriceSource | undefined
      readonly why: string
    }
  /** The actor accepted an observation, from the active source or from another one. */
  | { readonly type: 'ObservationAccepted'; readonly observation: Observation }
  | {
      readonly type: 'ObservationRefused'
      readonly observation: Observation
      readonly why: Exclude<GateVerdict, 'accepted'> | 'suspect'
    }

type AssetState = {
  readonly asset: string
  speaker: PriceSource | undefined
  why: string
  latest: PublishedPrice | undefined
  publishedAtMs: number
  history: PublishedPrice[]
}

type PricesOptions = {
  readonly assets: readonly string[]
  /** Minimum time between two published prices of an asset. */
  readonly publishMs: number
  /** Interval of database writes. */
  readonly writeMs: number
}

/** Functions that the prices actor needs from other modules. */
export type PricesPorts = {
  readonly failover: Failover
  readonly write: (batch: PriceBatch) => Promise<unknown>
}

export type PricesState = PricesPorts & {
  readonly options: PricesOptions
  readonly assets: ReadonlyMap<string, AssetState>
  waiting: PriceRecord[]
  /** Number of prices at the start of `waiting` that are being written. */
  writing: number
  wroteAtMs: number
  /** Reason why the last write failed; '' if the write succeeded. */
  trouble: string
}

export function newPrices(
  options: PricesOptions,
  ports: PricesPorts,
  /** Recorded prices, the earliest first. */
  recorded: readonly PriceRecord[] = [],
): PricesState {
  const assets = new Map(
    options.assets.map((asset) => {
      const history = recorded.filter((price) => price.asset === asset)
      const latest = history.at(-1)
      if (latest !== undefined) ports.failover.recall(asset, latest.price, latest.atMs)
      const state: AssetState = {
        asset,
        speaker: undefined,
        why: 'no provider has delivered a price yet',
        latest,
        publishedAtMs: 0,
        history,
      }
      return [asset, state]
    }),
  )
  return { options, ...ports, assets, waiting: [], writing: 0, wroteAtMs: 0, trouble: '' }
}

type PricesContext = Context<PricesProtocol, PricesEvent>

export const prices: Behaviour<PricesState, PricesProtocol, PricesEvent> = {
  Observed(state, { observation }, context) {
    const { failover } = state
    const { asset, source } = observation
    const verdict = failover.observe(observation, context.nowMs)
    const known = state.assets.get(asset)
    if (verdict !== 'accepted' || known === undefined) {
      // A repeated observation is normal, so it is dropped without an event.
      const why = verdict === 'accepted' ? 'unknown' : verdict
      if (why !== 'repeated') context.emit({ type: 'ObservationRefused', observation, why })
      return undefined
    }
    review(state, known, context)
    // A suspect source disagrees with the others. Its price may be wrong, so the observation counts as refused.
    if (failover.isSuspect(asset, source)) {
      context.emit({ type: 'ObservationRefused', observation, why: 'suspect' })
    } else context.emit({ type: 'ObservationAccepted', observation })
    return undefined
  },

  Tick(state, _message, context) {
    for (const known of state.assets.values()) {
      review(state, known, context)
      forget(known, context.nowMs)
    }
    write(state, context)
    return undefined
  },

  PricesWritten(state, { count }) {
    state.waiting.splice(0, count)
    state.writing = 0
    state.trouble = ''
    return undefined
  },

  PricesNotWritten(state, { why }) {
    state.writing = 0
    state.trouble = why
    return undefined
  },
}

/** Chooses the active source and publishes its newest price. */
function review(state: PricesState, known: AssetState, context: PricesContext): void {
  const { failover, options } = state
  const { asset } = known
  const { source, why } = failover.choose(asset, context.nowMs)
  if (source !== known.speaker || why !== known.why) {
    known.speaker = source
    known.why = why
    context.emit({ type: 'SpeakerChanged', asset, source, why })
  }
  if (source === undefined) return
  const newest = failover.newest(asset, source)
  const { latest } = known
  if (newest === undefined || context.nowMs - known.publishedAtMs < options.publishMs) return
  if (latest !== undefined) {
    if (newest.atMs < latest.atMs) return
    if (newest.atMs === latest.atMs && newest.price === latest.price) return
  }
  const price: PublishedPrice = {
    asset,
    price: newest.price,
    atMs: newest.atMs,
    source,
    number: Math.max(context.nowMs, (latest?.number ?? 0) + 1),
  }
  known.latest = price
  known.publishedAtMs = context.nowMs
  remember(known.history, price)
  remember(state.waiting, price, state.writing)
  context.emit({ type: 'PricePublished', price })
}

/**
 * Adds a price to the list. If the last price of the list has the same asset and second, the new price replaces it. The
 * first `fixed` prices are never replaced, because they are being written to the database. After the write, this number
 * of prices is removed from the start of the list.
 */
function remember(list: PriceRecord[], price: PriceRecord, fixed = 0): void {
  const last = list.length > fixed ? list.at(-1) : undefined
  const second = (record: PriceRecord): number => Math.floor(record.atMs / 1_000)
  if (last !== undefined && last.asset === price.asset && second(last) === second(price)) list.pop()
  list.push(price)
}

function forget(known: AssetState, nowMs: number): void {
  const fromMs = nowMs - PRICE_HISTORY_SEC * 1_000
  const keep = known.history.findIndex(({ atMs }) => atMs >= fromMs)
  if (keep > 0) known.history.splice(0, keep)
  else if (keep < 0) known.history.length = 0
}

function write(state: PricesState, context: PricesContext): void {
  const { waiting, options } = state
  if (state.writing > 0 || waiting.length === 0) return
  if (context.nowMs - state.wroteAtMs < options.writeMs) return
  if (waiting.length > PRICES_WAITING_MAX) waiting.splice(0, waiting.length - PRICES_WAITING_MAX)
  const batch = [...waiting]
  state.writing = batch.length
  state.wroteAtMs = context.nowMs
  const pricesFromSec = Math.floor(context.nowMs / 1_000) - PRICE_HISTORY_SEC
  context.pipe(
    state.write({ prices: batch, pricesFromSec }),
    () => ({ type: 'PricesWritten', message: { count: batch.length } }),
    (error) => ({ type: 'PricesNotWritten', message: { why: String(error) } }),
  )
}

/** Returns all prices, for a new reader. */
export function assetPricesOf(state: PricesState): AssetPrices[] {
  return [...state.assets.values()].map(({ asset, speaker, why, latest, history }) => ({
    ...{ asset, speaker, why, latest },
    history: [...history],
  }))
}

/** Returns why prices are missing; '' if no price is missing. */
export function whyUnpriced(state: PricesState): string {
  const silent = [...state.assets.values()].filter(({ speaker }) => speaker === undefined)
  return silent.map(({ asset, why }) => `${asset}: ${why}`).join('; ')
}
