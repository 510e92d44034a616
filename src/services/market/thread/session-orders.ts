/**
 * Cancel on disconnect, at a market thread: tracks which sessions are alive, and cancels the orders of ended sessions.
 * A session is alive while the front that claimed it is linked and has not ended the session. After a restart, a
 * session that no front claims within 5 s counts as ended.
 */

import type { OrderHash } from '#domain/ids.ts'
import type { SessionsProtocol } from '#protocol/market-followers.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import type { SessionIndex } from '../held.ts'
import { SessionEnds } from '../host/session-ends.ts'
import type { Commands } from './commands.ts'

/**
 * Time after a restart in which fronts can claim the sessions that the log names. To claim a session is to report it as
 * alive.
 */
const CLAIM_MS = 5_000

/** The sessions of one linked front. */
export type FrontSessions = {
  /**
   * Called before an order of the session is handled, so that the session is assigned to its front before the order
   * exists.
   */
  placed(session: string, orderHash: OrderHash): void
  readonly handlers: {
    readonly [K in keyof SessionsProtocol]: (
      message: SessionsProtocol[K]['takes'],
      reply: (answer: SessionsProtocol[K]['answers']) => void,
    ) => void
  }
  /**
   * Called when the link to the front has closed. If `isLost` is true, the orders of the front's sessions are
   * cancelled.
   */
  unlink(isLost: boolean): void
}

export type SessionOrders = {
  link(): FrontSessions
  /**
   * Gives fronts `CLAIM_MS` to claim their sessions. Must be called after markets are loaded: the loaded orders may
   * belong to sessions that have ended.
   */
  awaitClaims(): void
  /**
   * Ends the sessions that no front has claimed in time. Also repeats commands that have not succeeded: cancels, and
   * `KeepOrder` commands, which let an order outlive its session. Called at intervals.
   */
  look(): void
}

type SessionPorts = Pick<Commands, 'hear'> & {
  /** Returns true while some markets are not loaded. If the function is undefined, all markets are loaded. */
  readonly isAway?: () => boolean
} & Partial<Pick<Commands, 'prove'>>

export function makeSessionOrders(
  index: SessionIndex,
  { log, monotonicMs }: Pick<ThreadContext, 'log' | 'monotonicMs'>,
  { hear, isAway, prove }: SessionPorts,
): SessionOrders {
  const ends = new SessionEnds(
    index,
    (type, order, answered) => hear(type, order, 1, { reply: (_, answer) => answered(answer) }),
    isAway,
    prove,
  )
  /** Live sessions, by front. */
  const fronts = new Set<Set<string>>()
  /** Time on the monotonic clock until which fronts can claim the sessions of loaded orders. */
  let claimedByMs = 0

  /**
   * Ends each session in the index that no front has claimed. Called at intervals, because a session that ended long
   * ago can return to the index. This happens if a reorg restores one of its orders, even if the session's orders were
   * left open when the session ended.
   */
  function endUnclaimed(): void {
    if (monotonicMs() < claimedByMs) return
    const isKnown = (session: string): boolean =>
      ends.isHandled(session) || [...fronts].some((claimed) => claimed.has(session))
    const unclaimed = index.sessions().filter((session) => !isKnown(session))
    if (unclaimed.length === 0) return
    log.warn(
      { sessions: unclaimed.length },
      'no front has reported these sessions as alive, so the orders of the sessions are cancelled',
    )
    for (const session of unclaimed) ends.suspend(session, monotonicMs())
  }

  function link(): FrontSessions {
    const claimed = new Set<string>()
    fronts.add(claimed)
    return {
      placed(session, orderHash) {
        if (ends.continue(session, orderHash)) claimed.add(session)
      },
      handlers: {
        ClaimSessions({ sessions }, reply) {
          for (const session of sessions) {
            if (ends.continue(session)) claimed.add(session)
          }
          reply({ claimed: true })
        },
        EndSession({ session }, reply) {
          claimed.delete(session)
          ends.end(session, monotonicMs(), () => reply({ ended: true }))
        },
        KeepSession({ session }, reply) {
          claimed.delete(session)
          ends.keep(session)
          reply({ kept: true })
        },
      },
      unlink(isLost) {
        fronts.delete(claimed)
        if (isLost) for (const session of claimed) ends.suspend(session, monotonicMs())
      },
    }
  }

  return {
    link,
    awaitClaims() {
      claimedByMs = monotonicMs() + CLAIM_MS
    },
    look() {
      endUnclaimed()
      ends.retry(monotonicMs())
    },
  }
}
