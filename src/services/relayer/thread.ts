/** A relayer thread: sends users' signed operations on one chain, with a pool of keys that pay the gas. */

import assert from 'node:assert/strict'
import { accountsOf } from '#chain/accounts.ts'
import type { ChainClient } from '#chain/clients.ts'
import {
  chainBudgetMs,
  contractsOf,
  databaseUrlOf,
  relayedChains,
  stablecoinOf,
  type ThreadData,
} from '#config/thread-data.ts'
import { reject } from '#domain/rejection.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Served } from '#runtime/serve.ts'
import type { Thread } from '#runtime/thread.ts'
import { type ChainWorld, chainWorld } from '#services/kit/chain-world.ts'
import {
  linkWriters,
  makeFollowers,
  makeThreadContext,
  serveActor,
  type Writers,
} from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import type { Reads } from '#store/reads/reads.ts'
import type { WriteQueueRef } from '#store/writes/ask-write.ts'
import { makeJournal } from '#store/writes/journal.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { loadRecovery, makeRecoverer } from '#verify/recover.ts'
import { typedDataDigest } from '#verify/typed-data-hash.ts'
import { makeRelayExaminer } from './chain/relay-examiner.ts'
import { makeRelayLanes } from './chain/relay-lanes.ts'
import type { RelayExaminerOptions } from './chain/relay-options.ts'
import { relayerMeters } from './metrics.ts'
import { newRelayer, relayer } from './relayer.ts'
import type { RelayerEvent, RelayerProtocol, RelayerState } from './state.ts'
import { makeRelayHolds, RENEW_MS } from './thread/relay-holds.ts'
import { relayIndex } from './thread/relay-index.ts'
import { makeRelayKnowledge } from './thread/relay-knowledge.ts'
import { relayRulesOf } from './thread/relay-rules.ts'
import { relayStore } from './thread/relay-store.ts'

/**
 * Maximum wait for operations in progress when the thread stops. The next process finds unfinished operations in the
 * journal.
 */
const DRAIN_MS = 3_000

export function relayerThread(data: ThreadData, world: ChainWorld = chainWorld): Thread {
  const { name, index, settings } = data
  const chain = relayedChains(settings)[index] ?? assert.fail(`${name} has no chain`)
  const { chainId } = chain
  // Name of the role that lets one node at a time use the relayer's keys on this chain.
  const role = `relayer/${chainId}`
  const kit = makeThreadContext(data, world, { chain: String(chainId) })
  const { log, clock } = kit
  const {
    store: writeQueue,
    markets,
    marketOf,
    ...writers
  } = linkWriters(settings, kit, {
    missed: (market) => holds.linked(market),
  })
  const holds = makeRelayHolds(chainId, markets, clock.nowMs)
  const leases = makeLeases(data, kit, world)
  const store = leases.writeQueue(role, writeQueue)
  const fronts = makeFollowers<RelayerProtocol>(settings, kit)
  const reads = world.makeReads(databaseUrlOf(settings))
  let state: RelayerState | undefined
  let served: Served | undefined
  const meters = relayerMeters(kit, () => state)
  const client = world.makeChainClient({
    chainId,
    rpcUrls: chain.rpcUrls,
    budgetMs: chainBudgetMs(settings),
    together: true,
    onError: ({ host, why }) => {
      meters.troubled('rpc')
      log.debug({ host, why }, 'a request to the chain failed')
    },
  })

  const health = () => state?.closedFor ?? (leases.standby() || 'starting')

  async function begin(): Promise<void> {
    state = await relayerOn(client, { data, chain, reads, store, marketOf, holds, clock, meters })
    served = serveActor<RelayerState, RelayerProtocol, RelayerEvent>({
      behaviour: relayer,
      state,
      clock,
      loop: kit.loop,
      say: meters.said,
    })
    served.hear('Begin', {}, 0, undefined)
    kit.every(RENEW_MS, holds.renew)
    log.info({ keys: [...state.lanes.keys()] }, `relaying on chain ${chainId}`)
  }

  return {
    start: () => leases.hold(role, begin),
    connect(peer, port) {
      const writer = writers.take(peer, port)
      if (writer === 'store') return
      if (writer !== undefined) {
        holds.linked(writer)
        return
      }
      fronts.add(peer, port, (type, message, replyTo, front) => {
        if (served !== undefined) served.hear(type, message, replyTo, front)
        else front.reply(replyTo, reject('RELAYER_UNAVAILABLE', undefined, health()))
      })
    },
    health,
    metrics: kit.metrics,
    async drain() {
      if (state !== undefined) state.closedFor = 'the relayer is stopping'
      const late = new Promise<void>((resolve) => void clock.after(DRAIN_MS, resolve))
      await Promise.race([served?.drained(), late])
    },
    async stop() {
      kit.quiet()
      fronts.close()
      writers.close()
      await reads.close()
      await leases.close()
    },
  }
}

type RelayContext = {
  readonly data: ThreadData
  readonly chain: ThreadData['settings']['chains'][number]
  readonly reads: Reads
  readonly store: WriteQueueRef
  readonly marketOf: Writers['marketOf']
  readonly holds: ReturnType<typeof makeRelayHolds>
  readonly clock: Clock
  readonly meters: ReturnType<typeof relayerMeters>
}

/** Returns the initial state of the relayer on a chain, with its access to chain and database. */
async function relayerOn(client: ChainClient, context: RelayContext): Promise<RelayerState> {
  const { chain, reads, store, holds, clock } = context
  const { query } = reads
  const { settings } = context.data
  const { relayer: rules } = settings
  const accounts = accountsOf(settings.keys.relayer)
  const examiner = makeRelayExaminer({
    client,
    contracts: contractsOf(chain),
    stablecoin: stablecoinOf(chain),
    accounts,
    minHolding: BigInt(rules.minHolding),
    recover: await makeRecover(),
    minRedemption: BigInt(rules.minRedemption),
    ...makeRelayKnowledge({ query, marketOf: context.marketOf }),
    ...relayIndex(chain, query, client),
  })
  const lanes = makeRelayLanes({
    client,
    accounts,
    journal: makeJournal(store, reads),
    nowMs: clock.nowMs,
    policy: {
      confirmations: chain.confirmations,
      rebroadcastAfterMs: rules.rebroadcastMs,
      bumpAfterMs: rules.feeBumpMs,
    },
    onTrouble: context.meters.troubled,
  })
  return newRelayer(
    relayRulesOf(settings, chain.chainId),
    {
      ...examiner,
      ...lanes,
      ...relayStore(chain.chainId, query, store, clock.nowMs),
      hold: holds.hold,
      lift: holds.lift,
    },
    lanes.addresses,
  )
}

/** Returns the function that finds the signer and the digest of a message. */
async function makeRecover(): Promise<RelayExaminerOptions['recover']> {
  const recovery = await loadRecovery()
  const keccak = loadKeccak()
  const recoverSigner = makeRecoverer(recovery, keccak)
  return (message, signature) => {
    const digest = typedDataDigest(message, keccak.keccak256)
    const signer = recoverSigner(digest, signature)
    return { signer, digest: `0x${Buffer.from(digest).toString('hex')}` }
  }
}
