/**
 * The links of a front to the market threads. They pass the threads’ events to the board, and report whether the board
 * is complete.
 */

import type { MessagePort } from 'node:worker_threads'
import type { Settings } from '#config/settings-schema.ts'
import { channelOptions, isNode, topologyOf } from '#config/thread-data.ts'
import { marketThreadName, partitionOf, threadOf, threadOfMarket } from '#config/topology.ts'
import type { MarketId } from '#domain/ids.ts'
import { CHANNEL_IN_FLIGHT_MAX } from '#domain/limits.ts'
import { makeBoardLoad } from '#live/board-load.ts'
import { makeHandOver } from '#live/hand-over.ts'
import { CONFIRM_EVERY_MS, makeOwnerWatch } from '#live/owner-watch.ts'
import { makePartitionUse, type PartitionUse } from '#live/partition-use.ts'
import { type MovingProtocol, makePatientRef } from '#live/patient-ref.ts'
import { readRows } from '#log/packed-event.ts'
import type {
  DozeProtocol,
  MarketFollowerProtocol,
  SessionsProtocol,
} from '#protocol/market-followers.ts'
import { MARKET_FORMS } from '#protocol/market-forms.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { Channel } from '#runtime/channel.ts'
import { monotonicMs } from '#runtime/clock.ts'
import { makeRef } from '#runtime/ref.ts'
import type { EventHandlers, LinkPorts, LossReports } from './link-ports.ts'

/** Messages that a market thread sends to a front. */
type FollowedProtocol = MarketFollowerProtocol & MovingProtocol

/**
 * Limits for requests to a thread that moves to another machine: maximum number of waiting requests, and their maximum
 * wait.
 */
export const patienceOf = (settings: Settings) => ({
  waitingMax: CHANNEL_IN_FLIGHT_MAX,
  deadlineMs: settings.front.deadlineMs,
})

type MarketPorts = Pick<LinkPorts, 'board' | 'late' | 'woken'>

/** Makes the link to one market thread. */
function linkMarket(
  settings: Settings,
  { board, late, woken }: MarketPorts,
  { lost, dropped }: LossReports,
  index: number,
) {
  const topology = topologyOf(settings)
  const plain = makeRef<MarketThreadProtocol & SessionsProtocol & DozeProtocol>()
  /**
   * In a cluster: makes requests wait while the market thread moves to another machine. Undefined outside a cluster.
   */
  const patient = isNode(settings) ? makePatientRef(plain, patienceOf(settings)) : undefined
  const thread = patient ?? plain
  const isHere = (marketId: MarketId) => threadOfMarket(marketId, topology) === index
  const load = makeBoardLoad(board, plain, isHere, { woken })
  /**
   * Asks the thread regularly whether it still owns its log. Undefined for a log in files, because no other node can
   * take over such a log.
   */
  const watch = settings.eventLog.url === '' ? undefined : makeOwnerWatch(plain, monotonicMs)
  const isConfirmed = (): boolean => watch?.isConfirmed() ?? true
  const isCurrent = (): boolean => load.isLoaded() && isConfirmed()
  const isReady = (): boolean => watch?.isReady() ?? true
  const { deadlineMs } = settings.front
  const handOver = makeHandOver({ deadlineMs, nowMs: monotonicMs }, isCurrent)

  const handlers: EventHandlers<FollowedProtocol> = {
    MarketEvents: ({ rows }) => load.follow(readRows(rows)),
    MarketFacts: ({ events }) => load.followFacts(events),
    MarketsReloaded({ views }) {
      for (const view of views) board.load(view)
    },
    MarketsGone: ({ marketIds }) => load.forget(marketIds),
    Moving() {
      patient?.moves()
      handOver.began()
    },
  }

  function follow(port: MessagePort): void {
    const peer = marketThreadName(index)
    thread.replace(
      new Channel(
        port,
        { ...channelOptions(settings), forms: MARKET_FORMS },
        {
          received: (type, message) => handlers[type as keyof FollowedProtocol](message as never),
          closed() {
            watch?.changed()
            load.closed()
          },
          lost() {
            lost(peer)
            load.lost()
          },
          missed: () => void late.heldSessions?.claim(index),
          dropped: dropped(peer),
        },
      ),
    )
    void late.heldSessions?.claim(index)
    watch?.changed()
    void watch?.ask()
    load.begin()
    handOver.linked()
  }

  return { thread, load, watch, handOver, isReady, isCurrent, follow }
}

