/** A relayer thread: does on one chain what users signed, with a pool of keys that pay the gas. */

import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { ClerkProtocol } from '#actors/clerk.ts'
import {
  newRelayer,
  type RelayerEvent,
  type RelayerProtocol,
  type RelayerState,
  relayer,
} from '#actors/relayer/relayer.ts'
import { accountsOf } from '#chain/accounts.ts'
import { makeChainClient } from '#chain/clients.ts'
import { makeRelayExaminer } from '#chain/relay-examiner.ts'
import { makeRelayLanes } from '#chain/relay-lanes.ts'
import { resolvedBy } from '#chain/resolved-by.ts'
import { makeLog } from '#config/logging.ts'
import {
  chainBudgetMs,
  channelOptions,
  databaseUrlOf,
  relayedChains,
  stablecoinOf,
  type ThreadData,
} from '#config/thread-data.ts'
import type { Address } from '#domain/ids.ts'
import { reject } from '#domain/rejection.ts'
import { Channel } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeRef } from '#runtime/ref.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type { ThreadParts } from '#runtime/thread.ts'
import { closeDatabase, type Database, openDatabase } from '#store/database.ts'
import { makeJournal } from '#store/journal.ts'
import { answerQuery, askQuery, type Queries, type QueryName } from '#store/queries.ts'
import { askWrite } from '#store/writes.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { createRecoverer, loadRecovery } from '#verify/recover.ts'
import { typedDataDigest } from '#verify/typed-data-hash.ts'

const MAILBOX_MAX = 10_000
const UNFINISHED_READ_MAX = 10_000
/** How long what is under way is waited for; the rest is found again in the journal. */
const DRAIN_MS = 3_000
const GWEI = 1_000_000_000n

