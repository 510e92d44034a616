/** Functions that the relayer needs from other modules: access to the chain, the sender and the database. */

import type { Address } from '#domain/ids.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { RelayKey, RelayOperation, RelayPurpose, RelayRecord } from '#domain/relay.ts'
import type { HeldOrders, TraderNeeds } from '#domain/trader-hold.ts'
import type { RelayNonces } from '#protocol/relayer.ts'
import type { OpenedRelay, RelayChange } from '#store/writes/relays.ts'
import type { RelayExamination, RelayTrial } from './chain/relay-examination.ts'
import type { LaneTransaction, LaneUpdate } from './chain/relay-lanes.ts'

export type SentRelay = { readonly txHash: string; readonly nonce: number }

/** Functions that the thread provides to the relayer. Each throws a fault on failure. */
export type RelayerPorts = {
  readonly recover: () => Promise<readonly LaneTransaction[]>
  readonly unfinished: () => Promise<readonly RelayRecord[]>
  /** Returns the gas spent since the given time, by budget. */
  readonly gasSince: (sinceMs: number) => Promise<Readonly<Record<RelayPurpose, number>>>
  /**
   * Looks up an operation: returns its row if the operation was requested before. Also returns the gas that the owner
   * has spent from the operation's budget, and the number of the owner's recently settled trades.
   */
  readonly find: (
    key: RelayKey,
    operation: Pick<RelayOperation, 'kind' | 'owner'>,
    sinceMs: number,
  ) => Promise<{
    readonly record: RelayRecord | undefined
    readonly gas: number
    readonly trades: number
  }>
  readonly examine: (operation: RelayOperation) => Promise<RelayExamination | Rejection>
  /**
   * Makes the market threads refuse these kinds of new orders of the owner until `lift` is called. Returns what the
   * owner's open orders and unsettled trades need. `lift` must be called even if `hold` returns a rejection.
   */
  readonly hold: (
    key: RelayKey,
    owner: Address,
    orders: HeldOrders,
  ) => Promise<TraderNeeds | Rejection>
  readonly lift: (key: RelayKey) => void
  /** Simulates the operation's call. `lanes` are the possible senders, in the order of preference. */
  readonly attempt: (
    operation: RelayOperation,
    examination: RelayExamination,
    lanes: readonly Address[],
  ) => Promise<RelayTrial | Rejection>
  readonly open: (
    relay: OpenedRelay,
  ) => Promise<{ readonly record: RelayRecord; readonly opened: boolean }>
  readonly change: (change: RelayChange) => Promise<boolean>
  readonly send: (trial: RelayTrial, reference: string) => Promise<SentRelay>
  readonly poll: (lane: Address) => Promise<readonly LaneUpdate[]>
  readonly acknowledge: (lane: Address, nonce: number) => Promise<void>
  readonly nonces: (
    owner: Address,
    marketAddress: Address | undefined,
  ) => Promise<RelayNonces | Rejection>
  /** Returns the balance of each key, in wei as decimal strings. */
  readonly balances: () => Promise<readonly { readonly lane: Address; readonly wei: string }[]>
}
