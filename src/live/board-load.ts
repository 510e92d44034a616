/**
 * Loads the markets of one market thread onto the board (a front's memory of the markets) and keeps them current. All
 * markets are loaded, part by part, when the front connects to the thread or loses a message. Between loads, events
 * keep the markets current.
 *
 * A partition that no client of this front uses is idle: the thread reports only the opening and closing of its
 * markets. When a client uses an idle partition, the partition becomes active: its markets are loaded again, and the
 * thread sends all their events.
 *
 * The thread answers a load in parts. If messages and a part arrive in one batch, the front handles the messages first,
 * even those that the thread sent after the part. Such a message has no effect if its market is missing or outdated on
 * the board. So after the part, all messages of the batch are applied again. Messages that the part already includes
 * change nothing.
 */

import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent, MarketFact } from '#domain/market-event.ts'
import { isRejection } from '#domain/rejection.ts'
import type { MarketView } from '#protocol/market.ts'
import type { DozeProtocol } from '#protocol/market-followers.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import { isUnanswered } from '#runtime/channel.ts'
import { type Clock, systemClock } from '#runtime/clock.ts'
import type { Ref } from '#runtime/ref.ts'
import type { MarketBoard, ShownMarket } from './market-board.ts'

/** Pause before a failed load is retried. */
const LOAD_AGAIN_MS = 100

export type BoardLoad = {
  /** Starts a load. Call it when the thread was linked. */
  begin(): void
  follow(events: readonly MarketEvent[]): void
  /** Applies openings and closings in idle partitions. */
  followFacts(events: readonly MarketFact[]): void
  forget(marketIds: readonly MarketId[]): void
  /** Reports that a message of the thread was lost. */
  lost(): void
  /** Reports that the thread is gone. Its markets stay on the board unchanged until the thread is linked again. */
  closed(): void
  /**
   * Makes these partitions idle and notifies the thread. The thread is notified again after each full load, because it
   * may have missed the earlier message.
   */
  doze(partitions: readonly number[]): void
  /**
   * Makes the partition active. Returns a promise that resolves when its markets are current on the board; undefined if
   * its markets are current already.
   */
  wake(partition: number): Promise<void> | undefined
  /** Number of idle partitions. */
  dozing(): number
  /** Returns whether the markets of the thread are current on the board, except those in idle partitions. */
  isLoaded(): boolean
  isKnown(): boolean
  /**
   * Returns a promise that resolves when the load after a lost message is complete; undefined if no such load is
   * pending.
   */
  reloaded(): Promise<void> | undefined
  /**
   * Returns a promise that resolves when the thread's markets are on the board for the first time; undefined after
   * that.
   */
  untilKnown(): Promise<void> | undefined
}

type FollowedThread = Pick<
  Ref<MarketThreadProtocol & DozeProtocol>,
  'ask' | 'isOpen' | 'peerSentAtMs'
>

/** Tracks the partitions that no client uses, and those that are becoming active again. */
function makeIdlePartitions(thread: FollowedThread) {
  /** `dozing`: the idle partitions. `dozingThere`: those that the linked thread has acknowledged as idle. */
  const dozing = new Set<number>()
  const dozingThere = new Set<number>()
  /** True if the linked thread supports idle partitions. */
  let canDoze = false
  /** Partitions in use whose markets are not yet current on the board. */
  const waking = new Map<number, PromiseWithResolvers<void>>()

  /** Sends `Doze` for partitions that the thread may not know to be idle. */
  async function sayDozing(): Promise<void> {
    const partitions = [...dozing].filter((partition) => !dozingThere.has(partition))
    if (partitions.length === 0 || !canDoze) return
    if (isUnanswered(await thread.ask('Doze', { partitions }))) return
    for (const partition of partitions) if (dozing.has(partition)) dozingThere.add(partition)
  }

  /**
   * Asks the thread to resume sending all events of these partitions. Returns whether the thread acknowledged
   * the request. A thread of an older version has no idle partitions and always sends all events, so it needs
   * no request.
   */
  async function sayAwake(partitions: readonly number[]): Promise<boolean> {
    if (partitions.length === 0 || !canDoze) return true
    return !isUnanswered(await thread.ask('Wake', { partitions }))
  }

  return {
    waking,
    sayDozing,
    sayAwake,
    count: () => dozing.size,
    supported(can: boolean): void {
      canDoze = can
    },
    /**
     * Forgets which partitions the thread has acknowledged as idle. Call this when the thread was linked: a newly
     * linked thread sends all events until it is notified again.
     */
    linked(): void {
      dozingThere.clear()
      canDoze = false
    },
    doze(partitions: readonly number[]): void {
      for (const partition of partitions) if (!waking.has(partition)) dozing.add(partition)
      void sayDozing()
    },
    /** Marks these partitions as active and resolves their promises. Returns false if there are none. */
    woken(partitions: readonly (readonly [number, PromiseWithResolvers<void>])[]): boolean {
      for (const [partition, wakes] of partitions) {
        waking.delete(partition)
        wakes.resolve()
      }
      return partitions.length > 0
    },
    /** Ends the idle state of a partition. Returns whether the partition was idle and must therefore be loaded. */
    wake(partition: number): boolean {
      if (!dozing.delete(partition)) return false
      dozingThere.delete(partition)
      waking.set(partition, Promise.withResolvers())
      return true
    },
  }
}

