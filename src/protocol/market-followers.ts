/** Messages between a market thread and the fronts that follow it. */
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import type { MarketFact } from '#domain/market-event.ts'
import type { Side } from '#domain/order.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { MarketView } from './market.ts'

/** What a market thread tells those who follow it. */
export type MarketFollowerProtocol = {
  /** Events, as `packed-event.ts` reads them: the very bytes that are durable. */
  MarketEvents: { takes: { rows: readonly Uint8Array[] }; answers: undefined }
  /** Instead of all events of the partitions that a follower lets doze: what it must know of their markets. */
  MarketFacts: { takes: { events: readonly MarketFact[] }; answers: undefined }
  /** The thread went back to what its log holds; what was told before may not be true any more. */
  MarketsReloaded: { takes: { views: readonly MarketView[] }; answers: undefined }
  /** They are over, the database has all of them, and they are not here any more. */
  MarketsGone: { takes: { marketIds: readonly MarketId[] }; answers: undefined }
}

/** What a front says of the partitions that it follows. Both are answered, so that it knows that they were heard. */
export type DozeProtocol = {
  /** From here on it hears which markets of these open and close, and nothing else. */
  Doze: { takes: { partitions: readonly number[] }; answers: { heard: true } }
  /** From here on it hears everything of these again; what they are now it asks for. */
  Wake: { takes: { partitions: readonly number[] }; answers: { heard: true } }
}

export type HeldOrder = {
  readonly marketId: MarketId
  readonly orderHash: OrderHash
  readonly side: Side
  readonly trader: Address
}

export type HoldsProtocol = {
  /** Again what was held here before: this thread or its front has come back. */
  HoldOrder: {
    takes: { session: string; order: HeldOrder }
    answers: { held: true } | Rejection
  }
  /** The order has ended, or was not placed. */
  ReleaseOrder: { takes: { session: string; orderHash: OrderHash }; answers: undefined }
  /** The session is over and its orders are cancelled, or it does not want this any more. */
  DropSession: { takes: { session: string }; answers: undefined }
  /** Some of these were lost on the way: those that still hold are told again. */
  DropSessions: { takes: object; answers: undefined }
}
