/** The links of a front to the market threads: their events, and whether the board has all of them. */

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
import type { Hearers, LinkPorts, LossReports } from './link-ports.ts'

/** Messages of a market thread. */
type FollowedProtocol = MarketFollowerProtocol & MovingProtocol

/** How long requests wait for a thread that moves to another machine. */
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
  /** In a cluster, a market's thread may be moving to another machine. */
  const patient = isNode(settings) ? makePatientRef(plain, patienceOf(settings)) : undefined
  const thread = patient ?? plain
  const isHere = (marketId: MarketId) => threadOfMarket(marketId, topology) === index
  const load = makeBoardLoad(board, plain, isHere, { woken })
  /** A log in a database server may be taken over; one in files belongs to this process. */
  const watch = settings.eventLog.url === '' ? undefined : makeOwnerWatch(plain, monotonicMs)
  const isConfirmed = (): boolean => watch?.isConfirmed() ?? true
  const isCurrent = (): boolean => load.isLoaded() && isConfirmed()
  const { deadlineMs } = settings.front
  const handOver = makeHandOver({ deadlineMs, nowMs: monotonicMs }, isCurrent)

  const hearers: Hearers<FollowedProtocol> = {
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
          heard: (type, message) => hearers[type as keyof FollowedProtocol](message as never),
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

  return { thread, load, watch, handOver, isConfirmed, isCurrent, follow }
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
  /** In a cluster, a front follows only partitions that its clients use. */
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
    /** Functions that take the port of each market thread. */
    followers: links.map(({ follow }) => follow),
    /** Returns whether every market thread was loaded at least once. */
    isWhole: () => links.every(({ load }) => load.isKnown()),
    /**
     * Returns whether the thread of this market, or every market thread, is loaded and confirmed as the owner of its
     * log.
     */
    isCurrent: (marketId?: MarketId) =>
      marketId === undefined
        ? links.every((link) => link.isCurrent())
        : linkOf(marketId)?.isCurrent() === true,
    /**
     * Returns why the board may be stale or incomplete; empty if it is not. Threads that are handed over do not count:
     * their orders wait, and reads of their markets are marked as stale.
     */
    why(): string {
      const settled = links.filter(({ handOver }) => !handOver.isUnderWay())
      const loading = settled.filter(({ load }) => !load.isLoaded()).length
      if (loading > 0) return `${loading} threads are loading`
      const unconfirmed = settled.filter(({ isConfirmed }) => !isConfirmed()).length
      if (unconfirmed === 0) return ''
      return `${unconfirmed} market threads have not confirmed for a second that they own their log`
    },
    /** Undefined if every partition is always followed. */
    use,
    /** Returns the number of followed partitions. */
    followed: () => links.reduce((left, { load }) => left - load.dozing(), topology.partitions),
    /** Loads lost events of a market or its partition again; undefined if nothing is missing. */
    heardAll: (marketId: MarketId): Promise<void> | undefined =>
      use?.need(marketId) ?? linkOf(marketId)?.load.reloaded(),
    /** Resolves when a market thread was loaded for the first time; undefined after that. */
    known: (index: number) => links[index]?.load.untilKnown(),
    closeMarkets(): void {
      clearInterval(confirming)
      for (const { thread } of links) thread.close()
    },
  }
}
