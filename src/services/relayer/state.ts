/** Messages, events and state of a relayer. */

import assert from 'node:assert/strict'
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
import type { LaneTransaction, LaneUpdate } from './chain/relay-lanes.ts'
import type { RelayerPorts, SentRelay } from './ports.ts'
import type { Trouble } from './trouble.ts'

type Work = { readonly key: RelayKey }

export type RelayerProtocol = RelayerRequests & {
  Begin: { takes: Record<never, never>; answers: undefined }
  Begun: {
    takes: {
      open: readonly LaneTransaction[]
      unfinished: readonly RelayRecord[]
      gas: Readonly<Record<RelayPurpose, number>>
      sinceMs: number
    }
    answers: undefined
  }
  Found: {
    takes: Work & {
      record: RelayRecord | undefined
      /** The owner's gas since `sinceMs`, the start of the day on which the look-up began. */
      gas: number
      sinceMs: number
      trades: number
    }
    answers: undefined
  }
  Examined: { takes: Work & { found: RelayExamination | Rejection }; answers: undefined }
  Held: { takes: Work & { needs: TraderNeeds | Rejection }; answers: undefined }
  Tried: { takes: Work & { trial: RelayTrial | Rejection }; answers: undefined }
  Opened: { takes: Work & { record: RelayRecord; opened: boolean }; answers: undefined }
  Sent: { takes: Work & { sent: SentRelay }; answers: undefined }
  /** A step of an operation failed in work outside the actor. */
  Failed: { takes: Work & { step: Step; trouble: Trouble }; answers: undefined }
  Poll: { takes: { lane: Address; turn: number }; answers: undefined }
  Polled: { takes: { lane: Address; news: readonly LaneUpdate[] }; answers: undefined }
  PollFailed: { takes: { lane: Address; trouble: Trouble }; answers: undefined }
  /** Writes a change of an operation to its row; retried until it is written or a newer change exists. */
  Write: { takes: Writing; answers: undefined }
  Written: { takes: Writing; answers: undefined }
  Unwritten: { takes: Writing & { trouble: Trouble }; answers: undefined }
  Weigh: { takes: Record<never, never>; answers: undefined }
  Weighed: { takes: { balances: readonly { lane: Address; wei: string }[] }; answers: undefined }
  NoncesRead: { takes: { ticket: Deferred; answer: RelayNonces | Rejection }; answers: undefined }
  /**
   * Work outside the actor failed, and no request waits for this work. `again` is the name of the message that retries
   * the work.
   */
  Missed: {
    takes: { what: string; trouble: Trouble; again: 'Begin' | 'Weigh' }
    answers: undefined
  }
}

export type Writing = {
  readonly change: RelayChange
  /**
   * Number of this change within its operation, to skip outdated writes. It is 0 if the relayer does not follow the
   * operation.
   */
  readonly turn: number
  /** Transaction whose end is acknowledged with this change, so that the sender may forget the transaction. */
  readonly transaction?: { readonly lane: Address; readonly nonce: number }
}

export type Step = 'find' | 'examine' | 'hold' | 'try' | 'open' | 'send'

export type RelayerEvent =
  | { readonly type: 'refused'; readonly kind: RelayKind; readonly rejection: Rejection }
  | { readonly type: 'repeated'; readonly kind: RelayKind }
  /** The chain already has the requested state: nothing is sent. */
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
      /** Gas that this attempt's transaction paid for; 0 if another transaction replaced it. */
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
  /** Maximum rate of an owner's operations; undefined for no limit. */
  readonly ownerRate: { readonly perMinute: number; readonly burst: number } | undefined
  /** Maximum gas per day for one owner, and for all owners together. Each purpose has its own budget. */
  readonly gasPerDay: Readonly<
    Record<RelayPurpose, { readonly ownerGas: number; readonly allGas: number }>
  >
  /** Limits of wallets with few or no settled trades. */
  readonly newcomers: {
    /** Maximum gas per day for an owner without settled trades, for each purpose. */
    readonly ownerGas: number
    /** Gas that each settled trade adds to `ownerGas`; the sum is limited to `gasPerDay.ownerGas`. */
    readonly gasPerTrade: number
    /** Percentage of each budget that is reserved for owners with trades. */
    readonly keptPercent: number
  }
  /** Minimum balance of a key, in wei. A key with less is not used. */
  readonly balanceMin: bigint
  /** Balance of a key, in wei, below which a warning is logged. */
  readonly balanceLow: bigint
  /** If a key's oldest transaction has waited this long for a block, the key is used only if there is no other key. */
  readonly stuckAfterMs: number
  readonly pollMs: number
  readonly idlePollMs: number
  readonly weighMs: number
}

