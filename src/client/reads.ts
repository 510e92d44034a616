/**
 * Functions that read markets, history and statistics: everything that a trading page shows except order
 * books.
 */

import type { TimeAnswer } from '#protocol/shapes/config.ts'
import type { Event, EventDetail } from '#protocol/shapes/events.ts'
import type { Candles, Market, MarketStats, PlatformStats } from '#protocol/shapes/markets.ts'
import type { MarketActivity } from '#protocol/shapes/trades.ts'
import type { ActivityPage, Holders, UserPosition } from '#protocol/shapes/users.ts'
import { pageNames } from './pages.ts'
import { SibylError } from './sibyl-error.ts'
import type { CallOptions, Transport } from './transport.ts'

export type MarketFilter = {
  readonly chainId?: number
  readonly category?: Market['category']
  readonly resolved?: boolean
  /**
   * `open` selects only markets that accept orders; `ended` selects only markets that do not. By default, all markets
   * are selected, open ones first.
   */
  readonly status?: 'open' | 'ended'
  /** True to include quick markets. */
  readonly quick?: boolean
  readonly search?: string
  /** Markets per request; by default the exchange's maximum. */
  readonly pageSize?: number
}

export type EventFilter = {
  /** `volume` by default. */
  readonly sort?: 'volume' | 'newest' | 'ending' | 'category'
  /** Selects events by their end: in the future (the default), in the past, or both. */
  readonly status?: 'open' | 'ended' | 'all'
  readonly category?: Event['category']
  readonly tag?: string
  readonly search?: string
  readonly chainId?: number
  /** Events per request; 20 by default. */
  readonly pageSize?: number
}

export type UserOfChain = { readonly address?: string; readonly chainId?: number }

export type ClientReads = {
  /** Returns all matching markets, page by page; throws if there are more than `max` (10,000). */
  markets(
    filter?: MarketFilter & { readonly max?: number },
    options?: CallOptions,
  ): Promise<Market[]>
  /** Iterates over all matching markets, open ones first; requests pages as needed. */
  eachMarket(filter?: MarketFilter, options?: CallOptions): AsyncGenerator<Market, void, undefined>
  /** Iterates over matching events, each with its first markets; pages are requested as needed. */
  eachEvent(filter?: EventFilter, options?: CallOptions): AsyncGenerator<Event, void, undefined>
  /** Returns an event with all of its markets. */
  event(
    slug: string,
    where?: { readonly chainId?: number },
    options?: CallOptions,
  ): Promise<EventDetail>
  /** Returns up to 300 candles, oldest first; for earlier candles, pass `nextTo` of the answer as `to`. */
  candles(
    marketId: string,
    which?: {
      readonly outcome?: 'YES' | 'NO'
      readonly interval?: '1m' | '5m' | '15m' | '1h' | '4h' | '1d'
      readonly from?: number
      readonly to?: number
    },
    options?: CallOptions,
  ): Promise<Candles>
  stats(marketId: string, options?: CallOptions): Promise<MarketStats>
  holders(marketId: string, options?: CallOptions): Promise<Holders>
  /** Returns the statistics of one chain, or of all chains. */
  platformStats(
    where?: { readonly chainId?: number },
    options?: CallOptions,
  ): Promise<PlatformStats>
  /** Returns all positions of a user on a chain; by default the signer's. */
  positions(user?: UserOfChain, options?: CallOptions): Promise<UserPosition[]>
  /** Returns a user's realised profit on a chain, with 6 decimals; includes closed positions. */
  realisedProfit(user?: UserOfChain, options?: CallOptions): Promise<number>
  /**
   * Returns a user's newest trades and payouts, up to 100 of each; for older trades, pass `nextBefore` of the answer as
   * `before`.
   */
  activity(
    user?: UserOfChain & { readonly limit?: number; readonly before?: string | undefined },
    options?: CallOptions,
  ): Promise<ActivityPage>
  /**
   * Returns a market's newest trades with the side of each taker, up to 50; for older trades, pass `nextBefore` of the
   * answer as `before`.
   */
  marketActivity(
    marketId: string,
    page?: { readonly limit?: number; readonly before?: string | undefined },
    options?: CallOptions,
  ): Promise<{ readonly activity: readonly MarketActivity[]; readonly nextBefore: string | null }>
  /** Returns the exchange's clock. */
  time(options?: CallOptions): Promise<TimeAnswer>
}

