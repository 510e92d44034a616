/**
 * Loads the markets of one market thread onto the board and keeps them current. All markets are loaded, part by part,
 * when the thread is linked or a message is lost; events keep them current in between.
 *
 * Partitions that no client here uses are idle: the thread reports only which of their markets open and close. When one
 * is used again it becomes active: the thread sends all its events, and its markets are loaded again.
 *
 * A part arrives as an answer, which is handled after all messages of the same batch. So the messages of that batch are
 * applied again after the part: those that the part contains change nothing, and later ones are not lost.
 */

import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent, MarketFact } from '#domain/market-event.ts'
import { isRejection } from '#domain/rejection.ts'
import type { MarketView } from '#protocol/market.ts'
import type { DozeProtocol } from '#protocol/market-followers.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'
import type { MarketBoard, ShownMarket } from './market-board.ts'

/** Pause before a failed load is retried. */
const LOAD_AGAIN_MS = 100

export type BoardLoad = {
  /** The thread was linked. */
  begin(): void
  follow(events: readonly MarketEvent[]): void
  /** Applies openings and closings in idle partitions. */
  followFacts(events: readonly MarketFact[]): void
  forget(marketIds: readonly MarketId[]): void
  /** Reports that a message of the thread was lost. */
  lost(): void
  /** Reports that the thread is gone; its markets stay as they are until it is linked again. */
  closed(): void
  /** Makes these partitions idle; repeated if the thread may not know. */
  doze(partitions: readonly number[]): void
  /** Makes the partition active. Resolves when its markets are current on the board; undefined if they are already. */
  wake(partition: number): Promise<void> | undefined
  /** Number of idle partitions. */
  dozing(): number
  /** True if its markets are current on the board, or idle. */
  isLoaded(): boolean
  isKnown(): boolean
  /** Resolves when lost state is loaded again; undefined if nothing is lost. */
  reloaded(): Promise<void> | undefined
  /** Resolves when its markets are on the board for the first time; undefined after that. */
  untilKnown(): Promise<void> | undefined
}