/**
 * Remembers the messages of the newest batch that arrived during a load. If a part of the load is in the same batch,
 * these messages are applied again after the part.
 */
function makeLastBatch(thread: Pick<FollowedThread, 'peerSentAtMs'>) {
  let applied: (() => void)[] = []
  let sentAtMs = 0
  return {
    add(act: () => void): void {
      if (thread.peerSentAtMs !== sentAtMs) applied = []
      sentAtMs = thread.peerSentAtMs
      applied.push(act)
    },
    repeat(): void {
      if (thread.peerSentAtMs === sentAtMs) for (const act of applied) act()
    },
    clear(): void {
      applied = []
    },
  }
}

/**
 * Tracks the progress of the load: whether the thread's markets are on the board, and whether a message was
 * lost.
 */
function makeProgress() {
  let loaded = false
  let known = false
  const knowing = Promise.withResolvers<void>()
  let loss: PromiseWithResolvers<void> | undefined
  return {
    began(): void {
      loaded = false
    },
    loaded(): void {
      loaded = true
      known = true
      knowing.resolve()
      loss?.resolve()
      loss = undefined
    },
    lost(): void {
      loss ??= Promise.withResolvers<void>()
    },
    status: {
      isLoaded: () => loaded,
      isKnown: () => known,
      reloaded: () => loss?.promise,
      untilKnown: () => (known ? undefined : knowing.promise),
    },
  }
}

type Part = MarketThreadProtocol['Markets']['answers']

/**
 * Requests the markets of these partitions, or of all partitions, part by part. Returns whether the thread left out
 * markets of an unavailable partition. Returns undefined if the thread did not answer or rejected the request, or if
 * `take` refused a part.
 */
async function loadParts(
  thread: FollowedThread,
  partitions: readonly number[] | undefined,
  take: (part: Part) => boolean,
): Promise<boolean | undefined> {
  let after: MarketId | undefined
  for (;;) {
    const part = await thread.ask('Markets', {
      ...(after === undefined ? {} : { after }),
      ...(partitions === undefined ? {} : { partitions }),
    })
    // The protocol declares no rejection for this request, but a thread rejects it if the thread is full or its log is
    // unavailable.
    if (isUnanswered(part) || isRejection(part) || !take(part)) return undefined
    if (!part.more) return part.away
    after = part.views.at(-1)?.market.id
  }
}

type BoardLoadPorts = {
  /** Called when partitions have become active, and their markets are current on the board. */
  readonly woken?: () => void
  readonly after?: Clock['after']
}

