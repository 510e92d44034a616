/**
 * Remembers, at a front, the sessions of connections with cancel on disconnect. The market threads cancel the orders
 * (`services/market/thread/session-orders.ts`). The front only reports which sessions are alive and which have ended.
 */

import { partsOf } from '#domain/parts-of.ts'
import type { SessionsProtocol } from '#protocol/market-followers.ts'
import { isUnanswered } from '#runtime/channel.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Ref } from '#runtime/ref.ts'

export type HeldSessions = {
  /** Turns on the option `cancelOnDisconnect` for the session, so that its orders are cancelled when it ends. */
  hold(session: string): void
  /** Ends the session, so that the market threads cancel its orders. */
  end(session: string): void
  /** Turns off the option `cancelOnDisconnect` for the session, so that its orders stay open when it ends. */
  keep(session: string): void
  /** Reports all sessions as alive to a market thread, after that thread was linked or lost messages. */
  claim(thread: number): Promise<void>
  /** Resolves when the linked market threads have acknowledged every ended session, and so cancelled its orders. */
  settled(): Promise<void>
}

const AGAIN_MS = 250
/** Maximum number of sessions in one message. */
const CLAIMED_AT_ONCE = 1_000

type Change = 'EndSession' | 'KeepSession'

export function makeHeldSessions(ports: {
  readonly threads: readonly Ref<SessionsProtocol>[]
  readonly clock: Pick<Clock, 'after'>
}): HeldSessions {
  const { clock } = ports
  const live = new Set<string>()
  const links = ports.threads.map((ref) => ({
    ref,
    /**
     * For each session: the change (session ended, or option turned off) that the market thread has not acknowledged
     * yet.
     */
    unanswered: new Map<string, Change>(),
    /**
     * Number of times that `claim` has started for this thread. Each run reports all sessions, and stops the run before
     * it.
     */
    claims: 0,
  }))
  const sending = new Set<Promise<void>>()

  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => void clock.after(ms, resolve))

  /**
   * Sends a session's change to a market thread until the thread acknowledges it. If the link to the thread closes, the
   * change is sent again on the next link.
   */
  async function send({ ref, unanswered }: (typeof links)[number], session: string): Promise<void> {
    const change = unanswered.get(session)
    while (change !== undefined && unanswered.get(session) === change) {
      const answer = await ref.ask(change, { session })
      if (!isUnanswered(answer)) {
        if (unanswered.get(session) === change) unanswered.delete(session)
      } else if (!ref.isOpen) return
      else await pause(AGAIN_MS)
    }
  }

  function start(link: (typeof links)[number], session: string): void {
    const sent = send(link, session)
    sending.add(sent)
    void sent.finally(() => sending.delete(sent))
  }

  function change(session: string, to: Change): void {
    live.delete(session)
    for (const link of links) {
      link.unanswered.set(session, to)
      start(link, session)
    }
  }

  async function claim(thread: number): Promise<void> {
    const link = links[thread]
    if (link === undefined) return
    const turn = ++link.claims
    for (const session of [...link.unanswered.keys()]) start(link, session)
    for (const part of partsOf([...live], CLAIMED_AT_ONCE)) {
      const sessions = part.filter((session) => live.has(session))
      const answer = await link.ref.ask('ClaimSessions', { sessions })
      if (link.claims !== turn) return
      if (isUnanswered(answer)) {
        if (link.ref.isOpen) clock.after(AGAIN_MS, () => void claim(thread))
        return
      }
    }
  }

  return {
    hold(session) {
      live.add(session)
      for (const { unanswered } of links) unanswered.delete(session)
    },
    end: (session) => change(session, 'EndSession'),
    keep: (session) => change(session, 'KeepSession'),
    claim,
    async settled() {
      await Promise.all(sending)
    },
  }
}
