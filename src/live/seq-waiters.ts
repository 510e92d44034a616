/**
 * Readers that want to see what they did, on any front: the answer of a write tells the market's `seq`, a
 * read names it as `minSeq`, and waits here until this front has heard of it. What does not come in time,
 * or when too many wait, is a 503 that helps to be tried again.
 */

import type { MarketId } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { RequestContext } from '#http/request-context.ts'
import type { Clock } from '#runtime/clock.ts'
import type { MarketBoard, ShownMarket } from './market-board.ts'

/** A front is a few milliseconds behind; one that is further is not waited for. */
const WAIT_MS_MAX = 2_000
/** The answer must leave before the deadline of its request. */
const MARGIN_MS = 50
const WAITERS_MAX = 1_000

type Waiter = { readonly minSeq: number; readonly done: (reached: boolean) => void }

export type SeqWaiters = {
  /** Undefined at once when the board is as far, or when nothing is asked for. */
  until(
    marketId: MarketId,
    minSeq: number | undefined,
    context: RequestContext,
  ): undefined | Promise<Rejection | undefined>
  /** The board has taken something in. */
  advanced(shown: ShownMarket): void
}

export function makeSeqWaiters(board: () => MarketBoard, clock: Clock): SeqWaiters {
  const waiting = new Map<MarketId, Set<Waiter>>()
  let count = 0

  async function wait(
    marketId: MarketId,
    minSeq: number,
    { deadlineAtMs }: RequestContext,
  ): Promise<Rejection | undefined> {
    if (count >= WAITERS_MAX) return reject('SEQ_NOT_REACHED')
    const { promise, resolve: done } = Promise.withResolvers<boolean>()
    const waiter = { minSeq, done }
    const leftMs = deadlineAtMs - clock.nowMs() - MARGIN_MS
    const cancel = clock.after(Math.max(0, Math.min(WAIT_MS_MAX, leftMs)), () => done(false))
    const ofMarket = waiting.get(marketId) ?? new Set()
    waiting.set(marketId, ofMarket.add(waiter))
    count++
    const reached = await promise
    cancel()
    count--
    ofMarket.delete(waiter)
    if (ofMarket.size === 0) waiting.delete(marketId)
    return reached ? undefined : reject('SEQ_NOT_REACHED')
  }

  return {
    until(marketId, minSeq, context) {
      if (minSeq === undefined) return undefined
      const seq = board().markets.get(marketId)?.seq ?? 0
      return seq >= minSeq ? undefined : wait(marketId, minSeq, context)
    },
    advanced({ market, seq }) {
      if (count === 0) return
      for (const waiter of waiting.get(market.id) ?? []) {
        if (seq >= waiter.minSeq) waiter.done(true)
      }
    },
  }
}
