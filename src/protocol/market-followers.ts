/** Messages between a market thread and the fronts that follow it. */
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import type { MarketFact } from '#domain/market-event.ts'
import type { Side } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { MarketView } from './market.ts'

/** Messages of a market thread to its followers. */
export type MarketFollowerProtocol = {
  /** Packed events (`packed-event.ts`): the same bytes that are durable. */
  MarketEvents: { takes: { rows: readonly Uint8Array[] }; answers: undefined }
  /** Openings and closings of markets in idle partitions, instead of all their events. */
  MarketFacts: { takes: { events: readonly MarketFact[] }; answers: undefined }
  /** The thread was reloaded from its log; earlier messages may be wrong. */
  MarketsReloaded: { takes: { views: readonly MarketView[] }; answers: undefined }
  /** These markets have ended, are complete in the database, and are unloaded. */
  MarketsGone: { takes: { marketIds: readonly MarketId[] }; answers: undefined }
}

/**
 * Requests of a front about the partitions that it follows. Both are answered, so the front knows that they arrived.
 */
export type DozeProtocol = {
  /** From now on sends only openings and closings of markets in these partitions. */
  Doze: { takes: { partitions: readonly number[] }; answers: { heard: true } }
  /** From now on sends all events of these partitions; the front requests their current state. */
  Wake: { takes: { partitions: readonly number[] }; answers: { heard: true } }
}

export type HeldOrder = {
  readonly marketId: MarketId
  readonly orderHash: OrderHash
  readonly side: Side
  readonly trader: Address
}

export type HoldsProtocol = {
  /** Registers session orders again after this thread or the front restarted. */
  HoldOrder: {
    takes: { session: string; order: HeldOrder }
    answers: { held: true } | Rejection
  }
  /** The order has ended, or was not placed. */
  ReleaseOrder: { takes: { session: string; orderHash: OrderHash }; answers: undefined }
  /** The session has ended and its orders are cancelled, or it no longer holds orders. */
  DropSession: { takes: { session: string }; answers: undefined }
  /** Some of these messages were lost: fronts register their session orders again. */
  DropSessions: { takes: object; answers: undefined }
}