export function makeBoardLoad(
  board: MarketBoard,
  thread: Pick<Ref<MarketThreadProtocol & DozeProtocol>, 'ask' | 'isOpen' | 'heardSentAtMs'>,
  /** Returns whether the market belongs to this thread. */
  isOurs: (marketId: MarketId) => boolean,
  /** Called when partitions became active and are current on the board. */
  woken: () => void = () => {},
): BoardLoad {
  let loading = false
  /** True if a message was lost, or the thread was linked again, since the current load began. */
  let again = false
  let loaded = false
  let known = false
  const knowing = Promise.withResolvers<void>()
  let loss: PromiseWithResolvers<void> | undefined
  /** Idle partitions, and those that the linked thread has acknowledged as idle. */
  const dozing = new Set<number>()
  const dozingThere = new Set<number>()
  /** True if the linked thread supports idle partitions. */
  let canDoze = false
  /** Partitions that are in use and not current on the board. */
  const waking = new Map<number, PromiseWithResolvers<void>>()
  /** Messages of the last batch received during a load. */
  let heard: (() => void)[] = []
  let heardSentAtMs = 0

  function begin(): void {
    loaded = false
    again = true
    if (!loading) void load()
  }

  async function load(): Promise<void> {
    loading = true
    while (again || waking.size > 0) {
      const isWhole = again
      again = false
      if ((await loadMarkets(isWhole)) || again) continue
      // The thread is busy, or its log is away. If the thread is gone, the next link starts a load.
      if (!thread.isOpen) break
      await new Promise((resolve) => void setTimeout(resolve, LOAD_AGAIN_MS).unref())
      again ||= isWhole
    }
    loading = false
    heard = []
  }

  /**
   * Loads all markets, or those of partitions that become active. Returns whether all were received and nothing was
   * lost meanwhile.
   */
  async function loadMarkets(isWhole: boolean): Promise<boolean> {
    const before = isWhole ? new Set(board.markets.keys()) : undefined
    const there = new Set<MarketId>()
    const toWake = [...waking]
    const partitions = toWake.map(([partition]) => partition)
    // From here on all events are sent, so nothing is missing between them and the load.
    if (!(await sayAwake(partitions)) || again) return false
    let away = false
    let after: MarketId | undefined
    for (let more = true; more; ) {
      const answer = await thread.ask('Markets', {
        ...(after === undefined ? {} : { after }),
        ...(isWhole ? {} : { partitions }),
      })
      if (again) return false
      // A rejection is not in the protocol's table: the thread is full, or its log is away.
      if (isUnanswered(answer) || isRejection(answer)) return false
      canDoze = answer.dozes === true
      for (const view of answer.views) {
        board.load(view, !isWhole)
        there.add(view.market.id)
      }
      if (thread.heardSentAtMs === heardSentAtMs) for (const hear of heard) hear()
      more = answer.more
      away = answer.away
      after = answer.views.at(-1)?.market.id
    }
    if (!away) {
      for (const [partition, wakes] of toWake) {
        waking.delete(partition)
        wakes.resolve()
      }
      if (partitions.length > 0) woken()
    }
    // Unavailable markets are requested again: their state here may be old.
    if (before === undefined) return !away
    forgetOthers(before, there, away)
    loaded = true
    known = true
    knowing.resolve()
    loss?.resolve()
    loss = undefined
    void sayDozing()
    return true
  }

  /** Closes markets that the thread unloaded while this front missed it. */
  function forgetOthers(
    before: ReadonlySet<MarketId>,
    there: ReadonlySet<MarketId>,
    away: boolean,
  ): void {
    const gone: MarketId[] = []
    for (const [marketId, shown] of board.markets) {
      if (there.has(marketId) || !before.has(marketId) || !isOurs(marketId)) continue
      if (shown.closed !== 'resolved') {
        if (away) continue
        // Only resolved markets are unloaded, so this one was resolved meanwhile.
        board.load(resolvedView(shown))
      }
      gone.push(marketId)
    }
    board.forget(gone)
  }

  function lost(): void {
    loss ??= Promise.withResolvers<void>()
    begin()
  }

  function hear(act: () => void): void {
    if (!loading) return
    if (thread.heardSentAtMs !== heardSentAtMs) heard = []
    heardSentAtMs = thread.heardSentAtMs
    heard.push(act)
  }

  /** Sends `Doze` for partitions that the thread may not know to be idle. */
  async function sayDozing(): Promise<void> {
    const partitions = [...dozing].filter((partition) => !dozingThere.has(partition))
    if (partitions.length === 0 || !canDoze) return
    if (isUnanswered(await thread.ask('Doze', { partitions }))) return
    for (const partition of partitions) if (dozing.has(partition)) dozingThere.add(partition)
  }

  /** Returns whether the thread acknowledged. A thread without idle partitions sends everything. */
  async function sayAwake(partitions: readonly number[]): Promise<boolean> {
    if (partitions.length === 0 || !canDoze) return true
    return !isUnanswered(await thread.ask('Wake', { partitions }))
  }

  return {
    begin() {
      // A newly linked thread sends everything.
      dozingThere.clear()
      canDoze = false
      begin()
    },
    follow(events) {
      const isWhole = board.follow(events)
      // During a load, the next part contains what is missing.
      if (!isWhole && !loading) lost()
      hear(() => void board.follow(events))
    },
    followFacts(events) {
      board.followFacts(events)
      hear(() => board.followFacts(events))
    },
    forget(marketIds) {
      board.forget(marketIds)
      hear(() => board.forget(marketIds))
    },
    lost,
    closed() {
      loaded = false
    },
    doze(partitions) {
      for (const partition of partitions) if (!waking.has(partition)) dozing.add(partition)
      void sayDozing()
    },
    wake(partition) {
      if (dozing.delete(partition)) {
        dozingThere.delete(partition)
        waking.set(partition, Promise.withResolvers())
        if (!loading) void load()
      }
      return waking.get(partition)?.promise
    },
    dozing: () => dozing.size,
    isLoaded: () => loaded,
    isKnown: () => known,
    reloaded: () => loss?.promise,
    untilKnown: () => (known ? undefined : knowing.promise),
  }
}

/** Final view of a market: without orders, and with at least one more change. */
function resolvedView({ market, seq, updatedAtMs }: ShownMarket): MarketView {
  return { market, seq: seq + 1, closed: 'resolved', updatedAtMs, bids: [[], []], asks: [[], []] }
}
