/** Messages to the relayer, and its answers. */

import type { Address } from '#domain/ids.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { RelayKey, RelayOperation } from '#domain/relay.ts'
/** Next nonces that an owner must sign, one per contract, as decimal strings. */
export type RelayNonces = {
  readonly conditionalTokens: string
  readonly stablecoin: string
  readonly delegates: string
  readonly market?: string
  /** Bond of a resolution proposal in the requested market. */
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
