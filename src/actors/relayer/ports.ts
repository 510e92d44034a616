/** What the relayer needs of the outside: the chain, the sender of its keys and the database. */

import type { Address } from '#domain/ids.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { Claim, RelayKey, RelayOperation, RelayRecord } from '#domain/relay.ts'
import type { OpenedRelay, RelayChange } from '#store/relays.ts'

/** What one needs to sign: decimal text. */
export type RelayNonces = {
  readonly conditionalTokens: string
  readonly stablecoin: string
  readonly market?: string
  /** The bond of a proposal in that market. */
  readonly bond?: string
}

/** What examining an operation found, if nothing speaks against it. */
export type Examination = {
  readonly claims: readonly Claim[]
  /** The transaction that did it already, where it needs no other. */
  readonly doneBy?: string
  /** Whether the relayer's own stablecoin goes into it. */
  readonly ownBond: boolean
}

/** A call that would succeed now, and the key that would send it. */
export type Trial = {
  readonly lane: Address
  readonly to: Address
  readonly data: string
  /** Its gas limit. */
  readonly gas: number
}

export type SentRelay = { readonly txHash: string; readonly nonce: number }

/** A transaction of ours that is still open in the sender's journal. */
export type OpenTransaction = {
  readonly lane: Address
  readonly nonce: number
  readonly reference: string
  readonly txHash: string
}

export type RelayNews = OpenTransaction &
  (
    | { readonly type: 'replaced' | 'vanished' }
    | { readonly type: 'mined'; readonly gasUsed: number }
    | {
        readonly type: 'finished'
        readonly outcome: 'succeeded' | 'reverted' | 'cancelled' | 'lost'
        readonly gasUsed: number | null
      }
  )

/** The outside, as the worker hands it in. Each throws a fault when it cannot. */
export type RelayerPorts = {
  readonly recover: () => Promise<readonly OpenTransaction[]>
  readonly unfinished: () => Promise<readonly RelayRecord[]>
  readonly gasSince: (sinceMs: number) => Promise<number>
  readonly find: (
    key: RelayKey,
    owner: Address,
    sinceMs: number,
  ) => Promise<{ readonly record: RelayRecord | undefined; readonly gas: number }>
  readonly examine: (operation: RelayOperation) => Promise<Examination | Rejection>
  /** The lanes are in the order of preference. */
  readonly attempt: (
    operation: RelayOperation,
    examination: Examination,
    lanes: readonly Address[],
  ) => Promise<Trial | Rejection>
  readonly open: (
    relay: OpenedRelay,
  ) => Promise<{ readonly record: RelayRecord; readonly opened: boolean }>
  readonly change: (change: RelayChange) => Promise<boolean>
  readonly send: (trial: Trial, reference: string) => Promise<SentRelay>
  readonly poll: (lane: Address) => Promise<readonly RelayNews[]>
  readonly acknowledge: (lane: Address, nonce: number) => Promise<void>
  readonly nonces: (
    owner: Address,
    marketAddress: Address | undefined,
  ) => Promise<RelayNonces | Rejection>
  /** What each key has left, in wei as decimal text. */
  readonly balances: () => Promise<readonly { readonly lane: Address; readonly wei: string }[]>
}
