/**
 * A market thread: its partitions of the log, the markets in them, and the timers they need. Each
 * partition is served by itself: a batch is one append to one file, and a caller that waits for it
 * does not wait for the others.
 */

import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { demoMarkets } from '#config/demo-markets.ts'
import {
  channelOptions,
  isNode,
  settledChains,
  type ThreadData,
  topologyOf,
} from '#config/thread-data.ts'
import {
  accountsThreadName,
  isFrontThread,
  LOG_COPY_THREAD,
  partitionOf,
  partitionsOf,
  SETTLEMENT_THREAD,
} from '#config/topology.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { COMMIT_COMMANDS_MAX, COMMIT_EVENTS_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { reject } from '#domain/rejection.ts'
import type { MovingProtocol } from '#live/patient-ref.ts'
import type { EventLog } from '#log/event-log.ts'
import { type DiskRoom, isDiskFull, openDiskRoom } from '#log/partition/disk-room.ts'
import type { HeldOrder, MarketFollowerProtocol } from '#protocol/market-followers.ts'
import { MARKET_FORMS } from '#protocol/market-forms.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { LogReaderProtocol } from '#protocol/projector.ts'
import type { Message } from '#runtime/actor.ts'
import { Channel, type Unanswered } from '#runtime/channel.ts'
import { type Clock, systemClock } from '#runtime/clock.ts'
import { beat } from '#runtime/heartbeat.ts'
import { type ReplyChannel, type Served, serve } from '#runtime/serve.ts'
import type { ThreadParts } from '#runtime/thread.ts'
import { makeKit } from '#services/kit/kit.ts'
import { CancelQuota } from './host/cancel-quota.ts'
import { marketsToExpire } from './host/due-markets.ts'
import { hasHousework, housekeep, takeGone, takeTrouble, tidy } from './host/housekeeping.ts'
import {
  byMarket,
  commit,
  marketIdOf,
  type PartitionAppended,
  prepare,
} from './host/market-batch.ts'
import {
  hearAtOnce,
  type MarketThread,
  marketThread as marketBehaviour,
  newMarketThread,
  recover,
} from './host/market-host.ts'
import { MarketReaders } from './host/market-readers.ts'
import { viewsOf } from './host/market-views.ts'
import { OrderHolds, OrphanedOrders, unclaimedHolds } from './host/order-holds.ts'
import { watchProjection } from './host/projection-lag.ts'
import { Retention } from './host/retention.ts'
import { makeSettlementWatch, type SettlementWatch } from './host/settlement-watch.ts'
import { marketMeters } from './metrics.ts'
import { withdrawBarred } from './thread/barred-orders.ts'
import { openMarketLog, partitionsTaken } from './thread/market-log.ts'
import { riskRulesOf } from './thread/market-risk.ts'

/** How often expired orders are looked for, and how often what is long past. */
const EXPIRE_EVERY_MS = 250
const TIDY_EVERY_MS = 1_000
/** While the disk is full, a partition that cannot be opened is tried again after so many of these. */
const RELOAD_FULL_TURNS = 10
/** What each market thread keeps for cancels on a disk without room. */
const RESERVE_BYTES = 4 * 1024 * 1024
/** Between two steps of housekeeping: most of the time belongs to the markets. */
const HOUSEKEEPING_PAUSE_MS = 2

/** How long fronts have to say which of the orders that the log has as held they still hold. */
const CLAIM_MS = 5_000
/** How long a thread that moves tells so to what still arrives: many times the way between machines. */
const MOVING_MS = 250

/** Commands whose answer covers every market of the thread, and would be wrong while a partition is away. */
const OF_ALL_MARKETS = new Set([
  ...['OpenOrdersPage', 'MarketsOf', 'CountOrders', 'PendingMarkets', 'Confirm'],
])

const FULL = reject('OVERLOADED')
const UNCONFIRMED = reject(
  'OUTCOME_UNKNOWN',
  undefined,
  'this market could not confirm that it is served here; another server may serve it',
)
const MOVED: Unanswered = { unanswered: 'moved' }

