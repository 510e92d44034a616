/** Links a front to the indexer, and passes the indexer's events to the stream and to the checks of orders. */

import type { MessagePort } from 'node:worker_threads'
import type { ChainFollowerProtocol } from '#protocol/indexer.ts'
import { Channel, type ChannelOptions } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'
import { resolutionStep } from '#stream/resolution-step.ts'
import type { EventHandlers, LinkPorts, LossReports } from './link-ports.ts'

export function linkIndexer(
  options: ChannelOptions,
  { late }: Pick<LinkPorts, 'late'>,
  lost: LossReports['lost'],
) {
  const chainEvents = makeRef<ChainFollowerProtocol>()

  /**
   * Follows an indexer: publishes its events on the stream, and informs the checks of orders about withdrawn orders
   * and about changes of delegates.
   */
  function follow(port: MessagePort): void {
    const handlers: EventHandlers<ChainFollowerProtocol> = {
      ChainAdvanced({ chainId, events }) {
        late.withdrawn?.followed(chainId, events)
        late.delegates?.followed(chainId, events)
        late.contracts?.advanced(chainId)
        late.marketEvents?.followed(events)
        for (const event of events) {
          if (event.type === 'EventMarketCreated') {
            late.hub?.joinedEvent({ chainId, slug: event.info.slug }, event.marketId)
          }
          const step = resolutionStep(event)
          if (step === undefined) continue
          late.hub?.marketHappened(step.marketId, step.event, step.facts, event.atSec * 1_000)
        }
      },
      ChainRewound({ chainId, to, reverted }) {
        late.withdrawn?.reload(chainId)
        late.delegates?.reload(chainId)
        late.contracts?.advanced(chainId)
        late.marketEvents?.reset()
        void late.hub?.eventsMissed()
        const facts = { blockNumber: to.number }
        for (const id of reverted) late.hub?.marketHappened(id, 'reverted', facts, to.atSec * 1_000)
      },
    }
    chainEvents.replace(
      new Channel<ChainFollowerProtocol>(port, options, {
        received: (type, message) =>
          handlers[type as keyof ChainFollowerProtocol](message as never),
        lost() {
          lost('indexer')
          late.withdrawn?.reload()
          late.delegates?.reload()
          late.marketEvents?.reset()
          void late.hub?.eventsMissed()
          late.hub?.missed(['market', 'markets'])
        },
      }),
    )
    // Load withdrawn orders, delegates and events again, because the last messages of the previous indexer may be lost.
    late.withdrawn?.reload()
    late.delegates?.reload()
    late.marketEvents?.reset()
    void late.hub?.eventsMissed()
  }

  return { follow, close: () => chainEvents.close() }
}
