/** The link of a front to the indexer: events of the chains, for the stream and for checks of orders. */

import type { MessagePort } from 'node:worker_threads'
import type { ChainFollowerProtocol } from '#protocol/indexer.ts'
import { Channel, type ChannelOptions } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'
import { resolutionStep } from '#stream/resolution-step.ts'
import type { Hearers, LinkPorts, LossReports } from './link-ports.ts'

export function linkIndexer(
  options: ChannelOptions,
  ports: Pick<LinkPorts, 'hub' | 'withdrawn' | 'delegates' | 'contracts' | 'marketEvents'>,
  lost: LossReports['lost'],
) {
  const chainEvents = makeRef<ChainFollowerProtocol>()

  /** Publishes resolution steps from the chain on the stream. */
  function follow(port: MessagePort): void {
    const hearers: Hearers<ChainFollowerProtocol> = {
      ChainAdvanced({ chainId, events }) {
        ports.withdrawn()?.followed(chainId, events)
        ports.delegates()?.followed(chainId, events)
        ports.contracts()?.advanced(chainId)
        ports.marketEvents()?.followed(events)
        for (const event of events) {
          if (event.type === 'EventMarketCreated') {
            ports.hub()?.joinedEvent({ chainId, slug: event.info.slug }, event.marketId)
          }
          const step = resolutionStep(event)
          if (step === undefined) continue
          ports.hub()?.marketHappened(step.marketId, step.event, step.facts, event.atSec * 1_000)
        }
      },
      ChainRewound({ chainId, to, reverted }) {
        ports.withdrawn()?.reload(chainId)
        ports.delegates()?.reload(chainId)
        ports.contracts()?.advanced(chainId)
        ports.marketEvents()?.reset()
        void ports.hub()?.eventsMissed()
        const facts = { blockNumber: to.number }
        for (const id of reverted)
          ports.hub()?.marketHappened(id, 'reverted', facts, to.atSec * 1_000)
      },
    }
    chainEvents.replace(
      new Channel<ChainFollowerProtocol>(port, options, {
        heard: (type, message) => hearers[type as keyof ChainFollowerProtocol](message as never),
        lost() {
          lost('indexer')
          ports.withdrawn()?.reload()
          ports.delegates()?.reload()
          ports.marketEvents()?.reset()
          void ports.hub()?.eventsMissed()
          ports.hub()?.missed(['market', 'markets'])
        },
      }),
    )
    // The last messages of the previous indexer may be lost.
    ports.withdrawn()?.reload()
    ports.delegates()?.reload()
    ports.marketEvents()?.reset()
    void ports.hub()?.eventsMissed()
  }

  return { follow, close: () => chainEvents.close() }
}
