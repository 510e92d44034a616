/** Builds the parts of a market thread on its open log. */

import type { MessagePort } from 'node:worker_threads'
import { settledChains, type ThreadData, topologyOf } from '#config/thread-data.ts'
import { partitionOf, partitionsOf, SETTLEMENT_THREAD } from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { EventLog } from '#log/event-log.ts'
import type { DiskRoom } from '#log/partition/disk-room.ts'
import type { Clock } from '#runtime/clock.ts'
import { beat } from '#runtime/heartbeat.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import { SessionIndex } from '../held.ts'
import { CancelQuota } from '../host/cancel-quota.ts'
import { type MarketThread, newMarketThread, recover } from '../host/market-host.ts'
import { viewsOf } from '../host/market-views.ts'
import { Retention } from '../host/retention.ts'
import { makeSettlementWatch } from '../host/settlement-watch.ts'
import { marketMeters } from '../metrics.ts'
import type { RiskRules } from '../state.ts'
import { makeCommands } from './commands.ts'
import { openDemoMarkets } from './demo-markets.ts'
import { makeLinks } from './links.ts'
import { riskRulesOf } from './market-risk.ts'
import { servePartitions } from './serve-partitions.ts'
import { makeSessionOrders } from './session-orders.ts'
import { makeOrderTraces } from './trade-traces.ts'
import { DISK_FULL, makeUpkeep } from './upkeep.ts'
import { warmUp } from './warm-up.ts'

/**
 * Time for which a thread that moves to another node still answers late messages. It is many times the network delay.
 */
const MOVING_MS = 250

export type RunningMarkets = {
  connect(peer: string, port: MessagePort): void
  /** Returns why the thread is unhealthy; empty if it is healthy. */
  health(): string
  /** Resolves when no command is waiting or in progress. */
  drained(): Promise<void>
  /**
   * Hands the partitions over. After that, this thread appends nothing more, and another node may take the partitions.
   */
  handOver(): Promise<void>
  /** Stops maintenance; the links stay open until `close`. */
  quiet(): void
  close(): void
}

type OpenLog = { readonly events: EventLog<MarketEvent>; readonly room: DiskRoom }

export function startMarkets(
  data: ThreadData,
  kit: ThreadContext,
  opened: OpenLog,
): RunningMarkets {
  const { settings } = data
  const { log, timers } = kit
  const { events, room } = opened
  const topology = topologyOf(settings)
  const own = partitionsOf(data.index, topology)
  const risk = riskRulesOf(settings)
  const lag = lagRulesOf(settings)
  if (room.isFull) log.error({}, DISK_FULL)
  const sessionIndex = new SessionIndex()
  const thread = newThread(settings, kit, { ...opened, risk, lag, sessionIndex })
  warmUp(settings.markets.warmUpOrders, { selfTrade: settings.matching.selfTrade })
  const clock = clockOf(kit, events, own)
  const settlement = makeSettlementWatch(lag, clock.nowMs())
  let stopped = false
  const isStopped = () => stopped
  const { mailboxMax } = settings.markets
  const commands = makeCommands(thread, kit, { topology, mailboxMax })
  const isAway = () => thread.away.size > 0
  const sessions = makeSessionOrders(sessionIndex, kit, { ...commands, isAway })
  const links = makeLinks(settings, kit, {
    ...{ commands, sessions, own, isStopped },
    linked: (peer) => peer === SETTLEMENT_THREAD && settlement.linked(),
    gone: (peer) => peer === SETTLEMENT_THREAD && settlement.gone(kit.clock.nowMs()),
  })
  const upkeep = makeUpkeep(thread, kit, {
    ...{ clock, room, settlement, commands, links, sessions, reload, isStopped },
    pauses: risk.pauses,
  })
  const meters = marketMeters(kit)
  // If the log is in a server, one host (a command queue and its commits) serves all partitions. With one host per
  // partition, a command could read changes that another host has not committed yet.
  const groups = settings.eventLog.url === '' ? own.map((partition) => [partition]) : [own]
  const { tracer } = kit
  const placeOf = (marketId: MarketId) => {
    const partition = commands.partitionOf(marketId)
    return { partition, offset: events.lastOffset(partition) }
  }
  const traces = tracer === undefined ? undefined : makeOrderTraces(placeOf, tracer.nowMs)
  for (const group of groups) {
    const host = servePartitions(group, {
      ...{ thread, events, room, clock, kit, meters, mailboxMax, commands, links, reload, traces },
      published: upkeep.wake,
    })
    commands.serve(group, host)
  }
  upkeep.start()
  sessions.awaitClaims()
  openDemoMarkets(thread, settings, commands, { own, nowMs: clock.nowMs() })
  log.info({ partitions: own, markets: thread.markets.size }, 'markets are open')

  /** Reloads a partition from its log, and sends its state to every follower. */
  function reload(partition: number): void {
    const before = thread.away.get(partition)
    const isHere = recover(thread, partition)
    const why = thread.away.get(partition)
    if (isHere) sessions.awaitClaims()
    if (isHere) log.warn({ partition }, 'the markets of the partition were reloaded')
    // Retries are frequent, so the same reason is logged only once.
    else if (why !== before) log.error({ partition, why }, 'the partition cannot be opened now')
    if (!isHere && before !== undefined) return
    for (const views of viewsOf(thread, partition)) links.readers.reloaded(views)
  }

  function quiet(): void {
    stopped = true
    kit.quiet()
  }

  return {
    connect: links.connect,
    health: () => troublesOf(thread, room).join('; '),
    drained: commands.drained,
    async handOver() {
      links.move()
      await commands.drained()
      // Fronts may have sent commands before they received the notice of the move. Wait for these commands, because
      // each must be answered.
      await new Promise<void>((resolve) => void timers.after(MOVING_MS, resolve))
      quiet()
      await commands.drained()
    },
    quiet,
    close: links.close,
  }
}

