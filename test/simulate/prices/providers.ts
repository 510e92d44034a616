/**
 * Simulated price providers on virtual time, with the protocols of the devnet's providers. They stall, hang up, report
 * wrong prices, repeat old reports and send garbage. The seed and the faults determine every report. So each recorded
 * price (mark) can be checked against the report that it came from.
 */

import { centsAt } from '#devnet/price-path.ts'
import { simulatedSettings } from '#devnet/price-simulator.ts'
import { simulatedBinance } from '#devnet/providers/binance.ts'
import { simulatedCoinbase } from '#devnet/providers/coinbase.ts'
import type { ProviderView, Pushed, SimulatedRequest } from '#devnet/providers/provider.ts'
import { simulatedPyth } from '#devnet/providers/pyth.ts'
import { PRICE_DECIMALS } from '#domain/asset-price.ts'
import { PRICE_SOURCES, type PriceSource } from '#domain/price-providers.ts'
import type { Mark } from '#domain/quick-market.ts'
import {
  FEED_TIMING,
  type FeedPorts,
  type FeedResponse,
  type FeedSocket,
} from '#services/prices/feeds/feed.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import type { FaultKind, Faults } from '../faults.ts'
import type { Life, Scheduler } from '../scheduler.ts'
import { Connection, type Network, streamOf } from './connection.ts'

const PROTOCOLS = { pyth: simulatedPyth, binance: simulatedBinance, coinbase: simulatedCoinbase }
export const ASSET = 'BTC'
const TICK_MS = 500
const HEARTBEAT_MS = 1_000
const CENT = 10 ** (PRICE_DECIMALS - 2)
const TROUBLE_EVERY_US = 1_000_000

/** Faults that last for a while. */
const LASTING = [
  ...(['price-stall', 'price-drop', 'price-lie', 'price-wild'] as const),
  ...(['price-garbage', 'price-replay', 'price-history'] as const),
] satisfies readonly FaultKind[]

type Period = {
  readonly kind: (typeof LASTING)[number]
  readonly fromMs: number
  untilMs: number
  /** Factor of its prices while it lies. */
  readonly factor: number
}

/**
 * How the prices service receives a report. `pushed`: at once, because the provider sends it or returns it as the
 * latest price. `past`: later, by a request for the provider's history.
 */
type Way = 'pushed' | 'past'

type ProviderWorld = {
  readonly seed: number
  readonly scheduler: Scheduler
  readonly faults: Faults
}

/** The settings of the providers. */
export const providerSettings = () =>
  simulatedSettings([ASSET], (source) => ({
    http: `http://${source}.simulated`,
    socket: `ws://${source}.simulated`,
  }))

export class Providers {
  readonly #world: ProviderWorld
  readonly #random: Random
  readonly #all: ReadonlyMap<PriceSource, Provider>
  /** When a provider last had a fault. */
  troubledAtMs = 0

  constructor(world: ProviderWorld) {
    this.#world = world
    this.#random = randomFrom(Math.imul(world.seed + 71, 0x61c88647))
    // The seed picks the price step. With a coarse step, a market's prices at its start and end are often equal.
    const stepCents = this.#random.pick([1, 2_000, 10_000])
    this.#all = new Map(
      PRICE_SOURCES.map((source) => [source, new Provider(world, source, stepCents)]),
    )
    world.scheduler.every(TROUBLE_EVERY_US, () => this.#trouble())
  }

