/**
 * Takes the place of a front: linked to the market threads, it forwards messages from a broadcast channel, and reports
 * received events and answers in order.
 */

import { MARKET_FORMS } from '#protocol/market-forms.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { Channel } from '#runtime/channel.ts'
import { makeRef, type ReplaceableRef } from '#runtime/ref.ts'
import { runThreads, type Thread } from '#runtime/thread.ts'
import type { RelayCall, RelayData } from '../exchange-fixture.ts'

function relayThread({ name, airwave, deadlineMs }: RelayData): Thread {
  const air = new BroadcastChannel(airwave)
  const refs = new Map<string, ReplaceableRef<MarketThreadProtocol>>()

  function refOf(peer: string): ReplaceableRef<MarketThreadProtocol> {
    let ref = refs.get(peer)
    if (ref === undefined) {
      ref = makeRef<MarketThreadProtocol>()
      refs.set(peer, ref)
    }
    return ref
  }

  air.onmessage = (event) => {
    const { data } = event as unknown as { data: RelayCall | { from: string } }
    if (!('to' in data) || data.to !== name) return
    // All requests are made in one turn, so that the channel sends them together.
    for (const { id, peer, type, message } of data.calls) {
      void refOf(peer)
        .ask(type, message as never)
        .then((answer) => air.postMessage({ from: name, id, answer }))
    }
  }

  return {
    start: async () => {},
    connect(peer, port) {
      const options = { inFlightMax: 10_000, batchMax: 128, deadlineMs, forms: MARKET_FORMS }
      refOf(peer).replace(
        new Channel<MarketThreadProtocol>(port, options, {
          received: (type, message) => air.postMessage({ from: name, peer, type, message }),
        }),
      )
      air.postMessage({ from: name, linked: peer })
    },
    health: () => '',
    metrics: async () => [],
    drain: async () => {},
    async stop() {
      for (const ref of refs.values()) ref.close()
      air.close()
    },
  }
}

runThreads({ relay: relayThread })
