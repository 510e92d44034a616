/** The settlement thread: one settlement actor per chain, each with the lane of its key. */

import { accountOf, balanceOf } from '#chain/accounts.ts'
import type { ChainClient } from '#chain/clients.ts'
import { conditionalTokens } from '#chain/conditional-tokens.ts'
import { makeCallReader, makeFundsRead } from '#chain/funds-read.ts'
import { WEI_PER_GWEI } from '#chain/sender/fees.ts'
import { makeLane } from '#chain/sender/lane.ts'
import { offeredFees } from '#chain/sender/offered-fees.ts'
import { settlementContract } from '#chain/settlement-contract.ts'
import { stablecoin } from '#chain/stablecoin.ts'
import {
  contractsOf,
  databaseUrlOf,
  pauseTermsOf,
  settledChains,
  spendingLimitsOf,
  type ThreadData,
} from '#config/thread-data.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketProtocol } from '#protocol/market.ts'
import type { TracedTradesProtocol } from '#protocol/settlement.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Served } from '#runtime/serve.ts'
import { type Thread, Unfit } from '#runtime/thread.ts'
import { type ChainWorld, chainWorld } from '#services/kit/chain-world.ts'
import { startKeyWatch } from '#services/kit/key-watch.ts'
import { linkWriters, makeThreadContext, serveActor } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import type { Lease } from '#store/engine/fence.ts'
import { askWrite } from '#store/writes/ask-write.ts'
import { makeJournal } from '#store/writes/journal.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { makeHoldingsRead } from './chain/holdings.ts'
import { makeSettlementLane, type SettlementLane } from './chain/settlement-lane.ts'
import { makeSimulation } from './chain/simulation.ts'
import { makeSparePermits } from './chain/spare-permits.ts'
import { statusOf } from './lag.ts'
import { settlementMeters } from './metrics.ts'
import { settlement } from './settlement.ts'
import { spendingMeters } from './spending-metrics.ts'
import {
  newSettlement,
  type ReportAnswer,
  type SettlementEvent,
  type SettlementProtocol,
  type SettlementState,
} from './state.ts'
import { makePauseRelay } from './thread/pause-relay.ts'
import { makeSpendingRelay } from './thread/spending-relay.ts'
import { makeSettlementTraces } from './thread/trade-traces.ts'

/** Bounds of the interval between ticks of each actor. */
const TICK_MS_MIN = 10
const TICK_MS_MAX = 50
/** Maximum number of transactions that wait for confirmations. */
const OPEN_MAX = 256
const RPC_TIMEOUT_MS = 5_000
/** Interval between requests to market threads that have not answered with their pauses. */
const PAUSES_EVERY_MS = 1_000
/** Interval between reads of the journal for the traders' spending. */
const SPENDING_EVERY_MS = 1_000

/** One node at a time settles the trades of a chain. */
const roleOf = ({ chainId }: { readonly chainId: number }): string => `settlement/${chainId}`

type TracedTrades = TracedTradesProtocol['TradesTraced']['takes']

/** Epoch of the lease, by which markets reject a former holder; absent if there can be only one holder. */
const epochOf = (lease: Lease | undefined): { epoch?: number } =>
  lease === undefined || lease.epoch === 0 ? {} : { epoch: lease.epoch }

