/** What a relayer hears, says and remembers. */

import type { Address } from '#domain/ids.ts'
import type { Rejection } from '#domain/rejection.ts'
import type {
  RelayKey,
  RelayKind,
  RelayOperation,
  RelayPurpose,
  RelayRecord,
} from '#domain/relay.ts'
import type { TraderNeeds } from '#domain/trader-hold.ts'
import type { RelayerRequests, RelayNonces } from '#protocol/relayer.ts'
import type { Context, Deferred } from '#runtime/actor.ts'
import type { RelayChange } from '#store/writes/relays.ts'
import type { RelayExamination, RelayTrial } from './chain/relay-examination.ts'
import type { LaneNews, LaneTransaction } from './chain/relay-lanes.ts'
import type { RelayerPorts, SentRelay } from './ports.ts'
import type { Trouble } from './trouble.ts'

type Work = { readonly key: RelayKey }

export type RelayerProtocol = RelayerRequests & {
  Begin: { takes: Record<never, never>; answers: undefined }
  Begun: {
    takes: {
      open: readonly LaneTransaction[]
      unfinished: readonly RelayRecord[]
      gasToday: Readonly<Record<RelayPurpose, number>>
    }
    answers: undefined
  }
  Found: {
    takes: Work & { record: RelayRecord | undefined; gas: number; trades: number }
    answers: undefined
  }
  Examined: { takes: Work & { found: RelayExamination | Rejection }; answers: undefined }
  Held: { takes: Work & { needs: TraderNeeds | Rejection }; answers: undefined }
  Tried: { takes: Work & { trial: RelayTrial | Rejection }; answers: undefined }
  Opened: { takes: Work & { record: RelayRecord; opened: boolean }; answers: undefined }
  Sent: { takes: Work & { sent: SentRelay }; answers: undefined }
  /** A step of an operation failed outside. */
  Failed: { takes: Work & { step: Step; trouble: Trouble }; answers: undefined }
  Poll: { takes: { lane: Address; turn: number }; answers: undefined }
  Told: { takes: { lane: Address; news: readonly LaneNews[] }; answers: undefined }
  Unheard: { takes: { lane: Address; trouble: Trouble }; answers: undefined }
  /** Writes what has become of an operation; again and again until it is written, or outdated. */
  Write: { takes: Writing; answers: undefined }
  Written: { takes: Writing; answers: undefined }
  Unwritten: { takes: Writing & { trouble: Trouble }; answers: undefined }
  Weigh: { takes: Record<never, never>; answers: undefined }
  Weighed: { takes: { balances: readonly { lane: Address; wei: string }[] }; answers: undefined }
  NoncesRead: { takes: { ticket: Deferred; answer: RelayNonces | Rejection }; answers: undefined }
  /** Outside work that no client waits for has failed. */
  Missed: {
    takes: { what: string; trouble: Trouble; again: 'Begin' | 'Weigh' }
    answers: undefined
  }
}

export type Writing = {
  readonly change: RelayChange
  /** Which change of the operation this is; 0 for one that is not followed. */
  readonly turn: number
  /** What the sender may forget once it is written. */
  readonly transaction?: { readonly lane: Address; readonly nonce: number }
}

export type Step = 'find' | 'examine' | 'hold' | 'try' | 'open' | 'send'

export type RelayerEvent =
  | { readonly type: 'refused'; readonly kind: RelayKind; readonly rejection: Rejection }
  | { readonly type: 'repeated'; readonly kind: RelayKind }
  /** The chain is as it was asked for already: nothing is sent. */
  | { readonly type: 'unneeded'; readonly kind: RelayKind; readonly txHash: string }
  | {
      readonly type: 'sent'
      readonly kind: RelayKind
      readonly lane: Address
      readonly txHash: string
      readonly tookMs: number
    }
  | {
      readonly type: 'ended'
      readonly key: RelayKey
      readonly kind: RelayKind | undefined
      readonly status: 'confirmed' | 'failed'
      readonly gas: number
      readonly reason: string
    }
  | {
      readonly type: 'weighed'
      readonly lane: Address
      readonly wei: bigint
      readonly isLow: boolean
    }
  | { readonly type: 'trouble'; readonly where: string; readonly trouble: Trouble }

export type RelayerRules = {
  readonly chainId: number
  /** What an owner may ask for, when rates are limited. */
  readonly ownerRate: { readonly perMinute: number; readonly burst: number } | undefined
  /** What one owner and what all may spend, by the budget that pays. */
  readonly gasPerDay: Readonly<
    Record<RelayPurpose, { readonly ownerGas: number; readonly allGas: number }>
  >
  /** Limits of wallets with few or no settled trades. */
  readonly newcomers: {
    /** Gas of an owner without trades, out of each budget. */
    readonly ownerGas: number
    /** Gas that each settled trade adds to it, up to what any owner may spend. */
    readonly gasPerTrade: number
    /** The part of each budget that is kept for owners with trades. */
    readonly keptPercent: number
  }
  /** A key with less is used no more. */
  readonly balanceMin: bigint
  /** A key with less is warned about. */
  readonly balanceLow: bigint
  /** A key whose oldest transaction waits for so long is used only when there is no other. */
  readonly stuckAfterMs: number
  readonly pollMs: number
  readonly idlePollMs: number
  readonly weighMs: number
}

export type Underway = {
  readonly key: RelayKey
  /** Undefined for one that a process before this one sent. */
  readonly operation: RelayOperation | undefined
  readonly scope: string
  readonly beganAtMs: number
  tickets: Deferred[]
  deadlineAtMs: number
  stage: 'waiting' | Step | 'follow'
  attempt: number
  gas: number
  examination: RelayExamination | undefined
  trial: RelayTrial | undefined
  /** Whether new orders of its owner are held. */
  isHolding: boolean
  lane: Address | undefined
  nonce: number
  txHash: string
  isMined: boolean
  /** Counts its changes: an older one that could not be written is not tried again. */
  turn: number
}

export type RelayerState = {
  readonly rules: RelayerRules
  readonly ports: RelayerPorts
  readonly lanes: ReadonlyMap<Address, Lane>
  readonly underway: Map<RelayKey, Underway>
  /** Who uses an owner's nonces at a contract now, and who waits behind, in order. */
  readonly scopes: Map<string, RelayKey[]>
  readonly owners: Map<Address, Owner>
  day: number
  gasToday: Record<RelayPurpose, number>
  /** Why nothing is taken yet; empty once it has begun. */
  closedFor: string
}

export type RelayerContext = Context<RelayerProtocol, RelayerEvent>

export type Owner = {
  fullAtMs: number
  gas: Record<RelayPurpose, number>
  day: number
  /** Number of its recently settled trades. */
  trades: number
}

export type Lane = {
  readonly address: Address
  /** Undefined until it was asked for. */
  balance: bigint | undefined
  isLow: boolean
  /** References of what is not in a block yet, and since when. */
  readonly waiting: Map<string, number>
  /** What was sent and has not ended. */
  readonly open: Set<string>
  isPolling: boolean
  /** Counts what was planned, so that only the last plan is carried out. */
  turn: number
}
