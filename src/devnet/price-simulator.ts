/**
 * Simulates the price providers from one price path. Each provider has its own protocol (`providers/`) and its own
 * small price difference. It reports a price at regular instants, its ticks. All its answers come from these reports:
 * pushed prices, the latest price and past prices. A provider can be made to misbehave. This file handles ticks and
 * faults. The caller passes in the transport of each connection (`price-server.ts`, or a test).
 */

import { PRICE_DECIMALS } from '#domain/asset-price.ts'
import {
  PRICE_SOURCES,
  type PriceSource,
  type ProviderSettings,
  priceProvider,
} from '#domain/price-providers.ts'
import { centsAt } from './price-path.ts'
import { simulatedBinance } from './providers/binance.ts'
import { simulatedCoinbase } from './providers/coinbase.ts'
import type {
  ProviderView,
  Pushed,
  SimulatedAnswer,
  SimulatedProvider,
  SimulatedRequest,
  SimulatedSocket,
} from './providers/provider.ts'
import { simulatedPyth } from './providers/pyth.ts'

const PROVIDERS: Readonly<Record<PriceSource, SimulatedProvider>> = {
  pyth: simulatedPyth,
  binance: simulatedBinance,
  coinbase: simulatedCoinbase,
}

/**
 * The faults of a provider:
 * - `stall`: connections stay open and silent; the latest price does not change.
 * - `drop`: every connection is closed, and no new connection or request is answered.
 * - `garbage`: pushed and latest messages are unreadable, or contain a text that is not a price.
 * - `wild`: pushed and latest prices are far off; past prices are right.
 * - `repeat`: the provider sends the same report again and again.
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
  /** Interval of the ticks of each provider. */
  readonly tickMs?: number
  /** Start of the available history, in Unix milliseconds. */
  readonly sinceMs?: number
}

export type PriceSimulator = {
  /**
   * Returns the provider's first report at or after an instant. `price` is in USD × 10^8, and `atMs` is the time in the
   * report.
   */
  tickAt(source: PriceSource, asset: string, atMs: number): { price: number; atMs: number }
  /** Sets a provider's fault, which makes the provider misbehave; undefined ends the fault. */
  setFault(source: PriceSource, fault: ProviderFault | undefined): void
  faultOf(source: PriceSource): ProviderFault | undefined
  answer(source: PriceSource, request: SimulatedRequest): SimulatedAnswer
  /** Accepts a WebSocket; returns undefined to refuse it. */
  accept(source: PriceSource, request: SimulatedRequest, to: Pushed): SimulatedSocket | undefined
  stop(): void
}

const TICK_MS = 500
const HEARTBEAT_MS = 1_000
const CENT = 10 ** (PRICE_DECIMALS - 2)

/** Texts that are not prices, and texts that are not valid messages. */
const GARBAGE_PRICES = ['0', '-1', 'NaN', '', '1e9', '99999999999999999999', 'null']
const GARBAGE_TEXTS = ['', '{', 'not json', '[]', 'null', '{"type":"ticker"}', '{"data":{"e":1}}']

/** Returns settings that connect every feed to its simulated provider. */
export function simulatedSettings(
  assets: readonly string[],
  addressOf: (source: PriceSource) => { readonly http: string; readonly socket: string },
): Record<PriceSource, ProviderSettings> {
  const settingsOf = (source: PriceSource): ProviderSettings => ({
    url: addressOf(source).http,
    ...(priceProvider(source).socketUrl !== undefined && { socketUrl: addressOf(source).socket }),
    ...(priceProvider(source).needsApiKey && { apiKey: 'simulated' }),
    names: Object.fromEntries(assets.map((asset) => [asset, PROVIDERS[source].nameOf(asset)])),
  })
  return Object.fromEntries(PRICE_SOURCES.map((source) => [source, settingsOf(source)])) as Record<
    PriceSource,
    ProviderSettings
  >
}

type Follower = Pushed & { readonly assets: readonly string[] }

type Running = ReturnType<typeof runProvider>

/**
 * Creates a provider with its ticks, followers and fault. The caller calls `turn` at every tick and `beat` at
 * every heartbeat.
 */
