/** Messages between a market thread and the fronts that follow it. */
import type { MarketId } from '#domain/ids.ts'
import type { MarketFact } from '#domain/market-event.ts'
import type { MarketView } from './market.ts'

/** Messages of a market thread to its followers. */
export type MarketFollowerProtocol = {
  /** Packed events (`packed-event.ts`): the same bytes as in the log. */
  MarketEvents: { takes: { rows: readonly Uint8Array[] }; answers: undefined }
  /**
   * Openings and closings of markets in idle partitions (see `Doze`). For these partitions, no other events are sent.
   */
  MarketFacts: { takes: { events: readonly MarketFact[] }; answers: undefined }
  /**
   * Reports that the thread has reloaded its markets from the log, and sends their states. Events that it sent before
   * may be wrong.
   */
  MarketsReloaded: { takes: { views: readonly MarketView[] }; answers: undefined }
  /** Reports that these markets have ended, are complete in the database, and are unloaded. */
  MarketsGone: { takes: { marketIds: readonly MarketId[] }; answers: undefined }
}

/**
 * Requests with which a front makes the partitions that it follows idle or active. Both requests are answered, so the
 * front knows that they arrived.
 */
export type DozeProtocol = {
  /** Makes these partitions idle: the thread sends only openings and closings of their markets from now on. */
  Doze: { takes: { partitions: readonly number[] }; answers: { received: true } }
  /**
   * Makes these partitions active: the thread sends all of their events from now on. The front then requests their
   * current state.
   */
  Wake: { takes: { partitions: readonly number[] }; answers: { received: true } }
}

/**
 * Messages of a front about sessions. When the connection of a session ends, the session's orders are cancelled. A
 * `PlaceOrder` with a session also reports that this session is alive. A front repeats each of these messages until it
 * is answered.
 */
export type SessionsProtocol = {
  /**
   * Reports that these sessions are alive. The front sends this when it is linked to the thread, or after messages were
   * lost.
   */
  ClaimSessions: { takes: { sessions: readonly string[] }; answers: { claimed: true } }
  /** Reports that the session has ended. The thread answers when the session's orders are cancelled. */
  EndSession: { takes: { session: string }; answers: { ended: true } }
  /** Makes the session's orders stay in the book when its connection ends. */
  KeepSession: { takes: { session: string }; answers: { kept: true } }
}
