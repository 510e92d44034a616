/** The link of a front to the prices thread. */

import type { MessagePort } from 'node:worker_threads'
import { PRICES_THREAD } from '#config/topology.ts'
import type { PriceFollowerProtocol, PriceLoadProtocol } from '#protocol/prices.ts'
import { Channel, type ChannelOptions, isUnanswered } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeRef } from '#runtime/ref.ts'
import type { EventHandlers, LinkPorts, LossReports } from './link-ports.ts'

/** Pause before a failed load is retried. */
const LOAD_AGAIN_MS = 100

export function linkPrices(
  options: ChannelOptions,
  { priceBoard, late }: Pick<LinkPorts, 'priceBoard' | 'late'>,
  lost: LossReports['lost'],
) {
  const prices = makeRef<PriceLoadProtocol>()

  function follow(port: MessagePort): void {
    const handlers: EventHandlers<PriceFollowerProtocol> = {
      Priced: ({ price }) => priceBoard.priced(price),
      SpeakerChanged: ({ asset, source, why }) => priceBoard.speakerChanged(asset, source, why),
      QuickMarketOpened: ({ quickMarket, atMs }) => priceBoard.quickMarketOpened(quickMarket, atMs),
      QuickMarketResolved: ({ quickMarket, atMs }) =>
        priceBoard.quickMarketResolved(quickMarket, atMs),
    }
    prices.replace(
      new Channel(port, options, {
        received: (type, message) =>
          handlers[type as keyof PriceFollowerProtocol](message as never),
        closed: () => priceBoard.lost(),
        lost() {
          lost(PRICES_THREAD)
          void loadPrices().then(() => late.hub?.missed(['price', 'quick-market']))
        },
      }),
    )
    void loadPrices()
  }

  async function loadPrices(): Promise<void> {
    const answer = await prices.ask('Load', {})
    if (!isUnanswered(answer)) {
      priceBoard.load(answer.assets, answer.active, systemClock.nowMs())
    } else if (prices.isOpen) setTimeout(() => void loadPrices(), LOAD_AGAIN_MS).unref()
  }

  return { follow, close: () => prices.close() }
}
