/**
 * The indexer thread: one actor per chain that has an address. It reads the database by itself, has
 * the store write for it, opens and closes markets at their threads, and tells its followers.
 */

import type { MessagePort } from 'node:worker_threads'
import { Counter, Gauge, Registry } from 'prom-client'
import type { ClerkProtocol } from '#actors/clerk.ts'
import {
  type ChainFollowerProtocol,
  type IndexerEvent,
  type IndexerProtocol,
  type IndexerState,
  indexer,
  type MarketsDue,
  newIndexer,
  statusOf,
} from '#actors/indexer.ts'
import type { MarketThreadProtocol } from '#actors/market-thread.ts'
import { makeChainReader } from '#chain/chain-reader.ts'
import { makeChainClient } from '#chain/clients.ts'
import { makeLog } from '#config/logging.ts'
import { channelOptions, databaseUrlOf, type ThreadData, topologyOf } from '#config/thread-data.ts'
import { marketThreadName, partitionOf, threadOf } from '#config/topology.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { MARKETS_OPEN_MAX, MARKETS_RECONCILED_MAX } from '#domain/limits.ts'
import { isRejection, reject } from '#domain/rejection.ts'
import { Channel, isUnanswered } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeRef } from '#runtime/ref.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type { ThreadParts } from '#runtime/thread.ts'
import { chainMarketAddresses, marketsToReconcile } from '#store/chain-markets.ts'
import { closeDatabase, type Database, openDatabase } from '#store/database.ts'
import { askWrite } from '#store/writes.ts'

const MAILBOX_MAX = 10_000
/** How often the markets of the chain are compared with those that are open. */
const RECONCILE_EVERY_MS = 2_000
/** A long range on a slow database takes its time. */
const WRITE_DEADLINE_MS = 60_000

