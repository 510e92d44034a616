/** Base class of the exchange for ccxt: the SDK client, the markets and their outcomes. */

import {
  AuthenticationError,
  BadSymbol,
  type Market as CcxtMarket,
  type Dict,
  type fetchEventsParams,
  type Int,
  type PredictionEvent,
  PredictionExchange,
  type PredictionMarket,
  type Status,
} from 'ccxt'
import { type Client, type ClientOptions, createClient } from '#client/client.ts'
import { delegateSigner } from '#client/delegate-signer.ts'
import { type OrderSigner, signerAddress } from '#client/sign-order.ts'
import { withApiKey } from '#client/tokens.ts'
import type { Event } from '#protocol/shapes/events.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import { decimal } from './decimal.ts'
import { DESCRIPTION } from './describe.ts'
import { asCcxtError } from './errors.ts'
import { marketStructure } from './market-structure.ts'
import { unitsOf } from './weights.ts'

/** An outcome in the form of ccxt, resolved from a name or an id. */
export type OutcomeRow = {
  readonly outcome: string
  readonly outcomeId: string
  readonly label: 'YES' | 'NO'
  readonly market: string
  readonly marketId: string
  readonly event?: string
  readonly info: Market
}

/** Default limit of events per call. */
const EVENTS_MAX = 100
const EVENT_STATUSES = { active: 'open', inactive: 'ended', closed: 'ended', all: 'all' } as const

const OUTCOME_ID = /^(0x[0-9a-fA-F]{64}):(YES|NO)$/

export class SibylMarkets extends PredictionExchange {
  #client: Client | undefined
  #trader: Promise<string> | undefined

  override describe(): Dict {
    return this.deepExtend(super.describe(), DESCRIPTION)
  }

  /**
   * Returns the SDK client, for functions of the exchange that no ccxt method offers. The first call creates the
   * client. Later changes of the settings do not affect it.
   */
  sdk(): Client {
    if (this.#client !== undefined) return this.#client
    const { chainId, rpcUrl, pins } = this.options
    const url = this.safeString(this.urls.api as Dict, 'rest') ?? String(this.urls.api)
    const options: ClientOptions = {
      ...{ url, timeoutMs: this.timeout },
      ...(this.privateKey ? { signer: this.orderSigner() } : {}),
      ...Object.fromEntries(
        Object.entries({ chainId, rpcUrl, pins }).filter(([, value]) => value !== undefined),
      ),
      fetch: (input, init) => this.sendPaced(input, init),
    }
    const key = { id: this.apiKey, privateKey: this.secret }
    this.#client = createClient(key.id && key.privateKey ? withApiKey(options, key) : options)
    return this.#client
  }

  /** Returns the signer of orders: the key of the account, or the key of a delegate if `walletAddress` is set. */
  protected orderSigner(): OrderSigner {
    const key = this.privateKey as `0x${string}`
    return this.walletAddress ? delegateSigner(this.walletAddress, key) : key
  }

  /**
   * Sends a request of the SDK when ccxt's rate limiter permits it. Uses the user's `fetchImplementation` if there is
   * one.
   */
  protected async sendPaced(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    if (this.enableRateLimit) {
      await this.throttle(unitsOf(String(input), init?.method, init?.body))
    }
    if (this.verbose) this.log('fetch', init?.method ?? 'GET', String(input), init?.body ?? '')
    const send: typeof fetch = this.fetchImplementation ?? globalThis.fetch
    const response = await send(input, init)
    if (this.verbose) this.log('answer', response.status, await response.clone().text())
    return response
  }

  /** Runs a call of the SDK and converts its errors to those of ccxt. */
  protected async call<T>(ask: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await ask(this.sdk())
    } catch (error) {
      throw asCcxtError(this.id, error)
    }
  }

  /** Returns the address that trades: `walletAddress`, or the address of `privateKey`. */
  protected async trader(): Promise<string> {
    if (this.walletAddress) return this.walletAddress
    if (!this.privateKey) {
      throw new AuthenticationError(`${this.id} requires "privateKey" or "walletAddress"`)
    }
    this.#trader ??= signerAddress(this.privateKey as `0x${string}`)
    return this.#trader as Promise<string>
  }

  /** Loads open markets; `params` are the filters of the SDK's `markets`: `quick`, `search`, `status`, `category`. */
  override async fetchMarkets(params: Dict = {}): Promise<CcxtMarket[]> {
    const found = await this.call((client) => client.markets({ status: 'open', ...params }))
    return found.map((raw) => this.parseMarket(raw))
  }