const MARKETS_MAX = 10_000

export function createReads(ports: {
  readonly send: Transport
  readonly userOf: (
    user: UserOfChain,
    call: CallOptions | undefined,
  ) => Promise<{ readonly user: string; readonly chainId: number }>
}): ClientReads {
  const { send, userOf } = ports
  const path = (name: string, id: string) => `/api/v1/${name}/${encodeURIComponent(id)}`

  async function* eachMarket(
    { chainId, category, resolved, status, quick, search, pageSize }: MarketFilter = {},
    call?: CallOptions,
  ): AsyncGenerator<Market, void, undefined> {
    let cursor: string | undefined
    const named = pageNames()
    do {
      const filter = { chain_id: chainId, category, resolved, status, quick, search }
      const query = { ...filter, limit: pageSize, cursor }
      const page = await send<{ markets: Market[]; nextCursor: string | null }>(
        { method: 'GET', path: '/api/v1/markets', query },
        call,
      )
      yield* page.markets
      cursor = named(page.nextCursor)
    } while (cursor !== undefined)
  }

  return {
    eachMarket,
    eachEvent: (filter, call) => eachEvent(send, filter, call),
    event: (slug, { chainId } = {}, call) =>
      send({ method: 'GET', path: path('events', slug), query: { chain_id: chainId } }, call),
    async markets({ max = MARKETS_MAX, ...filter } = {}, call) {
      const all: Market[] = []
      for await (const market of eachMarket(filter, call)) {
        if (all.length === max) {
          const message = `there are more than ${max} markets: give a larger max, or use eachMarket`
          throw new SibylError('TOO_MANY_MARKETS', message, { field: 'max' })
        }
        all.push(market)
      }
      return all
    },
    candles: (marketId, which = {}, call) =>
      send({ method: 'GET', path: path('candles', marketId), query: which }, call),
    stats: (marketId, call) => send({ method: 'GET', path: path('stats', marketId) }, call),
    holders: (marketId, call) => send({ method: 'GET', path: path('holders', marketId) }, call),
    platformStats: ({ chainId } = {}, call) =>
      send({ method: 'GET', path: '/api/v1/platform/stats', query: { chain_id: chainId } }, call),
    async positions(of = {}, call) {
      const { user, chainId } = await userOf(of, call)
      const all: UserPosition[] = []
      let cursor: string | undefined
      const named = pageNames()
      do {
        const page = await send<{ positions: UserPosition[]; nextCursor: string | null }>(
          {
            method: 'GET',
            path: `${path('users', user)}/positions`,
            query: { chain_id: chainId, cursor },
          },
          call,
        )
        all.push(...page.positions)
        cursor = named(page.nextCursor)
      } while (cursor !== undefined)
      return all
    },
    async realisedProfit(of = {}, call) {
      const { user, chainId } = await userOf(of, call)
      const query = { chain_id: chainId, limit: 1 }
      const page = await send<{ realisedProfit: number }>(
        { method: 'GET', path: `${path('users', user)}/positions`, query },
        call,
      )
      return page.realisedProfit
    },
    async activity({ limit, before, ...of } = {}, call) {
      const { user, chainId } = await userOf(of, call)
      const query = { chain_id: chainId, limit, before }
      return send({ method: 'GET', path: `${path('users', user)}/activity`, query }, call)
    },
    marketActivity: (marketId, query = {}, call) =>
      send({ method: 'GET', path: path('activity', marketId), query }, call),
    time: (call) => send({ method: 'GET', path: '/api/v1/time' }, call),
  }
}

/**
 * Iterates over events until there is no next cursor. A page of a filtered list may be short without being the last
 * page.
 */
async function* eachEvent(
  send: Transport,
  { chainId, pageSize, ...filter }: EventFilter = {},
  call: CallOptions | undefined,
): AsyncGenerator<Event, void, undefined> {
  let cursor: string | undefined
  const named = pageNames()
  do {
    const query = { ...filter, chain_id: chainId, limit: pageSize, cursor }
    const page = await send<{ events: Event[]; nextCursor: string | null }>(
      { method: 'GET', path: '/api/v1/events', query },
      call,
    )
    yield* page.events
    cursor = named(page.nextCursor)
  } while (cursor !== undefined)
}
