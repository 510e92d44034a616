/** Messages to the thread that writes the database, and its messages to the fronts. */

import type { ApiKey } from '#domain/api-key.ts'
import type { TradeId } from '#domain/ids.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { StoreReply } from '#store/engine/reply.ts'
import type { WriteTask } from '#store/writes/writes.ts'

/** Messages to the fronts. */
export type KeyFollowerProtocol = {
  KeysRevoked: { takes: { ids: readonly string[] }; answers: undefined }
  KeyRegistered: { takes: { key: ApiKey }; answers: undefined }
}

export type ApiKeysRequests = {
  RegisterApiKey: {
    takes: { key: ApiKey; activeMax: number; untilMs: number }
    answers: { revoked: readonly string[] } | Rejection
  }
  RevokeApiKey: {
    takes: { id: string; atMs: number; untilMs: number }
    answers: { revoked: readonly string[] } | Rejection
  }
}

export type WriteRequests = {
  Write: { takes: WriteTask; answers: StoreReply | Rejection }
}

/** Trace of one of a trade's two orders, and the trade's position in the log. */
export type TradeTrace = {
  readonly tradeId: TradeId
  readonly traceparent: string
  readonly partition: number
  readonly offset: number
  /** Time at which the trade became durable, in Unix milliseconds of the machine's clock. */
  readonly durableAtMs: number
}

export type LogReaderProtocol = {
  /**
   * Reports that a market thread made events durable. If the message is lost, the store still finds the events, because
   * it also checks the log regularly.
   */
  Appended: {
    takes: {
      offsets: readonly (readonly [partition: number, lastOffset: number])[]
      /** Traces of new trades, if some are sampled. */
      traces?: readonly TradeTrace[]
    }
    answers: undefined
  }
}