  override parseMarket(raw: Dict): CcxtMarket {
    const event = this.shortenSlug((raw as Market).event?.slug) || undefined
    return marketStructure(this, raw as Market, event) as unknown as CcxtMarket
  }

  /**
   * Finds an outcome that is not loaded yet. If the symbol is an id, loads the market of that id. If the symbol is a
   * name, reloads the list of open markets and searches it.
   */
  override async fetchOutcome(outcomeSymbol: string): Promise<OutcomeRow> {
    await this.loadMarkets()
    const marketId = OUTCOME_ID.exec(outcomeSymbol)?.[1]
    if (marketId !== undefined) await this.loadMarketsById([marketId])
    else await this.loadMarkets(true)
    if (this.hasOutcome(outcomeSymbol)) return this.safeOutcome(outcomeSymbol)
    throw new BadSymbol(`${this.id} has no open market with the outcome ${outcomeSymbol}`)
  }

  /** Loads those of the given markets that are not loaded yet, such as ended markets. */
  protected async loadMarketsById(marketIds: Iterable<string>): Promise<void> {
    await this.loadMarkets()
    for (const id of new Set(marketIds)) {
      if (this.markets_by_id![id] !== undefined) continue
      this.addMarket(await this.call((client) => client.market(id)))
    }
  }

  /**
   * Returns events with their markets. `params`: `query`, `tags`, `category`, `status` (`active`, `closed`, `all`),
   * `sort` (`volume`, `newest`), `limit` (default 100), and `slug` or `eventId` for one event. A list shows only the
   * first markets of an event; `fetchEvent` shows all of them.
   */
  override async fetchEvents(params: fetchEventsParams = {}): Promise<PredictionEvent[]> {
    const slug = params.slug ?? params.eventId
    if (slug !== undefined) return [await this.fetchEvent(slug)]
    await this.loadMarkets()
    const { query, tags = [], category, status = 'active', sort, limit = EVENTS_MAX } = params
    const filter = Object.entries({
      ...{ search: query, tag: tags[0], category },
      ...(sort === 'volume' || sort === 'newest' ? { sort } : {}),
      status: EVENT_STATUSES[status],
    }).filter(([, value]) => value !== undefined)
    const found: PredictionEvent[] = []
    await this.call(async (client) => {
      for await (const event of client.eachEvent(Object.fromEntries(filter))) {
        if (found.push(this.parseEvent(event)) >= limit) return
      }
    })
    return this.applyEventFetchParams(found, { tags: tags.slice(1) })
  }

  /** Returns one event, by its slug, with all of its markets. */
  override async fetchEvent(id: string): Promise<PredictionEvent> {
    await this.loadMarkets()
    const event = this.parseEvent(await this.call((client) => client.event(id)))
    this.setEvents([event])
    return event
  }

  protected parseEvent(raw: Event): PredictionEvent {
    const event = this.shortenSlug(raw.slug)
    const markets = raw.markets.map((market) => this.addMarket(market))
    return {
      id: raw.slug,
      ...{ event, slug: raw.slug, title: raw.title, description: raw.description },
      ...{ category: raw.category, tags: [...raw.tags], markets },
      mutuallyExclusive: raw.exclusive,
      active: raw.status === 'open',
      resolved: markets.every(({ resolved }) => resolved === true),
      volume: raw.totalVolume === null ? undefined : Number(decimal(raw.totalVolume)),
      created: raw.createdAt * 1_000,
      createdDatetime: this.iso8601(raw.createdAt * 1_000),
      end: raw.end * 1_000,
      endDatetime: this.iso8601(raw.end * 1_000),
      image: raw.image,
      info: raw,
    }
  }

  /** Adds a market to the loaded markets, or replaces the loaded one. */
  protected addMarket(raw: Market): PredictionMarket {
    const market = this.parseMarket(raw) as unknown as PredictionMarket
    this.markets![market.market] = market
    this.markets_by_id![raw.id] = [market]
    this.indexMarketOutcomes(market)
    return market
  }

  protected async outcomeRow(outcome: string): Promise<OutcomeRow> {
    return (await this.loadOutcome(outcome)) as OutcomeRow
  }

  override async fetchTime(): Promise<Int> {
    const { serverTimeMs } = await this.call((client) => client.time())
    return serverTimeMs
  }

  override async fetchStatus(): Promise<Status> {
    const info = await this.call((client) => client.config({ fresh: true }))
    return { status: 'ok', updated: info.serverTime * 1_000, eta: undefined, url: undefined, info }
  }
}