export function indexerThread(data: ThreadData): ThreadParts {
  const { name, settings, isTerminal } = data
  const log = makeLog(settings.log, name, isTerminal)
  const topology = topologyOf(settings)
  const registry = new Registry()
  registry.setDefaultLabels({ thread: name })

  const store = makeRef<ClerkProtocol>()
  const threads = Array.from({ length: topology.marketThreads }, () =>
    makeRef<MarketThreadProtocol>(),
  )
  const followers = new Set<Channel<ChainFollowerProtocol>>()
  const actors = new Map<number, { readonly state: IndexerState; readonly served: Served }>()
  const timers: NodeJS.Timeout[] = []
  /** What a market thread has answered for good, so that it is not asked again and again. */
  const answered = new Set<string>()
  let database: Database | undefined
  let stopped = false

  const rpcErrors = new Counter({
    name: 'sibyl_chain_rpc_errors_total',
    help: 'Requests to a chain that failed, whether or not another address answered',
    labelNames: ['chain', 'host'],
    registers: [registry],
  })
  const gauge = (metric: string, help: string, of: (state: IndexerState) => number) =>
    new Gauge({
      name: metric,
      help,
      labelNames: ['chain'],
      registers: [registry],
      collect() {
        for (const { state } of actors.values()) this.set({ chain: state.chainId }, of(state))
      },
    })
  gauge('sibyl_chain_head_block', 'The newest block that the chain showed', (state) => state.head)
  gauge(
    'sibyl_chain_indexed_block',
    'The newest block whose events are in the database',
    (state) => statusOf(state).indexed,
  )
  gauge('sibyl_chain_lag_blocks', 'Blocks that are due and not in the database', (state) =>
    Math.max(0, state.head - state.confirmations - statusOf(state).indexed),
  )
  gauge('sibyl_chain_reorgs', 'Reorganisations since the start', (state) => state.reorgs)

  /** One read-only connection, opened when it is needed; while the database is away each read fails. */
  async function reading(): Promise<Database> {
    database ??= await openDatabase(databaseUrlOf(settings), { readOnly: true })
    return database
  }

  function makeActor(chain: (typeof settings.chains)[number]): void {
    const { chainId, confirmations, startBlock } = chain
    const lower = (address: string) => address.toLowerCase() as Address
    const contracts = {
      marketFactory: lower(chain.contracts.marketFactory),
      conditionalTokens: lower(chain.contracts.conditionalTokens),
      settlement: lower(chain.contracts.settlement),
      stablecoin: lower(chain.contracts.stablecoin),
    }
    const client = makeChainClient({
      chainId,
      rpcUrls: chain.rpcUrls,
      timeoutMs: settings.indexer.rpcTimeoutMs,
      onError({ host, why }) {
        rpcErrors.inc({ chain: chainId, host })
        log.debug({ chainId, host, why }, 'a request to the chain failed')
      },
    })
    const reader = makeChainReader({
      client,
      contracts,
      knownMarkets: async (addresses) => chainMarketAddresses(await reading(), chainId, addresses),
    })
    const state = newIndexer({
      chainId,
      confirmations,
      rangeBlocksMax: settings.indexer.rangeBlocksMax,
      chain: reader,
      store: {
        async claim() {
          const anchor = await reader.mark(Math.max(0, startBlock - 1))
          if (anchor === undefined) {
            throw new Fault('CHAIN_UNAVAILABLE', `the node has no block ${startBlock - 1} yet`, {
              retryable: true,
            })
          }
          const deployment = Object.values(contracts).join(' ')
          return askWrite(
            store,
            'claimChain',
            {
              chainId,
              deployment,
              startBlock,
              anchor: anchor ?? { number: -1, hash: `0x${'0'.repeat(64)}`, atSec: 0 },
              atMs: systemClock.nowMs(),
            },
            WRITE_DEADLINE_MS,
          )
        },
        write: (range) => askWrite(store, 'indexRange', range, WRITE_DEADLINE_MS),
        rewind: (rewind) => askWrite(store, 'rewindChain', rewind, WRITE_DEADLINE_MS),
        marketsDue: async (nowSec) =>
          marketsToReconcile(await reading(), { chainId, nowSec, limit: MARKETS_RECONCILED_MAX }),
      },
    })
    const served = serve<IndexerState, IndexerProtocol, IndexerEvent>({
      behaviour: indexer,
      select: () => ({ state }),
      clock: systemClock,
      mailboxMax: MAILBOX_MAX,
      batchMax: MAILBOX_MAX,
      full: reject('OVERLOADED'),
      say(said) {
        for (const news of said) pass(chainId, news)
      },
    })
    actors.set(chainId, { state, served })
  }

  function pass(chainId: number, said: IndexerEvent): void {
    if (said.type === 'MarketsDue') {
      void arrange(said)
      return
    }
    if (said.type === 'ChainRewound') {
      // A market that is gone may come back and be opened or resolved again.
      answered.clear()
      log.warn(
        { chainId, to: said.to.number, orphaned: said.orphaned },
        'the chain was reorganised',
      )
    }
    const { type, ...message } = said
    for (const follower of followers) follower.tell(type, message as never)
  }

  /** Opens and closes markets at their threads. Whoever does not answer is asked again later. */
  async function arrange(due: MarketsDue): Promise<void> {
    const threadOfMarket = (marketId: MarketId) =>
      threads[threadOf(partitionOf(marketId, topology), topology)]
    const once = async (key: string, ask: () => Promise<unknown> | undefined): Promise<void> => {
      if (answered.has(key)) return
      const answer = await ask()
      if (answer === undefined || isUnanswered(answer)) return
      if (isRejection(answer) && answer.rejected === 'OVERLOADED') return
      if (answered.size >= MARKETS_OPEN_MAX) answered.clear()
      answered.add(key)
    }
    await Promise.all([
      ...due.open.map((market) =>
        once(`open ${market.id}`, () => threadOfMarket(market.id)?.ask('OpenMarket', { market })),
      ),
      ...due.cancel.map(({ marketId, trader, orderHash }) =>
        once(`cancel ${orderHash}`, () =>
          threadOfMarket(marketId)?.ask('CancelOrders', {
            marketId,
            trader,
            orderHashes: [orderHash],
          }),
        ),
      ),
      ...due.close.map((close) =>
        once(`${close.reason} ${close.marketId}`, () =>
          threadOfMarket(close.marketId)?.ask('CloseMarket', close),
        ),
      ),
    ])
  }

  function hearAll(type: 'Tick' | 'Reconcile'): void {
    if (stopped) return
    for (const { served } of actors.values()) served.hear(type, {}, 0, undefined)
  }

  return {
    async start() {
      for (const chain of settings.chains) if (chain.rpcUrls.length > 0) makeActor(chain)
      timers.push(
        setInterval(() => hearAll('Tick'), settings.indexer.pollMs),
        setInterval(() => hearAll('Reconcile'), RECONCILE_EVERY_MS),
      )
      log.info({ chains: [...actors.keys()] }, 'the indexer follows')
    },
    connect(peer, port: MessagePort) {
      const index = threads.findIndex((_, thread) => marketThreadName(thread) === peer)
      if (index >= 0) {
        threads[index]?.replace(new Channel(port, channelOptions(settings), { heard: () => {} }))
        answered.clear()
        hearAll('Reconcile')
      } else if (peer === 'store') {
        store.replace(new Channel(port, channelOptions(settings), { heard: () => {} }))
        hearAll('Tick')
      } else {
        const follower: Channel<ChainFollowerProtocol> = new Channel<ChainFollowerProtocol>(
          port,
          channelOptions(settings),
          {
            heard: (_type, _message, replyTo) => follower.reply(replyTo, reject('NOT_FOUND')),
            closed: () => followers.delete(follower),
          },
        )
        followers.add(follower)
      }
    },
    health() {
      for (const { state } of actors.values()) {
        if (state.why !== '') return `chain ${state.chainId}: ${state.why}`
      }
      return ''
    },
    metrics: () => registry.getMetricsAsJSON(),
    async drain() {
      stopped = true
      for (const timer of timers) clearInterval(timer)
    },
    async stop() {
      stopped = true
      for (const timer of timers) clearInterval(timer)
      for (const channel of followers) channel.close()
      for (const ref of [...threads, store]) ref.close()
      if (database !== undefined) await closeDatabase(database)
    },
  }
}
