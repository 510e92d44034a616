/**
 * Lets readers see their own writes on any front. The answer to a write has the market's `seq`. A read with this number
 * as `minSeq` waits here until this front has received the change with this number. A wait ends after
 * `SEQ_WAIT_SEC_MAX` seconds at the latest, and before the request's deadline. If the change has not arrived by then,
 * or if `WAITERS_MAX` reads already wait, the answer is a 503. If `WAITERS_PER_ADDRESS_MAX` reads from the client's
 * range of IP addresses already wait, the answer is a 429. The client can retry after either answer. Reads of an idle
 * market wait in the same way until the market is active.
 */

import type { MarketId } from '#domain/ids.ts'
import { SEQ_WAIT_SEC_MAX, WAITING_SITE_TIMES } from '#domain/limits.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import { makeRangeCounts } from '#http/range-counts.ts'
import type { RequestContext } from '#http/request-context.ts'
import type { Clock } from '#runtime/clock.ts'
import type { MarketBoard, ShownMarket } from './market-board.ts'
import type { PartitionUse } from './partition-use.ts'

/** Milliseconds reserved for sending the answer, because the answer must be sent before the deadline of its request. */
const MARGIN_MS = 50
const WAITERS_MAX = 1_000
/**
 * Maximum number of waiters of one IPv4 address or IPv6 /64, so that one client cannot take all `WAITERS_MAX` places.
 * The maximum of an IPv6 /48 is `WAITING_SITE_TIMES` times as high.
 */
const WAITERS_PER_ADDRESS_MAX = 50

/** A waiting request, with its IP address if known. */
type Waiting = RequestContext & { readonly ip?: string | undefined }

const TOO_MANY = reject(
  'RATE_LIMITED',
  'minSeq',
  `too many requests of this IP address wait for minSeq (maximum ${WAITERS_PER_ADDRESS_MAX}): retry when one of them is ` +
    'answered',
)

type Waiter = { readonly minSeq: number; readonly done: () => void }

export type SeqWaiters = {
  /** Waits until the market is followed and the board has reached `minSeq`. Returns undefined if no wait is needed. */
  until(
    marketId: MarketId,
    minSeq: number | undefined,
    context: Waiting,
  ): undefined | Promise<Rejection | undefined>
  /** Waits until all of these markets are followed; returns undefined if they already are. */
  untilFollowed(
    marketIds: readonly MarketId[],
    context: Waiting,
  ): undefined | Promise<Rejection | undefined>
  /** Reports that idle markets are active now. */
  woken(): void
  /** Reports a change of the board. */
  advanced(shown: ShownMarket): void
}

/** Lets a limited number of requests wait, each until its deadline. */
function makeWaitingRoom(clock: Clock) {
  let count = 0
  const ranges = makeRangeCounts({
    perRangeMax: WAITERS_PER_ADDRESS_MAX,
    siteTimes: WAITING_SITE_TIMES,
  })

  /**
   * Resolves with true if `done` is called within `SEQ_WAIT_SEC_MAX` and before the deadline. Resolves with false if
   * `done` is not called in time, or if `WAITERS_MAX` requests already wait. Resolves with a rejection if
   * `WAITERS_PER_ADDRESS_MAX` requests from the client's range of IP addresses already wait.
   */
  async function inTime(
    { deadlineAtMs, ip = '' }: Waiting,
    hand: (done: () => void) => void,
  ): Promise<boolean | Rejection> {
    if (count >= WAITERS_MAX) return false
    if (ranges.isFull(ip)) return TOO_MANY
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const leftMs = deadlineAtMs - clock.nowMs() - MARGIN_MS
    const cancel = clock.after(Math.max(0, Math.min(SEQ_WAIT_SEC_MAX * 1_000, leftMs)), () =>
      resolve(false),
    )
    count++
    ranges.add(ip, 1)
    hand(() => resolve(true))
    const reached = await promise
    cancel()
    count--
    ranges.add(ip, -1)
    return reached
  }

  return { inTime, count: () => count }
}

export function makeSeqWaiters(
  board: () => MarketBoard,
  clock: Clock,
  /** Makes the partitions of idle markets active; undefined if this front always follows every market. */
  use?: Pick<PartitionUse, 'need' | 'needThese'>,
): SeqWaiters {
  const waiting = new Map<MarketId, Set<Waiter>>()
  /** Functions that check whether the idle markets of a waiting request are active. */
  const looking = new Set<() => void>()
  const { inTime, count } = makeWaitingRoom(clock)

  async function reach(
    marketId: MarketId,
    minSeq: number,
    context: Waiting,
  ): Promise<Rejection | undefined> {
    const ofMarket = waiting.get(marketId) ?? new Set()
    let waiter: Waiter | undefined
    const reached = await inTime(context, (done) => {
      waiter = { minSeq, done }
      waiting.set(marketId, ofMarket.add(waiter))
    })
    if (waiter !== undefined && ofMarket.delete(waiter) && ofMarket.size === 0) {
      waiting.delete(marketId)
    }
    if (isRejection(reached)) return reached
    return reached ? undefined : reject('SEQ_NOT_REACHED')
  }

  async function follow(
    marketIds: readonly MarketId[],
    context: Waiting,
  ): Promise<Rejection | undefined> {
    let look: (() => void) | undefined
    const followed = await inTime(context, (done) => {
      look = () => {
        if (use?.needThese(marketIds) !== false) done()
      }
      looking.add(look)
    })
    if (look !== undefined) looking.delete(look)
    if (isRejection(followed)) return followed
    return followed ? undefined : reject('OVERLOADED')
  }

  function untilReached(
    marketId: MarketId,
    minSeq: number | undefined,
    context: Waiting,
  ): undefined | Promise<Rejection | undefined> {
    if (minSeq === undefined) return undefined
    const seq = board().markets.get(marketId)?.seq ?? 0
    return seq >= minSeq ? undefined : reach(marketId, minSeq, context)
  }

  return {
    until(marketId, minSeq, context) {
      if (use?.need(marketId) === undefined) return untilReached(marketId, minSeq, context)
      return follow([marketId], context).then(
        (rejection) => rejection ?? untilReached(marketId, minSeq, context),
      )
    },
    untilFollowed(marketIds, context) {
      return use?.needThese(marketIds) === false ? follow(marketIds, context) : undefined
    },
    woken() {
      for (const look of looking) look()
    },
    advanced({ market, seq }) {
      if (count() === 0) return
      for (const waiter of waiting.get(market.id) ?? []) {
        if (seq >= waiter.minSeq) waiter.done()
      }
    },
  }
}