type LagRules = { readonly maxMs: number; readonly chains: ReadonlySet<number> }

/**
 * Returns the maximum settlement lag, and the chains to which it applies. Above this lag, markets accept only cancels.
 * A maximum of 0 means no limit.
 */
function lagRulesOf(settings: ThreadData['settings']): LagRules {
  return {
    maxMs: settings.settlement.maxLagSeconds * 1_000,
    chains: new Set(settledChains(settings).map(({ chainId }) => chainId)),
  }
}

type ThreadRules = OpenLog & {
  readonly risk: RiskRules
  readonly lag: LagRules
  readonly sessionIndex: SessionIndex
}

function newThread(
  settings: ThreadData['settings'],
  { random, monotonicMs }: Pick<ThreadContext, 'random' | 'monotonicMs'>,
  { events, room, risk, lag, sessionIndex }: ThreadRules,
): MarketThread {
  const cancelledMax = settings.limits.enabled ? settings.orders.cancelledPerHourMax : 0
  const { retentionHours } = settings.eventLog
  return newMarketThread({
    log: events,
    partitionOf: (marketId) => partitionOf(marketId, topologyOf(settings)),
    rules: {
      ...{ selfTrade: settings.matching.selfTrade, settled: lag.chains, risk },
      sessions: { index: sessionIndex, ordersMax: settings.stream.heldOrdersMax },
    },
    seed: random.int(2 ** 31),
    snapshotEvery: settings.markets.snapshotEvery,
    ...(retentionHours === 0 ? {} : { retention: new Retention(retentionHours * 3_600_000) }),
    room,
    monotonicMs,
    ...(cancelledMax === 0 ? {} : { cancelQuota: new CancelQuota(cancelledMax) }),
    progress: beat,
    ...(lag.maxMs === 0 ? {} : { lag }),
  })
}

/** Returns a clock that never goes back, even if the machine's clock is set back between two starts. */
function clockOf(
  { clock }: Pick<ThreadContext, 'clock'>,
  events: EventLog<MarketEvent>,
  own: readonly number[],
): Clock {
  const lastMs = Math.max(0, ...own.map((partition) => events.state(partition).lastMs))
  return { nowMs: () => Math.max(lastMs, clock.nowMs()), after: () => () => {} }
}

function troublesOf(thread: MarketThread, room: DiskRoom): string[] {
  const published = [...thread.away.values()]
  const late = [...thread.late].join(', ')
  if (late !== '') published.push(`the database is behind the log of partitions ${late}`)
  if (room.isFull) published.push(DISK_FULL)
  return published
}
