/**
 * The three price providers, each speaking its own protocol, from one price path. Their prices differ
 * a little, as those of real ones do. Each can be told to misbehave. This file knows messages; what
 * carries them (`price-server.ts`, or a test) is handed in per connection.
 *
 * Every provider has ticks: instants of its own grid. What it pushes at a tick, what it calls the
 * latest and what it tells of the past are the same report.
 */

import { PRICE_DECIMALS, PRICE_SOURCES, type PriceSource } from '#domain/asset-price.ts'
import { centsAt } from './price-path.ts'

/**
 * - `stall`: connections stay open and say nothing more; the latest is what it was.
 * - `drop`: every connection is closed and none is taken, nor any request answered.
 * - `garbage`: what is pushed and the latest cannot be read, or is no price.
 * - `wild`: what is pushed and the latest is far from the truth; the past is told right.
 * - `repeat`: the same report again and again.
 * - `backwards`: each report is older than the one before.
 */
export const PROVIDER_FAULTS = ['stall', 'drop', 'garbage', 'wild', 'repeat', 'backwards'] as const
type ProviderFault = (typeof PROVIDER_FAULTS)[number]

type SimulatorClock = {
  nowMs(): number
  after(delayMs: number, action: () => void): () => void
}

export type SimulatorOptions = {
  readonly seed: number
  readonly assets: readonly string[]
  readonly clock: SimulatorClock
  /** The distance of the ticks of each provider. */
  readonly tickMs?: number
  /** The past is told back to here. */
  readonly sinceMs?: number
}

/** One end of a connection that the simulator writes to. */
type Pushed = { send(text: string): void; close(): void }

export type SimulatedRequest = {
  readonly path: string
  readonly query: URLSearchParams
  readonly authorization: string
}

/** A body, or a stream of events that goes on until its reader leaves; undefined hangs up. */
type SimulatedAnswer =
  | { readonly status: number; readonly body: string }
  | { readonly status: 200; readonly follow: (to: Pushed) => () => void }
  | undefined

type SimulatedSocket = { message(text: string): void; closed(): void }

export type PriceSimulator = {
  /** What the provider reports at its first tick at or after an instant: USD × 10^8, and when. */
  tickAt(source: PriceSource, asset: string, atMs: number): { price: number; atMs: number }
  /** Makes a provider misbehave, or well again. */
  setFault(source: PriceSource, fault: ProviderFault | undefined): void
  faultOf(source: PriceSource): ProviderFault | undefined
  answer(source: PriceSource, request: SimulatedRequest): SimulatedAnswer
  /** Takes a WebSocket; undefined refuses it. */
  accept(source: PriceSource, request: SimulatedRequest, to: Pushed): SimulatedSocket | undefined
  stop(): void
}

/** Ids of real feeds for those who know them, and something of the same form for others. */
const PYTH_IDS: Readonly<Record<string, string>> = {
  BTC: 'e62df6c8b4a85fe1a67db44dc12de5db330f7ac66b72dc658afedf0f4a415b43',
  ETH: 'ff61491a931112ddf1bd8147cd1b641375f79f5825126d665480874634fd0ace',
}
export const pythIdOf = (asset: string): string =>
  PYTH_IDS[asset] ?? Buffer.from(asset.padEnd(32, '.')).toString('hex')

const TICK_MS = 500
/** How far each provider's grid is shifted, and how far its prices are, in cents per 10,000 USD. */
const SHIFT_MS: Readonly<Record<PriceSource, number>> = { pyth: 0, binance: 137, coinbase: 263 }
const SHIFT_PRICE: Readonly<Record<PriceSource, number>> = { pyth: 0, binance: 12, coinbase: -9 }
const HEARTBEAT_MS = 1_000
/** No provider is wrong in the same way as another. */
const WILD_FACTORS: Readonly<Record<PriceSource, number>> = {
  pyth: 1.37,
  binance: 0.71,
  coinbase: 1.19,
}
const CENT = 10 ** (PRICE_DECIMALS - 2)

/** Texts that are no price, or no message at all. */
const GARBAGE_PRICES = ['0', '-1', 'NaN', '', '1e9', '99999999999999999999', 'null']
const GARBAGE_TEXTS = ['', '{', 'not json', '[]', 'null', '{"type":"ticker"}', '{"data":{"e":1}}']

type Follower = Pushed & { readonly assets: readonly string[] }

type Provider = {
  readonly source: PriceSource
  readonly followers: Set<Follower>
  fault: ProviderFault | undefined
  /** The last tick before it went wrong. */
  faultAtMs: number
  pushedAtMs: number
  turns: number
}

