/** A relayer thread: sends users' signed operations on one chain, with a pool of keys that pay the gas. */

import assert from 'node:assert/strict'
import { accountsOf } from '#chain/accounts.ts'
import { WEI_PER_GWEI } from '#chain/sender/fees.ts'
import {
  chainBudgetMs,
  contractsOf,
  databaseUrlOf,
  relayedChains,
  stablecoinOf,
  type ThreadData,
} from '#config/thread-data.ts'
import { reject } from '#domain/rejection.ts'
import { purposeOf } from '#domain/relay.ts'
import type { Served } from '#runtime/serve.ts'
import type { ThreadParts } from '#runtime/thread.ts'
import { type ChainWorld, chainWorld } from '#services/kit/chain-world.ts'
import { linkWriters, makeFollowers, makeKit, serveActor } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import { askWrite } from '#store/writes/ask-write.ts'
import { makeJournal } from '#store/writes/journal.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { loadRecovery, makeRecoverer } from '#verify/recover.ts'
import { typedDataDigest } from '#verify/typed-data-hash.ts'
import { isGrantedBy } from './chain/granted-by.ts'
import { makeRelayExaminer } from './chain/relay-examiner.ts'
import { makeRelayLanes } from './chain/relay-lanes.ts'
import { resolvedBy } from './chain/resolved-by.ts'
import { relayerMeters } from './metrics.ts'
import { newRelayer, relayer } from './relayer.ts'
import type { RelayerEvent, RelayerProtocol, RelayerState } from './state.ts'
import { makeRelayHolds, RENEW_MS } from './thread/relay-holds.ts'
import { makeRelayKnowledge } from './thread/relay-knowledge.ts'

const UNFINISHED_READ_MAX = 10_000
/** Settled trades that count for an owner's gas: of the last 30 days, at most this many. */
const TRADES_COUNTED_MS = 30 * 86_400_000
const TRADES_COUNTED_MAX = 100
/** Maximum wait for operations in progress; the rest is found in the journal later. */
const DRAIN_MS = 3_000

export function relayerThread(data: ThreadData, world: ChainWorld = chainWorld): ThreadParts {
  const { name, index, settings } = data
  const chain = relayedChains(settings)[index]
  assert(chain !== undefined, `${name} has a chain`)
  const { chainId } = chain
  // One node at a time uses the keys of a chain.
  const role = `relayer/${chainId}`
  const rules = settings.relayer
  const contracts = contractsOf(chain)
  const kit = makeKit(data, world, { chain: String(chainId) })
  const { log, clock } = kit
  const {
    store: writeQueue,
    markets,
    marketOf,
    ...writers
  } = linkWriters(settings, kit.links, {
    missed: (market) => holds.linked(market),
  })
  const holds = makeRelayHolds(chainId, markets, clock.nowMs)
  const leases = makeLeases(data, kit, world)
  const store = leases.writeQueue(role, writeQueue)
  const fronts = makeFollowers<RelayerProtocol>(settings, kit.links)
  const reads = world.makeReads(databaseUrlOf(settings))
  const { query } = reads
  const knowledge = makeRelayKnowledge({ query, marketOf })
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

  const begin = async (): Promise<void> => {
    const recovery = await loadRecovery()
    const keccak = loadKeccak()
    const recoverSigner = makeRecoverer(recovery, keccak)
    const accounts = accountsOf(settings.keys.relayer)
    const examiner = makeRelayExaminer({
      client,
      contracts,
      stablecoin: stablecoinOf(chain),
      accounts,
      minHolding: BigInt(rules.minHolding),
      recover(message, signature) {
        const digest = typedDataDigest(message, keccak.keccak256)
        const signer = recoverSigner(digest, signature)
        return { signer, digest: `0x${Buffer.from(digest).toString('hex')}` }
      },
      async marketAddressOf(marketId) {
        const market = await query('chainMarketById', { marketId })
        return market?.chainId === chainId ? market.contractAddress : undefined
      },
      async tokensHeldBy(holder) {
        return BigInt(await query('tokensHeldBy', { holder, chainId }))
      },
      minRedemption: BigInt(rules.minRedemption),
      ...knowledge,
      async grantedBy(operation) {
        const { owner, kind } = operation
        const [newest] = await query('confirmedRelaysOf', { chainId, owner, kind, limit: 1 })
        if (newest === undefined) return undefined
        return (await isGrantedBy(client, contracts, operation, newest)) ? newest : undefined
      },
      redeemedBy: (userAddress, marketId) =>
        query('redemptionOf', { chainId, userAddress, marketId }),
      async resolvedBy(market) {
        const known = await query('chainMarketsByContract', { contractAddress: market })
        const indexed = known.find((one) => one.chainId === chainId)?.resolvedTx
        // The index is a few blocks behind; the chain's own log is not.
        return indexed ?? resolvedBy(client, market, chain.startBlock)
      },
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
      onTrouble: meters.troubled,
    })
    state = newRelayer(
      {
        chainId,
        ownerRate: settings.limits.enabled
          ? { perMinute: rules.ownerPerMinute, burst: rules.ownerBurst }
          : undefined,
        gasPerDay: {
          redemption: {
            ownerGas: rules.ownerRedemptionGasPerDay,
            allGas: rules.redemptionGasPerDay,
          },
          other: { ownerGas: rules.ownerGasPerDay, allGas: rules.gasPerDay },
        },
        newcomers: {
          ownerGas: rules.newcomerGasPerDay,
          gasPerTrade: rules.gasPerTrade,
          keptPercent: rules.tradersPercent,
        },
        balanceMin: BigInt(rules.balanceMinGwei) * WEI_PER_GWEI,
        balanceLow: BigInt(rules.balanceLowGwei) * WEI_PER_GWEI,
        stuckAfterMs: rules.stuckAfterMs,
        pollMs: rules.pollMs,
        idlePollMs: rules.idlePollMs,
        weighMs: rules.balanceEveryMs,
      },
      {
        ...examiner,
        ...lanes,
        hold: holds.hold,
        lift: holds.lift,
        unfinished: () => query('unfinishedRelays', { chainId, limit: UNFINISHED_READ_MAX }),
        async gasSince(sinceMs) {
          const [redemption, other] = await Promise.all([
            query('relayGasSince', { chainId, purpose: 'redemption', sinceMs }),
            query('relayGasSince', { chainId, purpose: 'other', sinceMs }),
          ])
          return { redemption, other }
        },
        async find(key, { owner, kind }, sinceMs) {
          const [record, gas, trades] = await Promise.all([
            query('relayByKey', { key }),
            query('relayGasSince', { chainId, owner, purpose: purposeOf(kind), sinceMs }),
            query('settledTradesOf', {
              ...{ chainId, trader: owner, limit: TRADES_COUNTED_MAX },
              sinceMs: clock.nowMs() - TRADES_COUNTED_MS,
            }),
          ])
          return { record, gas, trades }
        },
        open: (relay) => askWrite(store, 'openRelay', relay),
        change: (change) => askWrite(store, 'changeRelay', change),
      },
      lanes.addresses,
    )
    served = serveActor<RelayerState, RelayerProtocol, RelayerEvent>({
      behaviour: relayer,
      state,
      clock,
      say: meters.said,
    })
    served.hear('Begin', {}, 0, undefined)
    kit.every(RENEW_MS, holds.renew)
    log.info({ keys: lanes.addresses }, `relays on chain ${chainId}`)
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