export function relayerThread(data: ThreadData): ThreadParts {
  const { name, index, settings, isTerminal } = data
  const chain = relayedChains(settings)[index]
  assert(chain !== undefined, `${name} has a chain`)
  const { chainId } = chain
  const rules = settings.relayer
  const log = makeLog(settings.log, name, isTerminal)
  const registry = new Registry()
  registry.setDefaultLabels({ thread: name, chain: String(chainId) })
  const registers = [registry]

  const operations = new Counter({
    name: 'sibyl_relayer_operations_total',
    help: 'Operations that were asked for, by kind and what became of the request',
    labelNames: ['kind', 'result'],
    registers,
  })
  const ends = new Counter({
    name: 'sibyl_relayer_transactions_total',
    help: 'Transactions of the relayer that ended, by how',
    labelNames: ['status'],
    registers,
  })
  const gasUsed = new Counter({
    name: 'sibyl_relayer_gas_total',
    help: 'Gas that the relayer has paid for',
    registers,
  })
  const seconds = new Histogram({
    name: 'sibyl_relayer_send_seconds',
    help: 'From the request to the broadcast',
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers,
  })
  const balance = new Gauge({
    name: 'sibyl_relayer_balance_ether',
    help: 'What a key of the relayer has left for gas',
    labelNames: ['key'],
    registers,
  })
  const low = new Gauge({
    name: 'sibyl_relayer_balance_low',
    help: '1 while a key of the relayer has less than it should',
    labelNames: ['key'],
    registers,
  })
  const troubles = new Counter({
    name: 'sibyl_relayer_faults_total',
    help: 'Failures of the chain or the database that the relayer met, by where',
    labelNames: ['where'],
    registers,
  })
  new Gauge({
    name: 'sibyl_relayer_underway',
    help: 'Operations that have not ended',
    registers,
    collect() {
      this.set(state?.underway.size ?? 0)
    },
  })
  new Gauge({
    name: 'sibyl_relayer_gas_today',
    help: 'Gas of today, what is under way by its limit',
    registers,
    collect() {
      this.set(state?.gasToday ?? 0)
    },
  })

  const client = makeChainClient({
    chainId,
    rpcUrls: chain.rpcUrls,
    budgetMs: chainBudgetMs(settings),
    together: true,
    onError: ({ host, why }) => {
      troubles.inc({ where: 'rpc' })
      log.debug({ host, why }, 'a request to the chain failed')
    },
  })
  const store = makeRef<ClerkProtocol>()
  let database: Database
  let state: RelayerState | undefined
  let served: Served
  const lowLanes = new Set<Address>()

  const query: <Name extends QueryName>(
    name: Name,
    args: Queries[Name]['takes'],
  ) => Promise<Queries[Name]['answers']> = (name, args) =>
    askQuery({ run: (task) => answerQuery(async () => database, task) }, name, args)

  function told(event: RelayerEvent): void {
    switch (event.type) {
      case 'sent': {
        const { kind, lane, txHash, tookMs } = event
        operations.inc({ kind, result: 'sent' })
        seconds.observe(tookMs / 1_000)
        log.info({ kind, lane, txHash, tookMs }, 'relayed')
        return
      }
      case 'repeated':
        operations.inc({ kind: event.kind, result: 'repeated' })
        return
      case 'refused': {
        const { kind, rejection } = event
        operations.inc({ kind, result: rejection.rejected.toLowerCase() })
        log.info({ kind, ...rejection }, 'refused to relay')
        return
      }
      case 'ended': {
        const { type: _, ...facts } = event
        ends.inc({ status: facts.status })
        gasUsed.inc(facts.gas)
        if (facts.status === 'failed') log.warn(facts, 'a relayed transaction failed')
        else log.info(facts, 'a relayed transaction is confirmed')
        return
      }
      case 'weighed': {
        const { lane: key, wei, isLow } = event
        balance.set({ key }, Number(wei / GWEI) / 1e9)
        low.set({ key }, isLow ? 1 : 0)
        if (isLow && !lowLanes.has(key)) {
          log.warn({ key, wei: String(wei) }, 'a key of the relayer runs out of money for gas')
          lowLanes.add(key)
        } else if (!isLow) lowLanes.delete(key)
        return
      }
      case 'trouble': {
        const { where, trouble } = event
        troubles.inc({ where })
        if (trouble.code === 'BUG') log.error({ where, trouble }, 'the relayer met a bug')
        else log.warn({ where, trouble }, 'the relayer met a fault')
      }
    }
  }

  return {
    async start() {
      database = await openDatabase(databaseUrlOf(settings), { readOnly: true })
      const recovery = await loadRecovery()
      const keccak = loadKeccak()
      const recoverSigner = createRecoverer(recovery, keccak)
      const accounts = accountsOf(settings.keys.relayer)
      const address = (text: string) => text.toLowerCase() as Address
      const contracts = {
        conditionalTokens: address(chain.contracts.conditionalTokens),
        stablecoin: address(chain.contracts.stablecoin),
        marketFactory: address(chain.contracts.marketFactory),
        multicall: address(chain.contracts.multicall),
      }
      const examiner = makeRelayExaminer({
        client,
        contracts,
        stablecoin: stablecoinOf(chain),
        accounts,
        requireHoldings: rules.requireHoldings,
        recover(message, signature) {
          const digest = typedDataDigest(message, keccak.keccak256)
          const signer = recoverSigner(digest, signature)
          return { signer, digest: `0x${Buffer.from(digest).toString('hex')}` }
        },
        async marketAddressOf(marketId) {
          const market = await query('chainMarketById', { marketId })
          return market?.chainId === chainId ? market.contractAddress : undefined
        },
        async holdsTokens(holder) {
          const balances = await query('tokenBalancesOf', { holder, chainId })
          return balances.some(({ balance }) => BigInt(balance) > 0n)
        },
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
        journal: makeJournal(store, { run: (task) => answerQuery(async () => database, task) }),
        nowMs: systemClock.nowMs,
        policy: {
          confirmations: chain.confirmations,
          rebroadcastAfterMs: rules.rebroadcastMs,
          bumpAfterMs: rules.feeBumpMs,
        },
        onTrouble: (where) => troubles.inc({ where }),
      })
      state = newRelayer(
        {
          chainId,
          ownerRate: settings.limits.enabled
            ? { perMinute: rules.ownerPerMinute, burst: rules.ownerBurst }
            : undefined,
          ownerGasPerDay: rules.ownerGasPerDay,
          gasPerDay: rules.gasPerDay,
          balanceMin: BigInt(rules.balanceMinGwei) * GWEI,
          balanceLow: BigInt(rules.balanceLowGwei) * GWEI,
          stuckAfterMs: rules.stuckAfterMs,
          pollMs: rules.pollMs,
          idlePollMs: rules.idlePollMs,
          weighMs: rules.balanceEveryMs,
        },
        {
          ...examiner,
          ...lanes,
          unfinished: () => query('unfinishedRelays', { chainId, limit: UNFINISHED_READ_MAX }),
          gasSince: (sinceMs) => query('relayGasSince', { chainId, sinceMs }),
          async find(key, owner, sinceMs) {
            const [record, gas] = await Promise.all([
              query('relayByKey', { key }),
              query('relayGasSince', { chainId, owner, sinceMs }),
            ])
            return { record, gas }
          },
          open: (relay) => askWrite(store, 'openRelay', relay),
          change: (change) => askWrite(store, 'changeRelay', change),
        },
        lanes.addresses,
      )
      const own = state
      served = serve<RelayerState, RelayerProtocol, RelayerEvent>({
        behaviour: relayer,
        select: () => ({ state: own }),
        clock: systemClock,
        mailboxMax: MAILBOX_MAX,
        batchMax: MAILBOX_MAX,
        full: reject('OVERLOADED'),
        say: (said) => said.forEach(told),
      })
      served.hear('Begin', {}, 0, undefined)
      log.info({ keys: lanes.addresses }, `relays on chain ${chainId}`)
    },
    connect(peer, port) {
      if (peer === 'store') {
        store.replace(new Channel(port, channelOptions(settings), { heard: () => {} }))
        return
      }
      const front: Channel<RelayerProtocol> = new Channel(port, channelOptions(settings), {
        heard: (type, message, replyTo) => served.hear(type, message, replyTo, front),
      })
    },
    health: () => state?.closedFor ?? 'starting',
    metrics: () => registry.getMetricsAsJSON(),
    async drain() {
      if (state !== undefined) state.closedFor = 'the relayer is stopping'
      await Promise.race([served.drained(), pause(DRAIN_MS, undefined, { ref: false })])
    },
    async stop() {
      store.close()
      await closeDatabase(database)
    },
  }
}
