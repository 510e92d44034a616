/** Messages between a market thread and the fronts that follow it. */
import type { MarketId } from '#domain/ids.ts'
import type { MarketFact } from '#domain/market-event.ts'
import type { MarketView } from './market.ts'

/** Messages of a market thread to its followers. */
export type MarketFollowerProtocol = {
  /** Packed events (`packed-event.ts`): the same bytes as in the log. */
  MarketEvents: { takes: { rows: readonly Uint8Array[] }; answers: undefined }
  /** Openings and closings of markets in idle partitions, for which no other events are sent. */
  MarketFacts: { takes: { events: readonly MarketFact[] }; answers: undefined }
  /** Reports that the thread was reloaded from its log; earlier messages may be wrong. */
  MarketsReloaded: { takes: { views: readonly MarketView[] }; answers: undefined }
  /** Reports that these markets have ended, are complete in the database, and are unloaded. */
  MarketsGone: { takes: { marketIds: readonly MarketId[] }; answers: undefined }
}

/**
 * Requests of a front about the partitions that it follows. Both requests are answered, so the front knows that they
 * arrived.
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
 * Messages of a front about sessions with orders that are cancelled on disconnect. A `PlaceOrder` with a session also
 * reports that this session is alive. A front sends a message again until it is answered.
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
