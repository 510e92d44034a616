/**
 * A simulated front with the real price board. It keeps the outcomes that it receives, so that they can be compared
 * with the decided ones.
 */

import type { MessagePort } from 'node:worker_threads'
import { channelOptions } from '#config/thread-data.ts'
import type { MarketId } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import type { QuickMarket } from '#domain/quick-market.ts'
import { makePriceBoard } from '#live/price-board.ts'
import type { PriceFollowerProtocol, PriceLoadProtocol } from '#protocol/prices.ts'
import { Channel, isUnanswered } from '#runtime/channel.ts'
import type { Peer, SimulatedWorld } from '../exchange.ts'
import { newLife, Violation } from '../scheduler.ts'
import { ASSET } from './providers.ts'

export class PriceReader implements Peer {
  readonly name = 'front-0'
  readonly life = newLife(this.name)
  readonly #world: SimulatedWorld
  readonly #board
  #lastAtMs = 0
  prices = 0
  /** Outcomes that readers have received. */
  readonly received = new Map<MarketId, Outcome>()

  constructor(world: SimulatedWorld) {
    this.#world = world
    this.#board = makePriceBoard(
      { assets: [ASSET], replayEvents: 100 },
      {
        priced: () => this.#priced(),
        streamed() {},
        quickMarket() {},
      },
    )
  }

  /** Markets are not followed here. */
  connect(port: MessagePort): void {
    new Channel(port, this.#options, { received() {} })
  }

  get #options() {
    const { settings, scheduler } = this.#world
    return { ...channelOptions(settings), loop: scheduler.loop(this.life) }
  }

  connectPrices(port: MessagePort): void {
    const board = this.#board
    const handlers: {
      [K in keyof PriceFollowerProtocol]: (message: PriceFollowerProtocol[K]['takes']) => void
    } = {
      Priced: ({ price }) => board.priced(price),
      SpeakerChanged: ({ asset, source, why }) => board.speakerChanged(asset, source, why),
      QuickMarketOpened: ({ quickMarket, atMs }) => board.quickMarketOpened(quickMarket, atMs),
      QuickMarketResolved: ({ quickMarket, atMs }) => {
        this.#resolved(quickMarket)
        board.quickMarketResolved(quickMarket, atMs)
      },
    }
    const channel = new Channel<PriceLoadProtocol>(port, this.#options, {
      received: (type, message) => handlers[type as keyof PriceFollowerProtocol](message as never),
    })
    channel.ask('Load', {}).then(
      (loaded) => {
        if (isUnanswered(loaded)) return
        board.load(loaded.assets, loaded.active, this.#world.scheduler.nowMs)
      },
      (error) => this.#world.scheduler.fail(error),
    )
  }

  #priced(): void {
    this.prices++
    const { atMs = 0 } = this.#board.assets.get(ASSET)?.latest ?? {}
    this.#lastAtMs = Math.max(this.#lastAtMs, atMs)
  }

  /** Checks that no reader receives two outcomes of one market. */
  #resolved({ marketId, resolution }: QuickMarket): void {
    const outcome = resolution?.outcome
    const before = this.received.get(marketId)
    if (outcome === undefined || (before !== undefined && before !== outcome)) {
      const error = new Violation('told-once', `${marketId} was ${before}, and is told ${outcome}`)
      this.#world.scheduler.fail(error)
      return
    }
    this.received.set(marketId, outcome)
  }
}
