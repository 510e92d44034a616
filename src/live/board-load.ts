/**
 * Brings the markets of one market thread onto the board and keeps them there: all of them, part by
 * part, when the thread is linked and whenever something that it told is lost; and between that by its
 * events.
 *
 * A part is an answer, and what comes of an answer runs after all that came with it in the same batch
 * was heard. So what was heard of that batch is taken in once more after the part: what the part holds
 * already changes nothing, and what came after it is not passed over.
 */

import type { MarketView } from '#actors/market/state.ts'
import type { MarketThreadProtocol } from '#actors/market-thread.ts'
import type { MarketId } from '#domain/ids.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { isRejection } from '#domain/rejection.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Ref } from '#runtime/ref.ts'
import type { MarketBoard, ShownMarket } from './market-board.ts'

/** The pause before a thread that could not tell what it has is asked again. */
const LOAD_AGAIN_MS = 100

type BoardLoad = {
  /** The thread was linked. */
  begin(): void
  follow(events: readonly MarketEvent[]): void
  forget(marketIds: readonly MarketId[]): void
  /** Something that the thread told is missing from here on. */
  lost(): void
  /** The thread is gone; what is known of its markets stays as it is until it comes back. */
  closed(): void
  /** Whether its markets are on the board as they are now, and whether they ever were. */
  isLoaded(): boolean
  isKnown(): boolean
  /** Resolves when what was lost is loaded anew; undefined where nothing is lost. */
  reloaded(): Promise<void> | undefined
  /** Resolves when its markets are on the board for the first time; undefined once they were. */
  untilKnown(): Promise<void> | undefined
}

export function makeBoardLoad(
  board: MarketBoard,
  thread: Pick<Ref<MarketThreadProtocol>, 'ask' | 'isOpen' | 'heardSentAtMs'>,
  /** Whether a market is one of this thread. */
  isOurs: (marketId: MarketId) => boolean,
): BoardLoad {
  let loading = false
  /** Something was lost, or the thread was linked anew, since the load under way began. */
  let again = false
  let loaded = false
  let known = false
  const knowing = Promise.withResolvers<void>()
  let loss: PromiseWithResolvers<void> | undefined
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
    while (again) {
      again = false
      if ((await loadAll()) || again) continue
      // Too busy, or its log is away. When the thread is gone, its next one begins a load.
      if (!thread.isOpen) break
      await new Promise((resolve) => void setTimeout(resolve, LOAD_AGAIN_MS).unref())
      again = true
    }
    loading = false
    heard = []
  }

  /** Answers whether all of them were told, and nothing was lost meanwhile. */
  async function loadAll(): Promise<boolean> {
    const before = new Set(board.markets.keys())
    const there = new Set<MarketId>()
    let away = false
    let after: MarketId | undefined
    for (let more = true; more; ) {
      const answer = await thread.ask('Markets', after === undefined ? {} : { after })
      if (again) return false
      // A rejection is not in the protocol's table: the thread is full, or its log is away.
      if (isUnanswered(answer) || isRejection(answer)) return false
      for (const view of answer.views) {
        board.load(view)
        there.add(view.market.id)
      }
      if (thread.heardSentAtMs === heardSentAtMs) for (const hear of heard) hear()
      more = answer.more
      away = answer.away
      after = answer.views.at(-1)?.market.id
    }
    forgetOthers(before, there, away)
    loaded = true
    known = true
    knowing.resolve()
    loss?.resolve()
    loss = undefined
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

  return {
    begin,
    follow(events) {
      const isWhole = board.follow(events)
      // What is missing of a market while its thread is loaded is in the part that it will come with.
      if (!isWhole && !loading) lost()
      hear(() => void board.follow(events))
    },
    forget(marketIds) {
      board.forget(marketIds)
      hear(() => board.forget(marketIds))
    },
    lost,
    closed() {
      loaded = false
    },
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
