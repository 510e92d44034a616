/**
 * The indexer thread: one actor per chain with an Ethereum node. It reads the database, writes through the store, asks
 * market threads to open and close markets, and notifies its followers.
 */

import { databaseUrlOf, type ThreadData } from '#config/thread-data.ts'
import { reject } from '#domain/rejection.ts'
import type { ChainFollowerProtocol } from '#protocol/indexer.ts'
import type { Served } from '#runtime/serve.ts'
import type { Thread } from '#runtime/thread.ts'
import { type ChainWorld, chainWorld } from '#services/kit/chain-world.ts'
import {
  linkWriters,
  makeFollowers,
  makeThreadContext,
  serveActor,
  type ThreadContext,
} from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import { type IndexerEvent, type IndexerProtocol, type IndexerState, indexer } from './indexer.ts'
import { indexerMeters } from './metrics.ts'
import { makeMarketArranger } from './thread/arrange-markets.ts'
import { indexerOn } from './thread/index-chain.ts'

/** Interval between comparisons of the markets on the chain with the open markets. */
const RECONCILE_EVERY_MS = 2_000
/** Approximate size in bytes of a chain event in a message. */
const CHAIN_EVENT_BYTES = 512

/** Name of the role that lets one node at a time write the events of a chain. */
const roleOf = ({ chainId }: { readonly chainId: number }): string => `indexer/${chainId}`

export function indexerThread(data: ThreadData, world: ChainWorld = chainWorld): Thread {
  const { settings } = data
  const kit = makeThreadContext(data, world)
  const { log, clock } = kit
  const { store: writeQueue, marketOf, ...writers } = linkWriters(settings, kit)
  const leases = makeLeases(data, kit, world)
  const followers = makeFollowers<ChainFollowerProtocol>(settings, kit)
  const reads = world.makeReads(databaseUrlOf(settings))
  const { query } = reads
  const states: IndexerState[] = []
  const actors: Served[] = []
  const meters = indexerMeters(kit, () => states)
  const arranger = makeMarketArranger(marketOf)
  const pass = makePass({ arranger, followers, meters, log, isSure: leases.isSure })
  let stopped = false

  function makeActor(chain: (typeof settings.chains)[number]): void {
    const { chainId } = chain
    const client = world.makeChainClient({
      chainId,
      rpcUrls: chain.rpcUrls,
      timeoutMs: settings.indexer.rpcTimeoutMs,
      onError: (trouble) => meters.unanswered(chainId, trouble),
    })
    const { rangeBlocksMax } = settings.indexer
    const store = leases.writeQueue(roleOf(chain), writeQueue)
    const state = indexerOn(chain, { client, query, store, rangeBlocksMax, nowMs: clock.nowMs })
    states.push(state)
    actors.push(
      serveActor<IndexerState, IndexerProtocol, IndexerEvent>({
        behaviour: indexer,
        state,
        clock,
        loop: kit.loop,
        say: (said) => pass(chainId, said),
      }),
    )
  }

  function sendToAll(type: 'Tick' | 'Reconcile'): void {
    if (stopped) return
    for (const actor of actors) actor.hear(type, {}, 0, undefined)
  }

  return {
    async start() {
      for (const chain of settings.chains) {
        if (chain.rpcUrls.length > 0) await leases.hold(roleOf(chain), () => makeActor(chain))
      }
      kit.every(settings.indexer.pollMs, () => sendToAll('Tick'))
      kit.every(RECONCILE_EVERY_MS, () => sendToAll('Reconcile'))
      if (states.length > 0) {
        log.info({ chains: states.map(({ chainId }) => chainId) }, 'the indexer follows')
      }
    },
    connect(peer, port) {
      const writer = writers.take(peer, port)
      if (writer === undefined) {
        followers.add(peer, port, (_type, _message, replyTo, follower) =>
          follower.reply(replyTo, reject('NOT_FOUND')),
        )
      } else if (writer === 'store') sendToAll('Tick')
      else {
        arranger.forget()
        sendToAll('Reconcile')
      }
    },
    health() {
      for (const state of states) {
        if (state.why !== '') return `chain ${state.chainId}: ${state.why}`
      }
      return leases.standby()
    },
    metrics: kit.metrics,
    async drain() {
      stopped = true
      kit.quiet()
    },
    async stop() {
      stopped = true
      kit.quiet()
      followers.close()
      writers.close()
      await reads.close()
      await leases.close()
    },
  }
}

type PassParts = {
  readonly arranger: ReturnType<typeof makeMarketArranger>
  readonly followers: Pick<ReturnType<typeof makeFollowers<ChainFollowerProtocol>>, 'tell'>
  readonly meters: ReturnType<typeof indexerMeters>
  readonly log: ThreadContext['log']
  readonly isSure: (role: string) => boolean
}

/** Makes the function that sends an indexer’s events to market threads, to followers, or to the metrics. */
function makePass({ arranger, followers, meters, log, isSure }: PassParts) {
  return function pass(chainId: number, said: IndexerEvent): void {
    if (said.type === 'MarketsDue') {
      // Send nothing if another node may hold the lease by now. The next comparison of markets emits the same changes
      // again.
      if (isSure(roleOf({ chainId }))) void arranger.arrange(said)
      return
    }
    if (said.type === 'EventsSetAside') {
      meters.setAside(chainId, said.setAside)
      return
    }
    if (said.type === 'ChainRewound') {
      // Forgets earlier answers of the market threads: a market that a reorg removed may be created or resolved
      // again.
      arranger.forget()
      log.warn(
        { chainId, to: said.to.number, orphaned: said.orphaned },
        'the chain was reorganised',
      )
    }
    const { type, ...message } = said
    const changes = said.type === 'ChainAdvanced' ? said.events.length : said.reverted.length
    followers.tell(type, message as never, CHAIN_EVENT_BYTES * (1 + changes))
  }
}