function runProvider(
  { shiftMs, shiftCents, wildFactor, timeStepMs, speak }: SimulatedProvider,
  options: SimulatorOptions,
) {
  const { seed, clock, tickMs = TICK_MS, sinceMs = 0 } = options
  const assets = new Set(options.assets)
  const followers = new Set<Follower>()
  let fault: ProviderFault | undefined
  /** Time of the tick that was the newest one at the moment when the fault was set. */
  let faultAtMs = 0
  let pushedAtMs = 0
  let turns = 0

  const tickBefore = (atMs: number): number =>
    Math.floor((atMs - shiftMs) / tickMs) * tickMs + shiftMs
  const tickFrom = (atMs: number): number => Math.ceil((atMs - shiftMs) / tickMs) * tickMs + shiftMs

  function trueCents(asset: string, atMs: number): number {
    const cents = centsAt(seed, asset, atMs)
    return cents + Math.round((cents * shiftCents) / 1_000_000)
  }

  const view: ProviderView = {
    tickMs,
    assets: options.assets,
    nowMs: clock.nowMs,
    newestTick() {
      if (fault === 'stall' || fault === 'repeat') return faultAtMs
      if (fault === 'backwards') return faultAtMs - turns * tickMs
      return tickBefore(clock.nowMs())
    },
    tickFrom,
    isPast: (atMs) => atMs >= sinceMs && atMs <= clock.nowMs(),
    areKnown: (asked) => asked.length > 0 && asked.every((asset) => assets.has(asset)),
    centsAt: trueCents,
    shownCents(asset, atMs) {
      const cents = trueCents(asset, atMs)
      return fault === 'wild' ? Math.round(cents * wildFactor) : cents
    },
    garbagePrice: () =>
      fault === 'garbage' ? GARBAGE_PRICES[turns % GARBAGE_PRICES.length] : undefined,
    follow(to, asked) {
      const follower = { ...to, assets: asked }
      followers.add(follower)
      return () => followers.delete(follower)
    },
  }
  const speaker = speak(view)

  function messagesOf(asked: readonly string[], atMs: number): string[] {
    if (fault !== 'garbage' || turns % 2 !== 0) return speaker.pushed(asked, atMs)
    return [speaker.framed(GARBAGE_TEXTS[(turns / 2) % GARBAGE_TEXTS.length]!)]
  }

  function dropFollowers(): void {
    for (const follower of [...followers]) follower.close()
    followers.clear()
  }

  return {
    answer: speaker.answer,
    accept: speaker.accept,
    dropFollowers,
    fault: () => fault,
    setFault(wanted: ProviderFault | undefined): void {
      fault = wanted
      faultAtMs = tickBefore(clock.nowMs())
      turns = 0
      if (fault === 'drop') dropFollowers()
    },
    tickAt(asset: string, atMs: number) {
      const tick = tickFrom(atMs)
      const shown = Math.floor(tick / timeStepMs) * timeStepMs
      return { price: trueCents(asset, tick) * CENT, atMs: shown }
    },
    /**
     * Pushes the newest tick to all followers, unless it was pushed before. During some faults, pushes the same tick or
     * an older tick again. Returns the time of the next tick.
     */
    turn(): number {
      if (fault !== 'stall' && fault !== 'drop') {
        turns++
        const atMs = view.newestTick()
        if (atMs > pushedAtMs || fault !== undefined) {
          pushedAtMs = Math.max(pushedAtMs, atMs)
          for (const to of followers) for (const text of messagesOf(to.assets, atMs)) to.send(text)
        }
      }
      return tickFrom(clock.nowMs() + 1)
    },
    beat(): void {
      if (fault !== undefined) return
      for (const to of followers) for (const text of speaker.heartbeats(to.assets)) to.send(text)
    },
  }
}

export function makePriceSimulator(options: SimulatorOptions): PriceSimulator {
  const { clock } = options
  const running = new Map<PriceSource, Running>(
    PRICE_SOURCES.map((source) => [source, runProvider(PROVIDERS[source], options)]),
  )
  const runningOf = (source: PriceSource): Running => running.get(source)!
  const cancels = new Set<() => void>()
  let stopped = false

  function later(delayMs: number, action: () => void): void {
    if (stopped) return
    const cancel = clock.after(delayMs, () => {
      cancels.delete(cancel)
      action()
    })
    cancels.add(cancel)
  }

  function turn(provider: Running): void {
    const nextMs = provider.turn()
    later(nextMs - clock.nowMs(), () => turn(provider))
  }

  function beat(): void {
    for (const provider of running.values()) provider.beat()
    later(HEARTBEAT_MS, beat)
  }

  for (const provider of running.values()) turn(provider)
  beat()

  return {
    tickAt: (source, asset, atMs) => runningOf(source).tickAt(asset, atMs),
    setFault: (source, fault) => runningOf(source).setFault(fault),
    faultOf: (source) => runningOf(source).fault(),
    answer(source, request) {
      const provider = runningOf(source)
      return provider.fault() === 'drop' ? undefined : provider.answer(request)
    },
    accept(source, request, to) {
      const provider = runningOf(source)
      if (provider.fault() === 'drop' || stopped) return undefined
      return provider.accept(request, to)
    },
    stop() {
      stopped = true
      for (const cancel of cancels) cancel()
      for (const provider of running.values()) provider.dropFollowers()
    },
  }
}