export type Underway = {
  readonly key: RelayKey
  /** The operation; undefined if an earlier process sent it. */
  readonly operation: RelayOperation | undefined
  readonly scope: string
  readonly beganAtMs: number
  tickets: Deferred[]
  deadlineAtMs: number
  /** Stage of the operation; only `moveTo` changes it. */
  readonly stage: Stage
  attempt: number
  gas: number
  examination: RelayExamination | undefined
  trial: RelayTrial | undefined
  /** True if market threads refuse new orders of the owner because of this operation. */
  isHolding: boolean
  lane: Address | undefined
  nonce: number
  txHash: string
  isMined: boolean
  /** Part of the gas limit that the transaction did not use in its block; 0 while the transaction is in no block. */
  saved: number
  /** Number of changes of the operation so far. A write that failed is not retried if a newer change exists. */
  turn: number
}

/**
 * Stage of an operation: it waits in its queue, runs one step of work outside the actor, or follows its transaction.
 */
export type Stage = 'waiting' | Step | 'follow'

/**
 * Every change of stage. An operation that an earlier process sent starts as `follow`, any other operation as
 * `waiting`. An operation is dropped when it is answered without a transaction, or when its transaction has ended.
 *
 * `find` leads to `open` if the database has a row whose transaction was never sent. The row is marked as failed, and
 * the operation continues with `examine`.
 */
export const STEPS: Readonly<Record<Stage, readonly Stage[]>> = {
  waiting: ['find'],
  find: ['open', 'examine'],
  examine: ['hold', 'try'],
  hold: ['try'],
  try: ['open'],
  open: ['examine', 'send'],
  send: ['follow'],
  follow: [],
}

/** Moves an operation to another stage; the only function that does so. A step that is not in `STEPS` is a bug. */
export function moveTo(one: Pick<Underway, 'key' | 'stage'>, to: Stage): void {
  assert(STEPS[one.stage].includes(to), `${one.key} cannot go from ${one.stage} to ${to}`)
  ;(one as { stage: Stage }).stage = to
}

export type RelayerState = {
  readonly rules: RelayerRules
  readonly ports: RelayerPorts
  readonly lanes: ReadonlyMap<Address, Lane>
  readonly underway: Map<RelayKey, Underway>
  /**
   * Queues of operations, by owner and contract. The first operation of a queue uses the nonces now; the operations
   * behind it wait.
   */
  readonly scopes: Map<string, RelayKey[]>
  readonly owners: Map<Address, Owner>
  /**
   * For each operation, the number of an attempt that was not sent, until the database has recorded that this attempt
   * failed. Until then, the operation does not begin an attempt with the same number. Otherwise the late record would
   * also mark the new attempt as failed.
   */
  readonly failing: Map<RelayKey, number>
  day: number
  gasToday: Record<RelayPurpose, number>
  /** Reason why no operation is accepted while the relayer starts; empty afterwards. */
  closedFor: string
}

export type RelayerContext = Context<RelayerProtocol, RelayerEvent>

export type Owner = {
  fullAtMs: number
  gas: Record<RelayPurpose, number>
  day: number
  /** Number of the owner's recently settled trades. */
  trades: number
}

export type Lane = {
  readonly address: Address
  /** Balance in wei; undefined before the first read. */
  balance: bigint | undefined
  isLow: boolean
  /** Reference and send time of each transaction that is in no block yet. */
  readonly waiting: Map<string, number>
  /** References of transactions that were sent and have not ended. */
  readonly open: Set<string>
  isPolling: boolean
  /** Number of the last planned poll; a planned poll with a lower number is skipped. */
  turn: number
}