export function settlementThread(data: ThreadData, world: ChainWorld = chainWorld): Thread {
  const { settings } = data
  const { settlement: rules } = settings
  const kit = makeThreadContext(data, world)
  const { log, clock } = kit
  const actors: Served[] = []
  const traces = makeSettlementTraces(kit.tracer)
  const { store, markets, marketOf, ...writers } = linkWriters(settings, kit, {
    told: (type, message) => {
      if (type === 'TradesTraced') traces.received((message as TracedTrades).traces)
      if (type !== 'TradesWritten') return
      for (const actor of actors) actor.hear(type, {}, 0, undefined)
    },
    missed: sendAll,
  })
  const pauses = makePauseRelay(markets, pauseTermsOf(settings))
  const limits = spendingLimitsOf(settings)
  const leases = makeLeases(data, kit, world)
  const reads = world.makeReads(databaseUrlOf(settings))
  const { query } = reads
  const spending = makeSpendingRelay({
    markets,
    limits,
    read: (filter) => query('settlementCharges', filter),
  })
  const states = new Map<number, SettlementState>()
  const leaseOf = new Map<number, Lease>()
  const keys: ReturnType<typeof startKeyWatch>[] = []
  const meters = settlementMeters(kit, () => states)
  spendingMeters(kit, spending)

  /** Makes the lane of a chain: it signs, simulates and sends the settlements. */
  function laneOf(
    chain: (typeof settings.chains)[number],
    on: {
      readonly client: ChainClient
      readonly contract: ReturnType<typeof settlementContract>
      readonly own: ReturnType<typeof accountOf>
      readonly role: string
    },
  ): SettlementLane {
    const { client, contract, own, role } = on
    const { chainId, confirmations } = chain
    const contracts = contractsOf(chain)
    const maxFeeCap = BigInt(rules.maxFeeGwei) * WEI_PER_GWEI
    const readFunds = makeFundsRead(makeCallReader(client, contracts.multicall), contracts)
    return makeSettlementLane({
      client,
      contract,
      tokens: conditionalTokens(client, contracts.conditionalTokens, contracts.stablecoin),
      withHoldings: makeHoldingsRead(client, readFunds),
      simulate: makeSimulation({
        client,
        contract,
        from: own.address,
        stablecoin: contracts.stablecoin,
        gasMax: rules.gasMax,
        fees: () => offeredFees(client.viem, maxFeeCap),
      }),
      spare: makeSparePermits({
        stored: (owners) => query('permitsOf', { chainId, owners }),
        nonceOf: stablecoin(client, contracts.stablecoin).nonce,
      }),
      sender: makeLane({
        client: client.viem,
        account: own.account,
        chainId,
        journal: makeJournal(leases.writeQueue(role, store), reads),
        nowMs: clock.nowMs,
        keccak256: loadKeccak().keccak256,
        policy: {
          confirmations,
          bumpAfterMs: rules.bumpAfterMs,
          maxFeeCap,
          openMax: OPEN_MAX,
        },
      }),
      confirmations,
      startBlock: chain.startBlock,
    })
  }

  async function startChain(chain: (typeof settings.chains)[number], lease: Lease): Promise<void> {
    const { chainId } = chain
    leaseOf.set(chainId, lease)
    const role = roleOf(chain)
    const own = accountOf(settings.keys.settlement)
    const client = world.makeChainClient({
      chainId,
      rpcUrls: chain.rpcUrls,
      timeoutMs: RPC_TIMEOUT_MS,
      rounds: 2,
      onError: (trouble) => meters.unanswered(chainId, trouble),
    })
    const contract = settlementContract(client, contractsOf(chain).settlement)
    const lane = laneOf(chain, { client, contract, own, role })
    await checkGrace(chainId, contract)
    keys.push(
      startKeyWatch(kit, settings.relayer, {
        ...{ setting: 'SIBYL_SETTLEMENT_KEY', chainId, address: own.address },
        balanceWei: () => balanceOf(client, own.address),
        role: {
          contract: 'settlement contract',
          isHeld: () => contract.isOperator(own.address),
        },
      }),
    )
    const state = newSettlement(
      {
        chainId,
        batchMax: rules.batchMax,
        batchWaitMs: rules.batchWaitMs,
        inFlightMax: rules.inFlightMax,
        readEveryMs: rules.pollMs,
        pollEveryMs: rules.pollMs,
        maxLagMs: rules.maxLagSeconds * 1_000,
        tradeDeadlineMs: rules.tradeDeadlineSeconds * 1_000,
        retryGasMax: rules.retryGasMax,
      },
      {
        lane,
        readPending: (filter) => query('pendingTradesWithOrders', { chainId, ...filter }),
        readTrades: (tradeIds) => query('tradesWithOrders', { tradeIds }),
        readNotes: (tradeIds) => query('notesOf', { tradeIds }),
        saveNotes: async (changes) => {
          await askWrite(leases.writeQueue(role, store), 'noteTrades', { chainId, ...changes })
        },
        keyOf: (trade) => contract.tradeKeyOf(trade),
        report: async (marketId, tradeReport) =>
          // Without a valid lease another node may decide, so it is reported later.
          leases.isSure(role)
            ? report({ marketId, report: tradeReport, ...epochOf(lease) })
            : { unanswered: 'closed' },
        ...(limits.failedGasPerDay === 0 ? {} : { barred: () => spending.barred(chainId) }),
      },
    )
    states.set(chainId, state)
    log.info({ chainId, ...epochOf(lease) }, 'settlement of the chain starts')
    spending.follow({ chainId, sender: own.address })
    for (const market of markets) sendLag(market, chainId, false)
    actors.push(
      serveActor<SettlementState, SettlementProtocol, SettlementEvent>({
        behaviour: settlement,
        state,
        clock,
        loop: kit.loop,
        say(said) {
          meters.record(chainId, said)
          if (said.type !== 'LagChanged') return
          for (const market of markets) sendLag(market, chainId, said.behind)
        },
      }),
    )
  }

  /** A trade must settle or fail before the contract stops accepting it. */
  async function checkGrace(
    chainId: number,
    contract: ReturnType<typeof settlementContract>,
  ): Promise<void> {
    let graceSec: number
    try {
      graceSec = (await contract.delays()).graceSec
    } catch (error) {
      if (!(error instanceof Fault && error.retryable)) throw error
      log.warn(
        { chainId, why: error.message },
        'the grace period of the settlement contract could not be read',
      )
      return
    }
    const limits = {
      SIBYL_SETTLEMENT_MAX_LAG_SECONDS: rules.maxLagSeconds,
      SIBYL_SETTLEMENT_TRADE_DEADLINE_SECONDS: rules.tradeDeadlineSeconds,
    }
    for (const [name, seconds] of Object.entries(limits)) {
      if (seconds < graceSec) continue
      throw new Unfit(
        `${name} is ${seconds}, but the settlement contract of chain ${chainId} gives a grace of ` +
          `${graceSec} s only: it must be below that`,
      )
    }
  }

  async function report(request: MarketProtocol['ReportTrade']['takes']): Promise<ReportAnswer> {
    traces.reported(request.report)
    const answer = await marketOf(request.marketId).ask('ReportTrade', request)
    if (isUnanswered(answer)) return { unanswered: answer.unanswered }
    if ('paused' in answer && answer.paused !== undefined) pauses.received(answer.paused)
    return answer
  }

  function sendLag(market: (typeof markets)[number], chainId: number, behind: boolean): void {
    market.tell('SettlementLag', { chainId, behind, ...epochOf(leaseOf.get(chainId)) })
  }

  /** Sends a market thread everything that it needs, after it was linked or has lost messages. */
  function sendAll(market: (typeof markets)[number]): void {
    for (const [chainId, { lag }] of states) sendLag(market, chainId, lag.behind)
    pauses.linked(market)
    spending.linked(market)
  }

  return {
    async start() {
      for (const chain of settledChains(settings)) {
        await leases.hold(roleOf(chain), (lease) => startChain(chain, lease))
      }
      const shortest = Math.min(rules.pollMs, Math.max(1, rules.batchWaitMs))
      kit.every(Math.min(TICK_MS_MAX, Math.max(TICK_MS_MIN, shortest)), () => {
        for (const actor of actors) actor.hear('Tick', {}, 0, undefined)
      })
      kit.every(PAUSES_EVERY_MS, () => pauses.tick(clock.nowMs()))
      kit.every(SPENDING_EVERY_MS, () => {
        spending.tick(clock.nowMs()).catch((error: unknown) => {
          log.warn(
            { why: String(error) },
            'the spending of traders could not be read; it is retried',
          )
        })
      })
      if (states.size > 0) log.info({ chains: [...states.keys()] }, 'settlement is running')
    },
    connect(peer, port) {
      const market = writers.take(peer, port)
      if (market === undefined || market === 'store') return
      sendAll(market)
    },
    health() {
      // An unreachable chain stops no market, but lag does, and only this check shows the reason.
      for (const state of states.values()) {
        if (state.chain.misfit !== '') return state.chain.misfit
        if (state.lag.behind)
          return `settlement is behind: ${statusOf(state).why || 'it catches up'}`
      }
      return keys.map(({ why }) => why()).find((why) => why !== '') ?? leases.standby()
    },
    metrics: kit.metrics,
    async drain() {
      kit.quiet()
      for (const actor of actors) await actor.drained()
    },
    async stop() {
      kit.quiet()
      writers.close()
      await reads.close()
      await leases.close()
    },
  }
}
