/** Messages to the relayer, and its answers. */

import type { Address } from '#domain/ids.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { RelayKey, RelayOperation } from '#domain/relay.ts'
/** What one needs to sign: decimal text. */
export type RelayNonces = {
  readonly conditionalTokens: string
  readonly stablecoin: string
  readonly market?: string
  /** The bond of a proposal in that market. */
  readonly bond?: string
}

export type RelayAnswer = {
  readonly txHash: string
  readonly status: 'pending' | 'confirmed'
}

export type RelayerRequests = {
  Relay: {
    takes: { key: RelayKey; operation: RelayOperation; deadlineAtMs: number }
    answers: RelayAnswer | Rejection
  }
  Nonces: {
    takes: { owner: Address; marketAddress: Address | undefined }
    answers: RelayNonces | Rejection
  }
}