export function makePriceSimulator(options: SimulatorOptions): PriceSimulator {
  const { seed, clock } = options
  const tickMs = options.tickMs ?? TICK_MS
  const assets = new Set(options.assets)
  const providers = new Map<PriceSource, Provider>()
  const cancels = new Set<() => void>()
  let stopped = false
  for (const source of PRICE_SOURCES) {
    providers.set(source, {
      source,
      followers: new Set(),
      fault: undefined,
      faultAtMs: 0,
      pushedAtMs: 0,
      turns: 0,
    })
  }
  const providerOf = (source: PriceSource): Provider => providers.get(source)!

  const tickBefore = (source: PriceSource, atMs: number): number =>
    Math.floor((atMs - SHIFT_MS[source]) / tickMs) * tickMs + SHIFT_MS[source]
  const tickFrom = (source: PriceSource, atMs: number): number =>
    Math.ceil((atMs - SHIFT_MS[source]) / tickMs) * tickMs + SHIFT_MS[source]

  function centsOf(source: PriceSource, asset: string, atMs: number): number {
    const cents = centsAt(seed, asset, atMs)
    return cents + Math.round((cents * SHIFT_PRICE[source]) / 1_000_000)
  }

  /** The tick that a provider, as it behaves now, calls its newest. */
  function newestTick(provider: Provider): number {
    const { source, fault, faultAtMs, turns } = provider
    if (fault === 'stall' || fault === 'repeat') return faultAtMs
    if (fault === 'backwards') return faultAtMs - turns * tickMs
    return tickBefore(source, clock.nowMs())
  }

  function shownCents(provider: Provider, asset: string, atMs: number): number {
    const cents = centsOf(provider.source, asset, atMs)
    return provider.fault === 'wild' ? Math.round(cents * WILD_FACTORS[provider.source]) : cents
  }

  const garbagePrice = ({ turns }: Provider): string =>
    GARBAGE_PRICES[turns % GARBAGE_PRICES.length]!

  function pythUpdate(provider: Provider, asked: readonly string[], atMs: number, past: boolean) {
    const parsed = asked.map((asset) => {
      const cents = past ? centsOf('pyth', asset, atMs) : shownCents(provider, asset, atMs)
      const isGarbage = provider.fault === 'garbage' && !past
      const price = isGarbage ? garbagePrice(provider) : String(cents * CENT)
      const report = {
        price,
        conf: String(Math.round(cents * CENT * 0.000_3)),
        expo: -PRICE_DECIMALS,
        publish_time: Math.floor(atMs / 1_000),
      }
      return {
        id: pythIdOf(asset),
        price: report,
        ema_price: report,
        metadata: {
          slot: Math.floor(atMs / 400),
          proof_available_time: Math.floor(atMs / 1_000) + 1,
          prev_publish_time: Math.floor((atMs - tickMs) / 1_000),
        },
      }
    })
    const data = [Buffer.from(`PNAU${atMs}`).toString('hex')]
    return JSON.stringify({ binary: { encoding: 'hex', data }, parsed })
  }

  const usd = (cents: number, decimals: number): string =>
    `${Math.floor(cents / 100)}.${String(cents % 100)
      .padStart(2, '0')
      .padEnd(decimals, '0')}`

  function binanceTrade(provider: Provider, asset: string, atMs: number, past: boolean) {
    const cents = past ? centsOf('binance', asset, atMs) : shownCents(provider, asset, atMs)
    const id = Math.floor(atMs / tickMs)
    const p = provider.fault === 'garbage' && !past ? garbagePrice(provider) : usd(cents, 8)
    return {
      a: id,
      p,
      q: '0.01500000',
      f: id * 2,
      l: id * 2 + 1,
      T: atMs,
      m: id % 2 === 0,
      M: true,
    }
  }

  function coinbaseTicker(provider: Provider, asset: string, atMs: number) {
    const cents = shownCents(provider, asset, atMs)
    const price = provider.fault === 'garbage' ? garbagePrice(provider) : usd(cents, 2)
    return {
      price,
      time: new Date(atMs).toISOString().replace('Z', '000Z'),
      trade_id: Math.floor(atMs / tickMs),
      best_bid: usd(cents - 1, 2),
      best_ask: usd(cents + 1, 2),
    }
  }

  /** What is pushed for one tick. */
  function pushTo(provider: Provider, follower: Follower, atMs: number): void {
    const { source, turns, fault } = provider
    if (fault === 'garbage' && turns % 2 === 0) {
      const text = GARBAGE_TEXTS[(turns / 2) % GARBAGE_TEXTS.length]!
      follower.send(source === 'pyth' ? `data:${text}\n\n` : text)
      return
    }
    if (source === 'pyth') {
      follower.send(`data:${pythUpdate(provider, follower.assets, atMs, false)}\n\n`)
      return
    }
    for (const asset of follower.assets) {
      if (source === 'binance') {
        const symbol = `${asset}USDT`
        const trade = binanceTrade(provider, asset, atMs, false)
        const data = { e: 'aggTrade', E: clock.nowMs(), s: symbol, ...trade }
        follower.send(JSON.stringify({ stream: `${symbol.toLowerCase()}@aggTrade`, data }))
      } else {
        const ticker = coinbaseTicker(provider, asset, atMs)
        const frame = {
          type: 'ticker',
          sequence: ticker.trade_id,
          product_id: `${asset}-USD`,
          side: 'buy',
          last_size: '0.015',
          ...ticker,
        }
        follower.send(JSON.stringify(frame))
      }
    }
  }

  function turn(provider: Provider): void {
    const { source, fault, followers } = provider
    if (fault !== 'stall' && fault !== 'drop') {
      provider.turns++
      const atMs = newestTick(provider)
      if (atMs > provider.pushedAtMs || fault !== undefined) {
        provider.pushedAtMs = Math.max(provider.pushedAtMs, atMs)
        for (const follower of followers) pushTo(provider, follower, atMs)
      }
    }
    const nowMs = clock.nowMs()
    later(tickFrom(source, nowMs + 1) - nowMs, () => turn(provider))
  }

  /** Coinbase says every second that it is there. */
  function beat(): void {
    const provider = providerOf('coinbase')
    if (provider.fault === undefined) {
      const time = new Date(clock.nowMs()).toISOString()
      const sequence = Math.floor(clock.nowMs() / tickMs)
      for (const follower of provider.followers) {
        for (const asset of follower.assets) {
          const product = `${asset}-USD`
          const beaten = { sequence, last_trade_id: sequence, product_id: product, time }
          follower.send(JSON.stringify({ type: 'heartbeat', ...beaten }))
        }
      }
    }
    later(HEARTBEAT_MS, beat)
  }

  function later(delayMs: number, action: () => void): void {
    if (stopped) return
    const cancel = clock.after(delayMs, () => {
      cancels.delete(cancel)
      action()
    })
    cancels.add(cancel)
  }

  function follow(provider: Provider, to: Pushed, asked: readonly string[]): () => void {
    const follower = { ...to, assets: asked }
    provider.followers.add(follower)
    return () => provider.followers.delete(follower)
  }

  const known = (asked: readonly string[]): boolean =>
    asked.length > 0 && asked.every((asset) => assets.has(asset))
  const notFound = { status: 404, body: '{"message":"NotFound"}' }
  const badRequest = { status: 400, body: '{"code":-1121,"msg":"Invalid request."}' }

  function answerPyth(provider: Provider, request: SimulatedRequest): SimulatedAnswer {
    if (!request.authorization.startsWith('Bearer ')) {
      return { status: 401, body: '"an API key is needed"' }
    }
    const ids = new Map([...assets].map((asset) => [pythIdOf(asset), asset]))
    const asked = request.query.getAll('ids[]').map((id) => ids.get(id.replace(/^0x/, '')) ?? '')
    if (!known(asked)) return notFound
    if (request.path === '/v2/updates/price/stream') {
      return { status: 200, follow: (to) => follow(provider, to, asked) }
    }
    if (request.path === '/v2/updates/price/latest') {
      const atMs = newestTick(provider)
      return { status: 200, body: pythUpdate(provider, asked, atMs, false) }
    }
    const sec = Number(/^\/v2\/updates\/price\/([0-9]{1,11})$/.exec(request.path)?.[1])
    const atMs = tickFrom('pyth', sec * 1_000)
    if (!isPast(atMs)) return notFound
    return { status: 200, body: pythUpdate(provider, asked, atMs, true) }
  }

  const isPast = (atMs: number): boolean =>
    atMs >= (options.sinceMs ?? 0) && atMs <= clock.nowMs() && !Number.isNaN(atMs)

  function answerBinance(provider: Provider, { path, query }: SimulatedRequest): SimulatedAnswer {
    const asset = /^([A-Z0-9]+)USDT$/.exec(query.get('symbol') ?? '')?.[1] ?? ''
    if (path !== '/api/v3/aggTrades') return notFound
    if (!known([asset])) return badRequest
    const limit = Number(query.get('limit') ?? 500)
    const from = query.get('startTime')
    const trades: object[] = []
    if (from === null) trades.push(binanceTrade(provider, asset, newestTick(provider), false))
    else {
      const until = Math.min(Number(query.get('endTime') ?? clock.nowMs()), clock.nowMs())
      let atMs = tickFrom('binance', Number(from))
      for (; atMs <= until && trades.length < limit && isPast(atMs); atMs += tickMs) {
        trades.push(binanceTrade(provider, asset, atMs, true))
      }
    }
    return { status: 200, body: JSON.stringify(trades) }
  }

  function answerCoinbase(provider: Provider, { path, query }: SimulatedRequest): SimulatedAnswer {
    const parts = /^\/products\/([A-Z0-9]+)-USD\/(ticker|candles)$/.exec(path)
    const asset = parts?.[1] ?? ''
    if (!known([asset])) return notFound
    if (parts?.[2] === 'ticker') {
      const {
        best_bid: bid,
        best_ask: ask,
        ...rest
      } = coinbaseTicker(provider, asset, newestTick(provider))
      return { status: 200, body: JSON.stringify({ ...rest, bid, ask, size: '1', volume: '9' }) }
    }
    if (query.get('granularity') !== '60') return badRequest
    const candles: number[][] = []
    const end = Number(query.get('end'))
    for (let sec = Number(query.get('start')); sec <= end && candles.length < 300; sec += 60) {
      const first = tickFrom('coinbase', sec * 1_000)
      if (!isPast(first)) continue
      const open = centsOf('coinbase', asset, first) / 100
      candles.unshift([sec, open, open, open, open, 1])
    }
    return { status: 200, body: JSON.stringify(candles) }
  }

  const ANSWERS = { pyth: answerPyth, binance: answerBinance, coinbase: answerCoinbase }

  function acceptBinance(provider: Provider, { path, query }: SimulatedRequest, to: Pushed) {
    const streams = (query.get('streams') ?? '').split('/')
    const asked = streams.map((name) => /^([a-z0-9]+)usdt@aggTrade$/.exec(name)?.[1] ?? '')
    const symbols = asked.map((symbol) => symbol.toUpperCase())
    if (path !== '/stream' || !known(symbols)) return undefined
    const leave = follow(provider, to, symbols)
    return { message: () => undefined, closed: leave }
  }

  function acceptCoinbase(provider: Provider, to: Pushed): SimulatedSocket {
    let leave: () => void = () => undefined
    return {
      message(text) {
        const { type, product_ids: products } = readFrame(text)
        const asked = (products ?? []).map((product) => product.replace(/-USD$/, ''))
        if (type !== 'subscribe' || !known(asked)) {
          to.send(JSON.stringify({ type: 'error', message: 'Failed to subscribe' }))
          return
        }
        leave()
        leave = follow(provider, to, asked)
        const channels = [{ name: 'ticker', product_ids: products }]
        to.send(JSON.stringify({ type: 'subscriptions', channels }))
      },
      closed: () => leave(),
    }
  }

  for (const provider of providers.values()) turn(provider)
  beat()

  return {
    tickAt(source, asset, atMs) {
      const tick = tickFrom(source, atMs)
      const shown = source === 'pyth' ? Math.floor(tick / 1_000) * 1_000 : tick
      return { price: centsOf(source, asset, tick) * CENT, atMs: shown }
    },
    setFault(source, fault) {
      const provider = providerOf(source)
      provider.fault = fault
      provider.faultAtMs = tickBefore(source, clock.nowMs())
      provider.turns = 0
      if (fault !== 'drop') return
      for (const follower of [...provider.followers]) follower.close()
      provider.followers.clear()
    },
    faultOf: (source) => providerOf(source).fault,
    answer(source, request) {
      const provider = providerOf(source)
      return provider.fault === 'drop' ? undefined : ANSWERS[source](provider, request)
    },
    accept(source, request, to) {
      const provider = providerOf(source)
      if (provider.fault === 'drop' || stopped) return undefined
      if (source === 'binance') return acceptBinance(provider, request, to)
      return source === 'coinbase' ? acceptCoinbase(provider, to) : undefined
    },
    stop() {
      stopped = true
      for (const cancel of cancels) cancel()
      for (const { followers } of providers.values()) {
        for (const follower of [...followers]) follower.close()
        followers.clear()
      }
    },
  }
}

function readFrame(text: string): { type?: string; product_ids?: string[] } {
  try {
    const frame: unknown = JSON.parse(text)
    return typeof frame === 'object' && frame !== null ? frame : {}
  } catch {
    return {}
  }
}
