/**
 * The settlement thread: one settlement actor per chain, each with its lane (the key of that chain and its
 * transactions).
 */

import {
  databaseUrlOf,
  pauseTermsOf,
  settledChains,
  spendingLimitsOf,
  type ThreadData,
} from '#config/thread-data.ts'
import type { MarketProtocol } from '#protocol/market.ts'
import type { TracedTradesProtocol } from '#protocol/settlement.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Served } from '#runtime/serve.ts'
import type { Thread } from '#runtime/thread.ts'
import { type ChainWorld, chainWorld } from '#services/kit/chain-world.ts'
import type { startKeyWatch } from '#services/kit/key-watch.ts'
import { linkWriters, makeThreadContext, serveActor } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import type { Lease } from '#store/engine/fence.ts'
import { statusOf } from './lag.ts'
import { settlementMeters } from './metrics.ts'
import { settlement } from './settlement.ts'
import { spendingMeters } from './spending-metrics.ts'
import type { ReportAnswer, SettlementEvent, SettlementProtocol, SettlementState } from './state.ts'
import { makePauseRelay } from './thread/pause-relay.ts'
import { makeSpendingRelay } from './thread/spending-relay.ts'
import { epochOf, roleOf, startChain } from './thread/start-chain.ts'
import { makeSettlementTraces } from './thread/trade-traces.ts'

/** Bounds of the time between two ticks of an actor. */
const TICK_MS_MIN = 10
const TICK_MS_MAX = 50
/** Interval between requests to a market thread that has not yet returned the pauses of its traders. */
const PAUSES_EVERY_MS = 1_000
/** Interval between reads of the journal for the traders' spending. */
const SPENDING_EVERY_MS = 1_000

type TracedTrades = TracedTradesProtocol['TradesTraced']['takes']

export function settlementThread(data: ThreadData, world: ChainWorld = chainWorld): Thread {
  const { settings } = data
  const { settlement: rules } = settings
  const kit = makeThreadContext(data, world)
  const { log, clock } = kit
  const actors: Served[] = []
  const traces = makeSettlementTraces(kit.tracer)
  const { store, markets, marketOf, ...writers } = linkWriters(settings, kit, {
    received: (type, message) => {
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

  async function start(chain: (typeof settings.chains)[number], lease: Lease): Promise<void> {
    const { chainId } = chain
    leaseOf.set(chainId, lease)
    const { sender, key, state } = await startChain(chain, lease, {
      ...{ settings, world, context: kit, store, leases, reads, meters, report },
      barred: limits.failedGasPerDay === 0 ? undefined : spending.barred,
    })
    keys.push(key)
    states.set(chainId, state)
    log.info({ chainId, ...epochOf(lease) }, 'the settlement of trades on this chain has started')
    spending.follow({ chainId, sender })
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

  /**
   * Sends a market thread the lag, the pauses and the spending, after the market thread was linked or has lost
   * messages.
   */
  function sendAll(market: (typeof markets)[number]): void {
    for (const [chainId, { lag }] of states) sendLag(market, chainId, lag.behind)
    pauses.linked(market)
    spending.linked(market)
  }

  return {
    async start() {
      for (const chain of settledChains(settings)) {
        await leases.hold(roleOf(chain), (lease) => start(chain, lease))
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
            'the settled fills and the gas of traders could not be read; the read is retried',
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
      // Lag makes the thread unready, because no other health check shows the lag. An unreachable chain alone does not
      // make the thread unready.
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