/** What this thread tells, besides answers. */
type ToldProtocol = MarketFollowerProtocol & MovingProtocol & LogReaderProtocol

type Placed = MarketThreadProtocol['PlaceOrder']['takes']

export function marketThread(data: ThreadData): ThreadParts {
  const { index, settings } = data
  const topology = topologyOf(settings)
  const kit = makeKit(data)
  const { log } = kit
  const meters = marketMeters(kit)

  let events: EventLog<MarketEvent>
  let thread: MarketThread
  let settlement: SettlementWatch
  let room: DiskRoom
  /** By partition. */
  const hosts = new Map<number, Served>()
  /** Every thread that speaks to this one; of them, those that follow its events. */
  const channels = new Set<Channel<ToldProtocol>>()
  const readers = new MarketReaders<Channel<MarketFollowerProtocol & MovingProtocol>>(
    partitionsOf(index, topology),
    partitionOfCommand,
  )
  /** Of them, those that read the log by themselves and are told when it grows. */
  const logReaders = new Set<Channel<LogReaderProtocol>>()
  const logReaderNames = new Set(
    // Of several machines each has a copy, whose thread tells its readers.
    isNode(settings)
      ? [LOG_COPY_THREAD]
      : [
          'store',
          ...Array.from({ length: settings.risk.threads }, (_, at) => accountsThreadName(at)),
        ],
  )
  /** What was held by fronts that are gone. */
  const orphans = new OrphanedOrders((order, answered) =>
    hear('CancelOrder', order, 1, { reply: (_, answer) => answered(answer) }),
  )
  /** What is held by fronts that are here, by their channels. */
  const claimed = new Set<OrderHolds>()
  /** When what no front holds is to be cancelled of what the log has as held, on the clock of `performance`. */
  let claimedByMs = Number.POSITIVE_INFINITY
  let keepingHouse = false
  let stopped = false
  /** It ends here because another node is to have it: what comes is not taken any more. */
  let moving = false
  let draining: Promise<void> | undefined
  let expiring = false

  function keepHouse(): void {
    keepingHouse = !stopped && housekeep(thread)
    if (keepingHouse) setTimeout(keepHouse, HOUSEKEEPING_PAUSE_MS)
  }

  function wakeHousekeeping(): void {
    if (keepingHouse || !hasHousework(thread)) return
    keepingHouse = true
    setImmediate(keepHouse)
  }

  /** Goes back to what a partition holds, and tells every follower. */
  function reload(partition: number): void {
    const before = thread.away.get(partition)
    const isHere = recover(thread, partition)
    const why = thread.away.get(partition)
    if (isHere) awaitClaims()
    if (isHere) log.warn({ partition }, 'the markets were reloaded')
    // It is tried again and again, and told once.
    else if (why !== before) log.error({ partition, why }, 'it cannot be opened at present')
    if (!isHere && before !== undefined) return
    for (const views of viewsOf(thread, partition)) readers.reloaded(views)
  }

  /** What is loaded may have orders of sessions that ended together with this thread. */
  function awaitClaims(): void {
    claimedByMs = performance.now() + CLAIM_MS
  }

  function cancelUnclaimed(): void {
    if (performance.now() < claimedByMs) return
    claimedByMs = Number.POSITIVE_INFINITY
    const orders = unclaimedHolds(thread.markets, claimed)
    if (orders.length === 0) return
    log.warn({ orders: orders.length }, 'orders whose sessions are gone are cancelled')
    orphans.add(orders)
  }

  /** The orders of a session that goes on without holding them stay, also after a restart. */
  function keep(orders: readonly HeldOrder[]): void {
    for (const { marketId, orderHash } of orders) {
      const isHeld = thread.markets.get(marketId)?.state.held.has(orderHash)
      if (isHeld) hear('KeepOrder', { marketId, orderHash }, 0, undefined)
    }
  }

  /** Passes a command to the partition of its market; what is for the thread, to the first. */
  function hear(
    type: string,
    message: unknown,
    replyTo: number,
    channel: ReplyChannel | undefined,
  ): void {
    const { requestId } = message as { requestId?: string }
    if (requestId !== undefined) log.debug({ requestId, command: type }, 'a request arrived')
    const command = { type, message } as Message<MarketThreadProtocol>
    if (hearAtOnce(thread, command)) {
      channel?.reply(replyTo, undefined)
      withdrawBarred(thread, hear)
      return
    }
    const marketId = marketIdOf(command)
    const own = marketId === undefined ? undefined : hosts.get(partitionOfCommand(marketId))
    const [first] = hosts.values()
    const host = own ?? first
    if (host === undefined || isFull(host)) channel?.reply(replyTo, FULL)
    else host.hear(type, message, replyTo, channel)
  }

  /** A market that is open here says so itself, at less cost than its id. */
  function partitionOfCommand(marketId: MarketId): number {
    return thread.markets.get(marketId)?.partition ?? partitionOf(marketId, topology)
  }

  /** Whether as many commands wait, at all hosts together, as may. */
  function isFull(host: Served): boolean {
    const { mailboxMax } = settings.markets
    // While no host has more than its share there is no need to count them all.
    if (host.waiting * hosts.size < mailboxMax) return false
    let waiting = 0
    for (const each of new Set(hosts.values())) waiting += each.waiting
    return waiting >= mailboxMax
  }

  async function drained(): Promise<void> {
    for (const host of hosts.values()) await host.drained()
  }

  /** After this another node may take the partitions: nothing is appended here any more. */
  async function handOver(): Promise<void> {
    moving = true
    for (const reader of readers) reader.tell('Moving', {})
    await drained()
    // What was on its way when they heard it arrives, and is answered.
    await new Promise((resolve) => setTimeout(resolve, MOVING_MS))
    stopped = true
    kit.quiet()
    await drained()
  }

  async function start(): Promise<void> {
    const own = partitionsOf(index, topology)
    const { partitions } = topology
    const isDiskFull = () => room.isFull
    events = await openMarketLog(settings, kit, { partitions, own, isDiskFull })
    room = openDiskRoom({
      folder: join(settings.data.dir, 'log'),
      name: `reserve-${index}`,
      reserveBytes: RESERVE_BYTES,
      freeBytesMin: settings.data.freeMiBMin * 1024 * 1024,
    })
    if (room.isFull) log.error({}, 'the disk is nearly full: only cancels are taken')
    const maxMs = settings.settlement.maxLagSeconds * 1_000
    const cancelledMax = settings.limits.enabled ? settings.orders.cancelledPerHourMax : 0
    const chains = new Set(settledChains(settings).map(({ chainId }) => chainId))
    const { retention } = settings.log
    const risk = riskRulesOf(settings)
    thread = newMarketThread({
      log: events,
      partitionOf: (marketId) => partitionOf(marketId, topology),
      rules: { selfTrade: settings.matching.selfTrade, settled: chains, risk },
      seed: randomInt(2 ** 31),
      snapshotEvery: settings.markets.snapshotEvery,
      ...(retention === 0 ? {} : { retention: new Retention(retention * 3_600_000) }),
      room,
      ...(cancelledMax === 0 ? {} : { cancelQuota: new CancelQuota(cancelledMax) }),
      progress: beat,
      ...(maxMs === 0 ? {} : { lag: { maxMs, chains } }),
    })
    // The clock of a market never goes back, not even when the machine's does between two starts.
    const lastMs = Math.max(0, ...own.map((partition) => events.state(partition).lastMs))
    const clock = {
      nowMs: () => Math.max(lastMs, systemClock.nowMs()),
      after: () => () => {},
    }
    settlement = makeSettlementWatch({ maxMs, chains }, clock.nowMs())
    // Where an append takes a way over the network, no command may see what others have not made
    // durable yet: then all partitions share one host, whose commits go out together.
    const groups = settings.log.url === '' ? own.map((partition) => [partition]) : [own]
    for (const group of groups) {
      const host = serveHost(group, clock)
      for (const partition of group) hosts.set(partition, host)
    }
    kit.every(EXPIRE_EVERY_MS, () => {
      expire(clock)
      wakeHousekeeping()
    })
    let turns = 0
    kit.every(TIDY_EVERY_MS, () => {
      if (room.look()) {
        if (room.isFull) log.error({}, 'the disk is nearly full: only cancels are taken')
        else log.warn({}, 'there is room on the disk again')
      }
      // A full disk does not get roomier by being asked again and again.
      if (!room.isFull || ++turns % RELOAD_FULL_TURNS === 0) {
        for (const partition of thread.away.keys()) reload(partition)
      }
      cancelUnclaimed()
      orphans.retry()
      tidy(thread)
      risk.pauses?.sweep(clock.nowMs())
      readers.gone(takeGone(thread))
      for (const { behind, ...news } of watchProjection(thread, clock.nowMs())) {
        log.error(news, behind ? 'the database is behind the log' : 'the database caught up')
      }
      for (const chainId of settlement.look(clock.nowMs())) {
        log.error({ chainId }, 'settlement is away: the markets of its chain take cancels only')
        hear('SettlementLag', { chainId, behind: true }, 0, undefined)
      }
      const trouble = takeTrouble(thread)
      if (trouble !== '') log.warn({ why: trouble }, 'a snapshot or truncation failed')
      wakeHousekeeping()
    })
    awaitClaims()
    openDemoMarkets(own, clock.nowMs())
    log.info({ partitions: own, markets: thread.markets.size }, 'markets are open')
  }

  /** Tells markets to expire what they have, as long as there is more than one batch takes. */
  function expire(clock: Clock): void {
    if (stopped || expiring) return
    const marketIds = marketsToExpire(thread, clock.nowMs())
    let waiting = marketIds.length
    expiring = waiting > 0
    const reply = () => {
      if (--waiting > 0) return
      expiring = false
      setImmediate(() => expire(clock))
    }
    for (const marketId of marketIds) hear('Expire', { marketId }, 1, { reply })
  }

  function serveHost(group: readonly number[], clock: Clock): Served {
    const here = { state: thread }
    const away = { answer: reject('OVERLOADED', undefined, 'the event log cannot be written') }
    const isAway = (command: Message<MarketThreadProtocol>): boolean => {
      if (thread.away.size === 0) return false
      const marketId = marketIdOf(command)
      if (marketId === undefined) return OF_ALL_MARKETS.has(command.type)
      return thread.away.has(partitionOfCommand(marketId))
    }
    /** The partitions of the commit under way. */
    let touched: readonly number[] = []
    /** What the newest commit made durable. */
    let appended: readonly PartitionAppended[] = []
    return serve<MarketThread, MarketThreadProtocol, MarketEvent>({
      behaviour: marketBehaviour,
      select: (command) => (isAway(command) ? away : here),
      clock,
      mailboxMax: settings.markets.mailboxMax,
      batchMax: COMMIT_COMMANDS_MAX,
      eventsMax: COMMIT_EVENTS_MAX,
      full: FULL,
      prepare: (batch) => prepare(thread, batch),
      arrange: byMarket,
      commit: (said) => {
        const begunMs = performance.now()
        touched = group.length === 1 ? group : partitionsOfEvents(said)
        return commit(thread, said, said.at(-1)?.atMs ?? clock.nowMs()).then((done) => {
          appended = done
          meters.committed(performance.now() - begunMs)
        })
      },
      ...(events.takenOver === undefined ? {} : { confirm, unconfirmed: UNCONFIRMED }),
      recover: (error) => {
        const failed = { err: error, partitions: touched }
        log.error(failed, 'an append failed; going back to what the log holds')
        if (isDiskFull(error)) room.spend()
        // Of those that did not fail nothing was told: their followers are to hear where they are.
        for (const partition of touched) reload(partition)
        return reject('OUTCOME_UNKNOWN')
      },
      say: (said) => {
        readers.committed({ appended, said })
        const offsets = touched.map(
          (partition) => [partition, events.lastOffset(partition)] as const,
        )
        for (const logReader of logReaders) logReader.tell('Appended', { offsets })
        wakeHousekeeping()
      },
      observe: meters.handled,
    })
  }

  /**
   * Resolves with whether no other owner had taken a partition after the batch was handled. The log's fence protects
   * appends, but not an answer without events, such as that an order does not exist.
   */
  async function confirm(): Promise<boolean> {
    const taken = await partitionsTaken(events, log)
    for (const partition of taken ?? []) reload(partition)
    return taken?.length === 0
  }

  function partitionsOfEvents(said: readonly MarketEvent[]): number[] {
    const found = new Set<number>()
    for (const { marketId } of said) found.add(partitionOfCommand(marketId))
    return [...found]
  }

  function troubles(): string[] {
    const told = [...thread.away.values()]
    const late = [...thread.late].join(', ')
    if (late !== '') told.push(`the database is behind the log of partitions ${late}`)
    if (room.isFull) told.push('the disk is nearly full: only cancels are taken')
    return told
  }

  /** On the devnet: the demo markets of these partitions, unless a start before has opened them. */
  function openDemoMarkets(own: readonly number[], nowMs: number): void {
    const [chain] = settings.chains
    if (!settings.demoMarkets || chain === undefined) return
    const maker = toAddress(chain.contracts.settlement)
    const nowSec = Math.floor(nowMs / 1_000)
    for (const market of demoMarkets(chain.chainId, maker, nowSec, settings.demoMarketsMore)) {
      if (thread.markets.has(market.id) || !own.includes(partitionOf(market.id, topology))) continue
      hear('OpenMarket', { market }, 0, undefined)
    }
  }

  return {
    start,
    connect(peer, port) {
      const holds = new OrderHolds(keep)
      claimed.add(holds)
      const options = { ...channelOptions(settings), forms: MARKET_FORMS }
      const channel = new Channel<ToldProtocol>(port, options, {
        heard(type, message, replyTo) {
          if (moving) {
            channel.reply(replyTo, MOVED)
            return
          }
          if (holds.hears(type)) {
            channel.reply(replyTo, holds.hear(type, message))
            return
          }
          if (readers.hears(type)) {
            channel.reply(replyTo, readers.hear(channel, type, message))
            return
          }
          // Before it can rest, so that there is no moment in which it is not held.
          const refused = type === 'PlaceOrder' ? holds.placed(message as Placed) : undefined
          if (refused === undefined) hear(type, message, replyTo, channel)
          else channel.reply(replyTo, refused)
        },
        closed() {
          // The sessions of a front end with it; when this thread itself stops, the front still lives.
          if (!stopped) orphans.add(holds.takeAll())
          claimed.delete(holds)
          channels.delete(channel)
          if (peer === SETTLEMENT_THREAD) settlement.gone(systemClock.nowMs())
          readers.delete(channel)
          logReaders.delete(channel)
        },
        dropped: () => kit.links.dropped(peer),
      })
      channels.add(channel)
      if (peer === SETTLEMENT_THREAD) settlement.linked()
      if (logReaderNames.has(peer)) logReaders.add(channel)
      // Every other thread gives commands, and follows nothing.
      else if (isFrontThread(peer)) readers.add(channel)
    },
    health: () => troubles().join('; '),
    metrics: kit.metrics,
    drain() {
      draining ??= isNode(settings) ? handOver() : drained()
      return draining
    },
    async stop() {
      stopped = true
      kit.quiet()
      await drained()
      for (const channel of channels) channel.close()
      await events.close()
    },
  }
}
