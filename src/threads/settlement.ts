/** The settlement thread: one settlement actor per chain, each with the lane of its key. */

import type { MessagePort } from 'node:worker_threads'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { ClerkProtocol } from '#actors/clerk.ts'
import type { MarketThreadProtocol } from '#actors/market-thread.ts'
import { statusOf } from '#actors/settlement/lag.ts'
import {
  newSettlement,
  type ReportAnswer,
  type SettlementEvent,
  type SettlementProtocol,
  type SettlementState,
  settlement,
} from '#actors/settlement/settlement.ts'
import { accountOfKey } from '#chain/account.ts'
import { makeChainClient } from '#chain/clients.ts'
import { conditionalTokens } from '#chain/conditional-tokens.ts'
import { makeLane } from '#chain/sender/lane.ts'
import { settlementContract } from '#chain/settlement-contract.ts'
import { makeSettlementLane } from '#chain/settlement-lane.ts'
import { makeLog } from '#config/logging.ts'
import { channelOptions, databaseUrlOf, type ThreadData, topologyOf } from '#config/thread-data.ts'
import { marketThreadName, partitionOf, threadOf } from '#config/topology.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { reject } from '#domain/rejection.ts'
import { Channel, isUnanswered } from '#runtime/channel.ts'
import { systemClock } from '#runtime/clock.ts'
import { makeRef } from '#runtime/ref.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type { ThreadParts } from '#runtime/thread.ts'
import { closeDatabase, type Database, openDatabase } from '#store/database.ts'
import { makeJournal } from '#store/journal.ts'
import {
  answerQuery,
  askQuery,
  type Queries,
  type QueryName,
  type QueryTask,
} from '#store/queries.ts'
import { loadKeccak } from '#verify/keccak.ts'

const MAILBOX_MAX = 10_000
/** How often each actor looks whether something is due. */
const TICK_MS_MIN = 10
const TICK_MS_MAX = 200
/** Transactions whose confirmations are waited for at once. */
const OPEN_MAX = 256
const RPC_TIMEOUT_MS = 5_000
const WEI_PER_GWEI = 1_000_000_000n

