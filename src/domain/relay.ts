/**
 * The relayer's nine operations for users without ether, each authorised by its owner's typed signature, and their
 * states. Values are as parsed by the front: addresses and hashes in lower case, integers as decimal text.
 */

import type { Address, MarketId, Uint64, Uint256 } from './ids.ts'
import type { Order } from './order.ts'

/** A signature in its three parts, and its deadline. */
export type SignedPermit = {
  /** Unix seconds. */
  readonly deadline: Uint256
  readonly v: 27 | 28
  /** `r` and `s` are 32 bytes each: `0x` and 64 digits. */
  readonly r: string
  readonly s: string
}

export type CtfApproval = SignedPermit & {
  readonly kind: 'ctf-approval'
  readonly chainId: number
  readonly owner: Address
  readonly operator: Address
  readonly approved: boolean
}

export type StablecoinPermit = SignedPermit & {
  readonly kind: 'stablecoin-permit'
  readonly chainId: number
  readonly owner: Address
  readonly spender: Address
  readonly value: Uint256
}

export type Redemption = SignedPermit & {
  readonly collateralToken: Address
  readonly parentCollectionId: string
  readonly conditionId: MarketId
  readonly indexSets: readonly Uint256[]
  /** The market's contract. The owner does not sign it, because the condition alone identifies the market. */
  readonly marketAddress?: Address
}

export type CtfRedemption = Redemption & {
  readonly kind: 'ctf-redemption'
  readonly chainId: number
  readonly owner: Address
}

/** Several redemptions in one transaction, with consecutive nonces. */
export type BatchCtfRedemption = {
  readonly kind: 'batch-ctf-redemption'
  readonly chainId: number
  readonly owner: Address
  readonly redemptions: readonly Redemption[]
}

export type ProposeResolution = SignedPermit & {
  readonly kind: 'propose-resolution'
  readonly chainId: number
  /** Account that proposes the outcome. */
  readonly owner: Address
  readonly marketAddress: Address
  /** True is YES. */
  readonly outcome: boolean
  /** The proposer's permit for the bond; without it the relayer posts the bond. */
  readonly bond?: SignedPermit
}

export type SettleMarket = SignedPermit & {
  readonly kind: 'settle-market'
  readonly chainId: number
  /** Account that settles the market. */
  readonly owner: Address
  readonly marketAddress: Address
  readonly winningOutcome: 0 | 1
}

/** Withdraws orders on chain. The operation needs no nonce, because repeating it changes nothing. */
export type CancelOrders = SignedPermit & {
  readonly kind: 'cancel-orders'
  readonly chainId: number
  /** Trader of these orders. */
  readonly owner: Address
  readonly orders: readonly Order[]
}

/** Withdraws on chain all orders of the owner with a lower nonce. */
export type CancelAllBefore = SignedPermit & {
  readonly kind: 'cancel-all-before'
  readonly chainId: number
  readonly owner: Address
  readonly nonce: Uint64
}

/** Appoints, changes or revokes a delegate of the owner. */
export type SetDelegate = SignedPermit & {
  readonly kind: 'set-delegate'
  readonly chainId: number
  readonly owner: Address
  readonly delegate: Address
  /** Unix seconds; 0 revokes. */
  readonly until: Uint64
  readonly maxOrderSize: Uint64
  readonly maxOpenNotional: Uint64
  readonly markets: readonly MarketId[]
}

export type RelayOperation =
  | CtfApproval
  | StablecoinPermit
  | CtfRedemption
  | BatchCtfRedemption
  | ProposeResolution
  | SettleMarket
  | CancelOrders
  | CancelAllBefore
  | SetDelegate

export type RelayKind = RelayOperation['kind']

/**
 * Gas budget that pays for an operation. Redemptions have a separate budget, which also pays for the market settlements
 * that they wait for. So other operations cannot use up the gas that winners need.
 */
export type RelayPurpose = 'redemption' | 'other'

export const REDEMPTION_KINDS: readonly RelayKind[] = [
  'ctf-redemption',
  'batch-ctf-redemption',
  'settle-market',
]

export function purposeOf(kind: RelayKind): RelayPurpose {
  return REDEMPTION_KINDS.includes(kind) ? 'redemption' : 'other'
}

/**
 * States of an operation. `sending`: recorded, but no transaction is signed yet. `submitted`: the operation has a
 * transaction hash. A failed operation is sent again if the client requests it again.
 */
export type RelayStatus = 'sending' | 'submitted' | 'confirmed' | 'failed'

/** 32 bytes: the hash of the signed request. The same request has the same key. */
export type RelayKey = `0x${string}`

export type RelayRecord = {
  readonly key: RelayKey
  readonly chainId: number
  readonly kind: RelayKind
  readonly owner: Address
  readonly status: RelayStatus
  /** Number of the attempt; the first is 1. */
  readonly attempt: number
  /** Transaction hash; empty until a transaction is signed. */
  readonly txHash: string
  /** Gas of the operation: the gas limit until the transaction is mined, then the gas used. */
  readonly gas: number
  readonly reason: string
  readonly openedAtMs: number
  readonly updatedAtMs: number
}

/** Status of a claim, derived from the status of its transaction. */
export type ClaimStatus = 'pending' | 'confirmed' | 'failed'

/** A redemption in a market, with its payout. */
export type Claim = {
  readonly chainId: number
  readonly userAddress: Address
  readonly marketId: MarketId
  readonly marketAddress: Address
  /** Payout with six decimals, computed before the transaction was sent. */
  readonly payout: number
  readonly winningOutcome: 0 | 1
}

export type ClaimRecord = Claim & {
  readonly status: ClaimStatus
  readonly txHash: string
  readonly reason: string
  readonly submittedAtMs: number
  readonly updatedAtMs: number
}
