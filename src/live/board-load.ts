/**
 * Brings the markets of one market thread onto the board and keeps them there: all of them, part by
 * part, when the thread is linked and whenever something that it told is lost; and between that by its
 * events.
 *
 * Partitions of the thread that nobody here needs may doze: of these the thread tells only which markets open
 * and close. One that is needed again is woken: the thread tells all of it from then on, and its markets are loaded
 * as they are after a loss.
 *
 * A part is an answer, and what comes of an answer runs after all that came with it in the same batch
 * was heard. So what was heard of that batch is taken in once more after the part: what the part holds
 * already changes nothing, and what came after it is not passed over.
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

/** The pause before a thread that could not tell what it has is asked again. */
const LOAD_AGAIN_MS = 100

export type BoardLoad = {
  /** The thread was linked. */
  begin(): void
  follow(events: readonly MarketEvent[]): void
  /** What happened in partitions that doze. */
  followFacts(events: readonly MarketFact[]): void
  forget(marketIds: readonly MarketId[]): void
  /** Something that the thread told is missing from here on. */
  lost(): void
  /** The thread is gone; what is known of its markets stays as it is until it comes back. */
  closed(): void
  /** Nobody needs these partitions now. Said again where the thread may not have heard it. */
  doze(partitions: readonly number[]): void
  /** This partition is needed: resolves when its markets are on the board as they are; undefined where they are. */
  wake(partition: number): Promise<void> | undefined
  /** How many of its partitions doze. */
  dozing(): number
  /** Whether its markets are on the board as they are now, or doze; and whether they ever were. */
  isLoaded(): boolean
  isKnown(): boolean
  /** Resolves when what was lost is loaded anew; undefined where nothing is lost. */
  reloaded(): Promise<void> | undefined
  /** Resolves when its markets are on the board for the first time; undefined once they were. */
  untilKnown(): Promise<void> | undefined
}

export function makeBoardLoad(
  board: MarketBoard,
  thread: Pick<Ref<MarketThreadProtocol & DozeProtocol>, 'ask' | 'isOpen' | 'heardSentAtMs'>,
  /** Whether a market is one of this thread. */
  isOurs: (marketId: MarketId) => boolean,
  /** Partitions were woken, and are on the board as they are. */
  woken: () => void = () => {},
): BoardLoad {
  let loading = false
  /** Something was lost, or the thread was linked anew, since the load under way began. */
  let again = false
  let loaded = false
  let known = false
  const knowing = Promise.withResolvers<void>()
  let loss: PromiseWithResolvers<void> | undefined
  /** Partitions that nobody needs; of them, those of which this link's thread has said that it knows. */
  const dozing = new Set<number>()
  const dozingThere = new Set<number>()
  /** Whether this link's thread has said that it can be told of them. */
  let canDoze = false
  /** Partitions that are needed and not on the board as they are. */
  const waking = new Map<number, PromiseWithResolvers<void>>()
  /** What was heard while a load is under way, of the last batch only. */
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
      // Too busy, or its log is away. When the thread is gone, its next one begins a load.
      if (!thread.isOpen) break
      await new Promise((resolve) => void setTimeout(resolve, LOAD_AGAIN_MS).unref())
      again ||= isWhole
    }
    loading = false
    heard = []
  }

  /**
   * Loads all markets, or those of the partitions that are to wake. Answers whether all of them were told, and
   * nothing was lost meanwhile.
   */
  async function loadMarkets(isWhole: boolean): Promise<boolean> {
    const before = isWhole ? new Set(board.markets.keys()) : undefined
    const there = new Set<MarketId>()
    const toWake = [...waking]
    const partitions = toWake.map(([partition]) => partition)
    // What happens from here on is told, so nothing is missing between that and what is loaded.
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
    // Those that cannot be told at present are asked for again: what is known of them may be old.
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

  /** What a thread does not have any more went while this front did not hear it. */
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
        // Only a market that is resolved is let go of, so it became that without our hearing it.
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

  /** Tells the thread of those that it may not know to doze. */
  async function sayDozing(): Promise<void> {
    const partitions = [...dozing].filter((partition) => !dozingThere.has(partition))
    if (partitions.length === 0 || !canDoze) return
    if (isUnanswered(await thread.ask('Doze', { partitions }))) return
    for (const partition of partitions) if (dozing.has(partition)) dozingThere.add(partition)
  }

  /** Answers whether it was heard. A thread that knows of none that dozes tells all. */
  async function sayAwake(partitions: readonly number[]): Promise<boolean> {
    if (partitions.length === 0 || !canDoze) return true
    return !isUnanswered(await thread.ask('Wake', { partitions }))
  }

  return {
    begin() {
      // A thread tells all to whom it is linked anew.
      dozingThere.clear()
      canDoze = false
      begin()
    },
    follow(events) {
      const isWhole = board.follow(events)
      // What is missing of a market while its thread is loaded is in the part that it will come with.
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

/** The last that can be told of it: it has no orders, and at least this one change more. */
function resolvedView({ market, seq, updatedAtMs }: ShownMarket): MarketView {
  return { market, seq: seq + 1, closed: 'resolved', updatedAtMs, bids: [[], []], asks: [[], []] }
}