  #trouble(): void {
    const { faults, scheduler } = this.#world
    for (const provider of this.#all.values()) {
      if (faults.healed) provider.heal()
      for (const kind of LASTING) {
        if (faults.strikes(kind)) provider.fault(kind, faults.of(kind))
      }
      if (provider.isTroubled) this.troubledAtMs = scheduler.nowMs
    }
  }

  /** The network of a process. */
  networkOf(life: Life): Pick<FeedPorts, 'fetch' | 'openSocket'> {
    const { scheduler, faults } = this.#world
    const network: Network = { scheduler, faults, life, random: this.#random }
    return {
      fetch: (url, { headers, signal }) => this.#fetch(network, url, headers, signal),
      openSocket: (url) => this.#openSocket(network, url),
    }
  }

  #providerAt(url: URL): Provider {
    return this.#all.get(url.hostname.split('.')[0] as PriceSource)!
  }

  #fetch(
    network: Network,
    address: string,
    headers: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<FeedResponse> {
    const url = new URL(address)
    const provider = this.#providerAt(url)
    const { faults, scheduler, life } = network
    return new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true })
      // Simulates a provider that never answers, so the caller has to abort the request.
      if (faults.strikes('price-away')) return
      const answered = () => {
        if (signal.aborted) return
        const { pathname: path, searchParams: query } = url
        const request = { path, query, authorization: headers.authorization ?? '' }
        const answer = provider.answer(request)
        if (answer === undefined) reject(new Error('the connection was refused'))
        else if ('follow' in answer) {
          const { to, body } = streamOf(network, signal)
          const leave = answer.follow(to)
          signal.addEventListener('abort', leave, { once: true })
          resolve({ ok: true, status: answer.status, body })
        } else {
          const { status, body: text } = answer
          resolve({ ok: status === 200, status, body: bodyOf(text) })
        }
      }
      scheduler.after(this.#random.int(1_000, 80_000), answered, life)
    })
  }

  #openSocket(network: Network, address: string): FeedSocket {
    const url = new URL(address)
    const provider = this.#providerAt(url)
    const connection = new Connection(network)
    const { socket, to } = connection.ends()
    network.scheduler.after(
      this.#random.int(1_000, 80_000),
      () => {
        const { pathname: path, searchParams: query } = url
        const accepted = provider.accept({ path, query, authorization: '' }, to)
        if (accepted === undefined) connection.fail()
        else connection.opened(accepted)
      },
      network.life,
    )
    return socket
  }

  /**
   * Returns whether a source's history has a report whose time is between `atMs` and `atMs + withinMs`. Coinbase's
   * history has reports only at full minutes.
   */
  hasPast(source: PriceSource, atMs: number, withinMs: number): boolean {
    if (source === 'coinbase' && atMs % 60_000 !== 0) return false
    return this.hasReport(source, atMs, withinMs)
  }

  /**
   * Returns whether a source makes a report between `atMs` and `atMs + withinMs`, including reports that its history
   * leaves out.
   */
  hasReport(source: PriceSource, atMs: number, withinMs: number): boolean {
    const tick = this.#all.get(source)!.tickFrom(atMs)
    return tick + PROTOCOLS[source].timeStepMs <= atMs + withinMs
  }

  /**
   * Returns what is wrong with a recorded price (mark); undefined if the mark is right. Each mark belongs to an
   * instant, its boundary. It must repeat a report that its source made at or after the boundary. An exact mark must
   * repeat the first such report.
   */
  flawOf(mark: Mark): string | undefined {
    return this.#all.get(mark.source)!.flawOf(mark)
  }
}

async function* bodyOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

class Provider {
  readonly #world: ProviderWorld
  readonly #source: PriceSource
  readonly #stepCents: number
  readonly #periods: Period[] = []
  readonly #followers = new Set<Pushed & { readonly assets: readonly string[] }>()
  readonly #speaker

  constructor(world: ProviderWorld, source: PriceSource, stepCents: number) {
    this.#world = world
    this.#source = source
    this.#stepCents = stepCents
    this.#speaker = PROTOCOLS[source].speak(this.#view())
    this.#planPush()
    world.scheduler.every(HEARTBEAT_MS * 1_000, () => this.#beat())
  }

  get #nowMs(): number {
    return this.#world.scheduler.nowMs
  }

