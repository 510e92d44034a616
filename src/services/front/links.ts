/** The links of a front: references to other threads, and handlers for their events. */

import type { MessagePort } from 'node:worker_threads'
import type { Settings } from '#config/settings-schema.ts'
import { channelOptions, isNode, relayedChains, reserves } from '#config/thread-data.ts'
import {
  accountsThreadName,
  marketThreadName,
  PRICES_THREAD,
  relayerThreadName,
} from '#config/topology.ts'
import { makePatientRef } from '#live/patient-ref.ts'
import type { AccountsFollowerProtocol, AccountsRequests } from '#protocol/accounts.ts'
import { ACCOUNTS_FORMS } from '#protocol/accounts-forms.ts'
import type { ApiKeysRequests, KeyFollowerProtocol, WriteRequests } from '#protocol/projector.ts'
import type { RelayerRequests } from '#protocol/relayer.ts'
import { Channel, type ChannelOptions } from '#runtime/channel.ts'
import { makeRef, type ReplaceableRef } from '#runtime/ref.ts'
import { linkIndexer } from './indexer-link.ts'
import {
  type EventHandlers,
  type LinkPorts,
  type LossReports,
  makeLossReports,
} from './link-ports.ts'
import { linkMarkets, patienceOf } from './market-links.ts'
import { linkPrices } from './price-link.ts'

export type FrontLinks = ReturnType<typeof linkFront>

/**
 * Makes the links of a front. The links need the stream, which does not exist yet: `late` contains it once the front
 * has started.
 */
export function linkFront(settings: Settings, ports: LinkPorts) {
  const { late } = ports
  const options = channelOptions(settings)
  const losses = makeLossReports(ports)
  const { lost, dropped } = losses
  const { followers: takeMarkets, closeMarkets, ...markets } = linkMarkets(settings, ports, losses)
  const store = makeRef<ApiKeysRequests & WriteRequests>()
  const relayers = relayedChains(settings).map((chain) => ({
    chain,
    relayer: makeRef<RelayerRequests>(),
  }))
  const accounts = Array.from({ length: reserves(settings) ? settings.risk.threads : 0 }, () => {
    const ref = makeRef<AccountsRequests>()
    return isNode(settings) ? makePatientRef(ref, patienceOf(settings)) : ref
  })
  const prices = linkPrices(options, ports, lost)
  const chainEvents = linkIndexer(options, ports, lost)

  function followAccounts(peer: string, index: number, port: MessagePort): void {
    const handlers: EventHandlers<AccountsFollowerProtocol> = {
      FundsChanged({ accounts: changed }) {
        for (const { trader, chainId } of changed) late.hub?.fundsChanged(trader, chainId)
      },
    }
    accounts[index]?.replace(
      new Channel(
        port,
        { ...options, forms: ACCOUNTS_FORMS },
        {
          received: (type, message) =>
            handlers[type as keyof AccountsFollowerProtocol](message as never),
          lost() {
            lost(peer)
            late.hub?.missed(['funds'])
          },
          // A message that releases a reservation may be dropped here; the reservation then expires on its own.
          dropped: dropped(peer),
        },
      ),
    )
  }

  /** Functions that accept the port to a thread, by the thread’s name. */
  const followers = new Map<string, (port: MessagePort) => void>([
    ['store', storeFollower(store, options, ports, lost)],
    ['indexer', chainEvents.follow],
    [PRICES_THREAD, prices.follow],
  ])
  for (const [index, follow] of takeMarkets.entries()) {
    followers.set(marketThreadName(index), follow)
  }
  for (const index of accounts.keys()) {
    const peer = accountsThreadName(index)
    followers.set(peer, (port) => followAccounts(peer, index, port))
  }
  for (const { chain, relayer } of relayers) {
    followers.set(relayerThreadName(chain.chainId), (port) =>
      relayer.replace(new Channel(port, options, { received() {} })),
    )
  }

  return {
    ...markets,
    store,
    relayers,
    accounts,
    connect(peer: string, port: MessagePort): void {
      followers.get(peer)?.(port)
    },
    close(): void {
      closeMarkets()
      for (const ref of [...accounts, store, prices, chainEvents]) ref.close()
      for (const { relayer } of relayers) relayer.close()
    },
  }
}

/** Returns the function that accepts the port to the store thread. */
function storeFollower(
  store: ReplaceableRef<ApiKeysRequests & WriteRequests>,
  options: ChannelOptions,
  { authenticator, late }: Pick<LinkPorts, 'authenticator' | 'late'>,
  lost: LossReports['lost'],
): (port: MessagePort) => void {
  /**
   * Forgets cached API keys and checks open sessions again: the store may have revoked keys while it was not linked.
   */
  function mayHaveMissed(): void {
    // The cache of keys is reset first, because the check of open sessions reads it.
    authenticator.mayHaveMissed()
    late.hub?.mayHaveMissed()
  }

  const handlers: EventHandlers<KeyFollowerProtocol> = {
    KeysRevoked({ ids }) {
      authenticator.revoked(ids)
      late.hub?.revoked(ids)
    },
    KeyRegistered: ({ key }) => authenticator.registered(key),
  }

  return (port) => {
    store.replace(
      new Channel(port, options, {
        received: (type, message) => handlers[type as keyof KeyFollowerProtocol](message as never),
        closed: mayHaveMissed,
        lost() {
          lost('store')
          mayHaveMissed()
        },
      }),
    )
    // The last messages of the previous store, such as revoked keys, may be lost.
    mayHaveMissed()
  }
}