export function settlementThread(data: ThreadData): ThreadParts {
  const { name, settings, isTerminal } = data
  const log = makeLog(settings.log, name, isTerminal)
  const topology = topologyOf(settings)
  const { settlement: rules } = settings
  const registry = new Registry()
  registry.setDefaultLabels({ thread: name })

  type Actor = { readonly state: SettlementState; readonly served: Served }

  const actors = new Map<number, Actor>()
  const store = makeRef<ClerkProtocol>()
  const markets = Array.from({ length: topology.marketThreads }, () =>
    makeRef<MarketThreadProtocol>(),
  )
  let ticker: NodeJS.Timeout | undefined
  let opening: Promise<Database> | undefined

  const meters = makeMeters()

  /** This thread's own way to read; a failed opening is tried again by the next question. */
  function database(): Promise<Database> {
    opening ??= openDatabase(databaseUrlOf(settings), { readOnly: true }).catch(
      (error: unknown) => {
        opening = undefined
        throw error
      },
    )
    return opening
  }

  const reads = { run: (task: QueryTask) => answerQuery(database, task) }
  const query = <Name extends QueryName>(asked: Name, args: Queries[Name]['takes']) =>
    askQuery<Name>(reads, asked, args)

  async function report(
    marketId: MarketId,
    message: MarketThreadProtocol['ReportTrade']['takes']['report'],
  ): Promise<ReportAnswer> {
    const thread = threadOf(partitionOf(marketId, topology), topology)
    const answer = await markets[thread]?.ask('ReportTrade', { marketId, report: message })
    if (answer === undefined) return { unanswered: 'closed' }
    return isUnanswered(answer) ? { unanswered: answer.unanswered } : answer
  }

  async function startChain(chain: (typeof settings.chains)[number]): Promise<void> {
    const { chainId, contracts, confirmations } = chain
    const lower = (address: string) => address.toLowerCase() as Address
    const own = accountOfKey(settings.keys.settlement)
    const client = makeChainClient({
      chainId,
      rpcUrls: chain.rpcUrls,
      timeoutMs: RPC_TIMEOUT_MS,
      rounds: 2,
      onError({ host, why }) {
        meters.rpcErrors.inc({ chain: chainId })
        log.debug({ chainId, host, why }, 'the chain did not answer')
      },
    })
    const contract = settlementContract(client, lower(contracts.settlement))
    const lane = makeSettlementLane({
      client,
      contract,
      tokens: conditionalTokens(
        client,
        lower(contracts.conditionalTokens),
        lower(contracts.stablecoin),
      ),
      sender: makeLane({
        client: client.viem,
        account: own.account,
        chainId,
        journal: makeJournal(store, reads),
        nowMs: systemClock.nowMs,
        keccak256: loadKeccak().keccak256,
        policy: {
          confirmations,
          bumpAfterMs: rules.bumpAfterMs,
          maxFeeCap: BigInt(rules.maxFeeGwei) * WEI_PER_GWEI,
          openMax: OPEN_MAX,
        },
      }),
      from: own.address,
      confirmations,
      startBlock: chain.startBlock,
      gasMax: rules.gasMax,
    })
    await checkGrace(chainId, contract)
    const state = newSettlement(
      {
        chainId,
        batchMax: rules.batchMax,
        batchWaitMs: rules.batchWaitMs,
        inFlightMax: rules.inFlightMax,
        readEveryMs: rules.pollMs,
        pollEveryMs: rules.pollMs,
        maxLagMs: rules.maxLagSeconds * 1_000,
      },
      {
        lane,
        readPending: (filter) => query('pendingTradesWithOrders', { chainId, ...filter }),
        readTrades: (tradeIds) => query('tradesWithOrders', { tradeIds }),
        keyOf: (trade) => contract.tradeKeyOf(trade),
        report,
      },
    )
    const served = serve<SettlementState, SettlementProtocol, SettlementEvent>({
      behaviour: settlement,
      select: () => ({ state }),
      clock: systemClock,
      mailboxMax: MAILBOX_MAX,
      batchMax: MAILBOX_MAX,
      full: reject('OVERLOADED'),
      say: (said) => {
        for (const each of said) hear(chainId, each)
      },
    })
    actors.set(chainId, { state, served })
  }

  /** A trade must settle before the contract stops accepting it, whatever its orders' traders do. */
  async function checkGrace(
    chainId: number,
    contract: ReturnType<typeof settlementContract>,
  ): Promise<void> {
    if (rules.maxLagSeconds === 0) return
    let graceSec: number
    try {
      graceSec = (await contract.delays()).graceSec
    } catch (error) {
      if (!(error instanceof Fault && error.retryable)) throw error
      log.warn({ chainId, why: error.message }, 'the grace of the contract could not be checked')
      return
    }
    if (rules.maxLagSeconds < graceSec) return
    throw new Error(
      `SIBYL_SETTLEMENT_MAX_LAG_SECONDS is ${rules.maxLagSeconds}, but the settlement contract of ` +
        `chain ${chainId} gives a grace of ${graceSec} s only: it must be below that`,
    )
  }

  function hear(chain: number, said: SettlementEvent): void {
    switch (said.type) {
      case 'BatchSent':
        meters.batchTrades.observe({ chain }, said.trades)
        break
      case 'BatchEnded': {
        meters.transactions.inc({ chain, outcome: said.outcome })
        if (said.settled > 0) meters.gasPerTrade.observe({ chain }, said.gasUsed / said.settled)
        if (said.outcome !== 'succeeded')
          log.warn({ chain, ...said }, 'a settlement did not succeed')
        break
      }
      case 'TradeEnded':
        meters.trades.inc({ chain, status: said.status })
        if (said.status === 'confirmed') meters.seconds.observe({ chain }, said.waitedMs / 1_000)
        else meters.failures.inc({ chain, reason: said.reason.split(':')[0] ?? '' })
        break
      case 'BatchVanished':
        meters.reorgs.inc({ chain })
        log.warn({ chain, ...said }, 'a reorg removed a settlement')
        break
      case 'BatchReverts':
        log.warn({ chain, ...said }, 'a settlement would revert as a whole')
        break
      case 'Contradiction':
        meters.contradictions.inc({ chain })
        log.error({ chain, ...said }, 'the chain and a market disagree')
        break
      case 'StepFailed':
        meters.stepFailures.inc({ chain, step: said.step })
        log.warn({ chain, ...said }, 'a step of settlement failed; it is tried again')
        break
      case 'LagChanged':
        log.error({ chain, ...said }, said.behind ? 'settlement is behind' : 'settlement caught up')
        for (const market of markets) {
          market.tell('SettlementLag', { chainId: chain, behind: said.behind })
        }
        break
    }
  }

  function makeMeters() {
    const shared = { registers: [registry] }
    const counter = (metric: string, help: string, ...labelNames: string[]) =>
      new Counter({ name: metric, help, labelNames: ['chain', ...labelNames], ...shared })
    const gauge = (metric: string, help: string, value: (state: SettlementState) => number) =>
      new Gauge({
        name: metric,
        help,
        labelNames: ['chain'],
        ...shared,
        collect() {
          for (const [chain, { state }] of actors) this.set({ chain }, value(state))
        },
      })
    gauge(
      'sibyl_settlement_queued_trades',
      'Trades that wait to be sent',
      (state) => statusOf(state).queued,
    )
    gauge(
      'sibyl_settlement_in_flight_trades',
      'Trades that are sent and not decided',
      (state) => statusOf(state).inFlight,
    )
    gauge(
      'sibyl_settlement_waiting_trades',
      'Trades whose market is not on chain yet',
      (state) => statusOf(state).waiting,
    )
    gauge(
      'sibyl_settlement_unreported_trades',
      'Trades whose market has not heard the news yet',
      (state) => statusOf(state).unreported,
    )
    gauge(
      'sibyl_settlement_oldest_seconds',
      'Age of the oldest trade that has not settled',
      (state) => state.lagMs / 1_000,
    )
    gauge(
      'sibyl_settlement_behind',
      '1 while the markets of the chain take cancels only',
      (state) => (state.behind ? 1 : 0),
    )
    return {
      batchTrades: new Histogram({
        name: 'sibyl_settlement_batch_trades',
        help: 'Trades of one transaction',
        labelNames: ['chain'],
        buckets: [1, 2, 5, 10, 20, 45, 100],
        ...shared,
      }),
      gasPerTrade: new Histogram({
        name: 'sibyl_settlement_gas_per_trade',
        help: 'Gas of a transaction per trade that it settled',
        labelNames: ['chain'],
        buckets: [60_000, 80_000, 100_000, 120_000, 150_000, 200_000, 400_000],
        ...shared,
      }),
      seconds: new Histogram({
        name: 'sibyl_settlement_seconds',
        help: 'From the match to the confirmation',
        labelNames: ['chain'],
        buckets: [0.5, 1, 2, 5, 10, 30, 60, 300, 900],
        ...shared,
      }),
      trades: counter('sibyl_settlement_trades_total', 'Trades that were decided', 'status'),
      failures: counter('sibyl_settlement_failures_total', 'Trades that failed', 'reason'),
      transactions: counter('sibyl_settlement_transactions_total', 'Settlements by end', 'outcome'),
      reorgs: counter('sibyl_settlement_reorgs_total', 'Settlements that a reorg removed'),
      contradictions: counter(
        'sibyl_settlement_contradictions_total',
        'Trades about which the chain and a market disagree',
      ),
      stepFailures: counter('sibyl_settlement_step_failures_total', 'Failed steps', 'step'),
      rpcErrors: counter(
        'sibyl_settlement_rpc_errors_total',
        'Requests that a node did not answer',
      ),
    }
  }

  function followMarket(index: number, port: MessagePort): void {
    const ref = markets[index]
    if (ref === undefined) return
    ref.replace(new Channel<MarketThreadProtocol>(port, channelOptions(settings), { heard() {} }))
    for (const [chainId, { state }] of actors) {
      ref.tell('SettlementLag', { chainId, behind: state.behind })
    }
  }

  function followStore(port: MessagePort): void {
    const heard = (type: string) => {
      if (type !== 'TradesWritten') return
      for (const { served } of actors.values()) served.hear(type, {}, 0, undefined)
    }
    store.replace(new Channel<ClerkProtocol>(port, channelOptions(settings), { heard }))
  }

  function tick(): void {
    for (const { served } of actors.values()) served.hear('Tick', {}, 0, undefined)
  }

  return {
    async start() {
      for (const chain of settings.chains) if (chain.rpcUrls.length > 0) await startChain(chain)
      const shortest = Math.min(rules.pollMs, Math.max(1, rules.batchWaitMs))
      ticker = setInterval(tick, Math.min(TICK_MS_MAX, Math.max(TICK_MS_MIN, shortest)))
      log.info({ chains: [...actors.keys()] }, 'settlement follows the trades')
    },
    connect(peer, port) {
      const index = markets.findIndex((_, thread) => marketThreadName(thread) === peer)
      if (index >= 0) followMarket(index, port)
      else followStore(port)
    },
    health() {
      // A chain that is away stops no market. One that is behind does, and nothing else tells why.
      for (const { state } of actors.values()) {
        if (state.misfit !== '') return state.misfit
        if (state.behind) return `settlement is behind: ${statusOf(state).why || 'it catches up'}`
      }
      return ''
    },
    metrics: () => registry.getMetricsAsJSON(),
    async drain() {
      clearInterval(ticker)
      for (const { served } of actors.values()) await served.drained()
    },
    async stop() {
      clearInterval(ticker)
      for (const ref of [...markets, store]) ref.close()
      const open = await opening?.catch(() => undefined)
      if (open !== undefined) await closeDatabase(open)
    },
  }
}