  #is(kind: Period['kind'], atMs: number): Period | undefined {
    return this.#periods.find(
      (one) => one.kind === kind && one.fromMs <= atMs && atMs < one.untilMs,
    )
  }

  get isTroubled(): boolean {
    // A feed that has failed several times waits up to `backoffMsMax` before it reconnects. So if no feed is connected,
    // each fault of the provider counts as `backoffMsMax` longer than it was.
    const pauseMs = this.#followers.size === 0 ? FEED_TIMING.backoffMsMax : 0
    return this.#periods.some(({ untilMs }) => untilMs + pauseMs > this.#nowMs)
  }

  heal(): void {
    for (const period of this.#periods) period.untilMs = Math.min(period.untilMs, this.#nowMs)
  }

  fault(kind: Period['kind'], random: Random): void {
    const fromMs = this.#nowMs
    const isLie = kind === 'price-lie'
    const factor = isLie
      ? 1 + random.pick([-1, 1]) * random.pick([0.000_5, 0.002, 0.009])
      : PROTOCOLS[this.#source].wildFactor
    const untilMs = fromMs + random.int(500, isLie ? 60_000 : 20_000)
    this.#periods.push({ kind, fromMs, untilMs, factor })
    if (kind !== 'price-drop') return
    for (const follower of [...this.#followers]) follower.close()
    this.#followers.clear()
  }

  #tickBefore(atMs: number): number {
    const { shiftMs } = PROTOCOLS[this.#source]
    return Math.floor((atMs - shiftMs) / TICK_MS) * TICK_MS + shiftMs
  }

  /** Returns the time of the provider's first report at or after `atMs`. A stalled provider makes no reports. */
  tickFrom(atMs: number): number {
    const { shiftMs } = PROTOCOLS[this.#source]
    let tick = Math.ceil((atMs - shiftMs) / TICK_MS) * TICK_MS + shiftMs
    while (this.#is('price-stall', tick) !== undefined) tick += TICK_MS
    return tick
  }

  /** Returns the price that the provider reported for a tick, in USD × 10^8. */
  said(tick: number, way: Way): number {
    return this.#cents(tick, way) * CENT
  }

  #cents(tick: number, way: Way): number {
    const { shiftCents } = PROTOCOLS[this.#source]
    const cents = centsAt(this.#world.seed, ASSET, tick)
    const coarse = Math.max(1, Math.round(cents / this.#stepCents)) * this.#stepCents
    const shifted = coarse + Math.round((coarse * shiftCents) / 1_000_000)
    const lie = this.#is('price-lie', tick)?.factor ?? 1
    // During the fault `price-wild`, the provider pushes wrong prices. Its history does not contain them.
    const wild = way === 'pushed' ? (this.#is('price-wild', tick)?.factor ?? 1) : 1
    return Math.round(shifted * lie * wild)
  }

  #view(): ProviderView {
    const newestTick = (): number => {
      let tick = this.#tickBefore(this.#nowMs)
      while (this.#is('price-stall', tick) !== undefined) tick -= TICK_MS
      return tick
    }
    const isGarbage = () => this.#is('price-garbage', this.#nowMs) !== undefined
    return {
      tickMs: TICK_MS,
      assets: [ASSET],
      nowMs: () => this.#nowMs,
      newestTick,
      tickFrom: (atMs) => this.tickFrom(atMs),
      isPast: (atMs) => atMs <= this.#nowMs,
      areKnown: (assets) => assets.length > 0 && assets.every((asset) => asset === ASSET),
      centsAt: (_, atMs) => this.#cents(atMs, 'past'),
      shownCents: (_, atMs) => this.#cents(atMs, 'pushed'),
      garbagePrice: () => (isGarbage() ? '-1' : undefined),
      follow: (to, assets) => {
        const follower = { ...to, assets }
        this.#followers.add(follower)
        return () => void this.#followers.delete(follower)
      },
    }
  }

  get #isDown(): boolean {
    return this.#is('price-drop', this.#nowMs) !== undefined
  }

  answer(request: SimulatedRequest) {
    if (this.#isDown) return undefined
    const answer = this.#speaker.answer(request)
    const isHistory = /candles|startTime|price\/\d/.test(`${request.path}?${request.query}`)
    const isAway = isHistory && this.#is('price-history', this.#nowMs) !== undefined
    return isAway ? { status: 503, body: '{}' } : answer
  }

  accept(request: SimulatedRequest, to: Pushed) {
    return this.#isDown ? undefined : this.#speaker.accept(request, to)
  }

  #planPush(): void {
    const nextMs = this.#tickBefore(this.#nowMs) + TICK_MS
    this.#world.scheduler.after((nextMs - this.#nowMs) * 1_000, () => {
      this.#push(nextMs)
      this.#planPush()
    })
  }

  #push(tick: number): void {
    if (this.#is('price-stall', tick) !== undefined || this.#isDown) return
    const { faults } = this.#world
    for (const to of this.#followers) {
      const texts = this.#speaker.pushed(to.assets, tick)
      if (this.#is('price-replay', tick) !== undefined) {
        const old = tick - TICK_MS * faults.of('price-replay').int(0, 40)
        texts.push(...this.#speaker.pushed(to.assets, this.tickFrom(old)))
      }
      for (const text of texts) to.send(text)
    }
  }

  #beat(): void {
    if (this.#isDown || this.#is('price-stall', this.#nowMs) !== undefined) return
    for (const to of this.#followers) {
      for (const text of this.#speaker.heartbeats(to.assets)) to.send(text)
    }
  }

  flawOf(mark: Mark): string | undefined {
    const { timeStepMs } = PROTOCOLS[this.#source]
    const boundaryMs = mark.boundarySec * 1_000
    const first = this.tickFrom(boundaryMs)
    const named = `${mark.source} ${mark.via} ${mark.price} at ${mark.atMs} for ${boundaryMs}`
    // A candle of Coinbase's history has only the first price of its minute.
    const isCandle = mark.source === 'coinbase' && mark.via === 'history'
    const ticks: number[] = isCandle ? [first] : []
    if (!isCandle) {
      const from = this.tickFrom(mark.atMs)
      for (let tick = from; tick < mark.atMs + timeStepMs; tick += TICK_MS) ticks.push(tick)
    }
    const way = mark.via === 'history' ? 'past' : 'pushed'
    const tick = ticks.find((one) => this.said(one, way) === mark.price)
    if (tick === undefined) return `${named} was never said`
    if (mark.atMs < boundaryMs) return `${named} is too early`
    if (!mark.exact || tick === first) return undefined
    return `${named} is said to be exact, but ${this.said(first, 'past')} at ${first} was before it`
  }
}