/** Creates the `BoardLoad` of one market thread. `isOurs` returns whether a market belongs to this thread. */
export function makeBoardLoad(
  board: MarketBoard,
  thread: FollowedThread,
  isOurs: (marketId: MarketId) => boolean,
  ports: BoardLoadPorts = {},
): BoardLoad {
  const { woken = () => {}, after = systemClock.after } = ports
  let loading = false
  /** True if a message was lost, or the thread was linked again, since the current load began. */
  let again = false
  const progress = makeProgress()
  const idle = makeIdlePartitions(thread)
  const batch = makeLastBatch(thread)

  function begin(): void {
    progress.began()
    again = true
    if (!loading) void load()
  }

  async function load(): Promise<void> {
    loading = true
    while (again || idle.waking.size > 0) {
      const isWhole = again
      again = false
      if ((await loadMarkets(isWhole)) || again) continue
      // The thread is busy or its log is unavailable: wait, then load again. If the thread is gone, stop. `begin`
      // starts a new load when the thread is linked again.
      if (!thread.isOpen) break
      await new Promise<void>((resolve) => void after(LOAD_AGAIN_MS, resolve))
      again ||= isWhole
    }
    loading = false
    batch.clear()
  }

  /** Loads all markets, or those of partitions that become active. Returns false if the load must be repeated. */
  async function loadMarkets(isWhole: boolean): Promise<boolean> {
    const before = isWhole ? new Set(board.markets.keys()) : undefined
    const there = new Set<MarketId>()
    const toWake = [...idle.waking]
    const partitions = toWake.map(([partition]) => partition)
    // Send `Wake` before the load. The thread then sends all events, so no change after the load is missed.
    if (!(await idle.sayAwake(partitions)) || again) return false
    const away = await loadParts(thread, isWhole ? undefined : partitions, (part) => {
      if (again) return false
      idle.supported(part.dozes === true)
      for (const view of part.views) {
        board.load(view, !isWhole)
        there.add(view.market.id)
      }
      batch.repeat()
      return true
    })
    if (away === undefined) return false
    if (!away && idle.woken(toWake)) woken()
    // Stop here if only some partitions were loaded. If some of their markets are unavailable, return false to repeat
    // the load, because the board may show an outdated state of these markets.
    if (before === undefined) return !away
    forgetOthers(board, isOurs, { before, there, away })
    progress.loaded()
    void idle.sayDozing()
    return true
  }

  function lost(): void {
    progress.lost()
    begin()
  }

  /**
   * Applies a message. During a load, also remembers the message. If a part of the load arrives in the same
   * batch, the message is applied again after that part.
   */
  function take(act: () => void): void {
    act()
    if (loading) batch.add(act)
  }

  return {
    begin() {
      idle.linked()
      begin()
    },
    follow(events) {
      const isWhole = board.follow(events)
      // During a load, missing events do not require another load, because the next part contains their changes.
      if (!isWhole && !loading) lost()
      if (loading) batch.add(() => void board.follow(events))
    },
    followFacts: (events) => take(() => board.followFacts(events)),
    forget: (marketIds) => take(() => board.forget(marketIds)),
    lost,
    closed: progress.began,
    doze: idle.doze,
    wake(partition) {
      if (idle.wake(partition) && !loading) void load()
      return idle.waking.get(partition)?.promise
    },
    dozing: idle.count,
    ...progress.status,
  }
}

type Loaded = {
  /** Markets on the board when the load began. */
  readonly before: ReadonlySet<MarketId>
  /** Markets that the thread returned. */
  readonly there: ReadonlySet<MarketId>
  /**
   * True if some markets of the thread were unavailable. Such markets may still exist although they are missing from
   * `there`.
   */
  readonly away: boolean
}

/** Closes and removes markets that the thread unloaded while this front did not receive the thread's messages. */
function forgetOthers(
  board: MarketBoard,
  isOurs: (marketId: MarketId) => boolean,
  { before, there, away }: Loaded,
): void {
  const gone: MarketId[] = []
  for (const [marketId, shown] of board.markets) {
    if (there.has(marketId) || !before.has(marketId) || !isOurs(marketId)) continue
    if (shown.closed !== 'resolved') {
      if (away) continue
      // The thread no longer has this market. It unloads only resolved markets, so this one was resolved.
      board.load(resolvedView(shown))
    }
    gone.push(marketId)
  }
  board.forget(gone)
}

/**
 * Returns the final view of a resolved market, without orders. Its sequence number is one higher, because at least one
 * change was missed.
 */
function resolvedView({ market, seq, updatedAtMs }: ShownMarket): MarketView {
  return { market, seq: seq + 1, closed: 'resolved', updatedAtMs, bids: [[], []], asks: [[], []] }
}