export function linkMarkets(settings: Settings, ports: MarketPorts, losses: LossReports) {
  const topology = topologyOf(settings)
  const links = Array.from({ length: settings.markets.threads }, (_, index) =>
    linkMarket(settings, ports, losses, index),
  )
  const linkOf = (marketId: MarketId) => links[threadOfMarket(marketId, topology)]
  const confirming = setInterval(() => {
    for (const { watch } of links) void watch?.ask()
  }, CONFIRM_EVERY_MS)
  confirming.unref()
  const { dozeMs } = settings.cluster
  /**
   * Set only in a cluster: tracks which partitions the clients of this front use. The front follows only these
   * partitions.
   */
  const use = isNode(settings) && dozeMs > 0 ? usePartitions() : undefined

  function usePartitions(): PartitionUse {
    const { partitions } = topology
    return makePartitionUse({
      ...{ dozeMs, nowMs: monotonicMs },
      loads: Array.from({ length: partitions }, (_, each) => links[threadOf(each, topology)]!.load),
      partitionOf: (marketId) => partitionOf(marketId, topology),
      isShown: (marketId) => ports.board.markets.has(marketId),
      watched: () => ports.late.hub?.watched() ?? [],
    })
  }

  return {
    threads: links.map(({ thread }) => thread),
    /** For each market thread, the function that accepts the port to it. */
    followers: links.map(({ follow }) => follow),
    /** Returns whether the markets of every market thread were loaded on the board at least once. */
    isWhole: () => links.every(({ load }) => load.isKnown()),
    /**
     * Returns whether the market's thread is current: its markets are loaded on the board, and the thread is confirmed
     * as the owner of its log. Without a market, returns whether every market thread is current.
     */
    isCurrent: (marketId?: MarketId) =>
      marketId === undefined
        ? links.every((link) => link.isCurrent())
        : linkOf(marketId)?.isCurrent() === true,
    /**
     * Returns why the board may be incomplete or stale; empty if no reason is known. The board counts as stale if a
     * market thread has not confirmed for 5 s that it owns its log. A thread that is moving to another node is ignored:
     * orders to it wait, and reads of its markets are marked as stale.
     */
    why(): string {
      const settled = links.filter(({ handOver }) => !handOver.isUnderWay())
      const loading = settled.filter(({ load }) => !load.isLoaded()).length
      if (loading > 0) return `${loading} market threads are still loading their markets`
      const unconfirmed = settled.filter(({ isReady }) => !isReady()).length
      if (unconfirmed === 0) return ''
      return `${unconfirmed} market threads have not confirmed recently that they own their log`
    },
    /** Tracks the partitions that clients use; undefined if every partition is always followed. */
    use,
    /** Returns the number of followed partitions. */
    followed: () => links.reduce((left, { load }) => left - load.dozing(), topology.partitions),
    /**
     * Returns undefined if the market is current on the board. If its partition was idle, or events of its thread were
     * lost, returns a promise that resolves when the market is current again.
     */
    caughtUp: (marketId: MarketId): Promise<void> | undefined =>
      use?.need(marketId) ?? linkOf(marketId)?.load.reloaded(),
    /**
     * Returns a promise that resolves after the first load of a market thread's markets onto the board; undefined once
     * that load is complete.
     */
    known: (index: number) => links[index]?.load.untilKnown(),
    closeMarkets(): void {
      clearInterval(confirming)
      for (const { thread } of links) thread.close()
    },
  }
}
