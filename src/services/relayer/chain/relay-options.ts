/** Contracts, keys and functions that the relayer needs to judge operations. */

import type { OwnAccount } from '#chain/accounts.ts'
import type { ChainClient } from '#chain/clients.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Rejection } from '#domain/rejection.ts'
import type { CtfApproval, Redemption, StablecoinPermit } from '#domain/relay.ts'
import type { TypedMessage } from '#domain/relay-messages.ts'
import type { Stablecoin as StablecoinDomain } from '#domain/typed-data.ts'
import type { AcceptedOrders } from './relay-cancellations.ts'
import type { RelayContracts } from './relay-facts.ts'

export type RelayExaminerOptions = AcceptedOrders & {
  readonly client: ChainClient
  readonly contracts: RelayContracts
  /** Domain of the permits that the relayer signs with its own keys. */
  readonly stablecoin: StablecoinDomain
  /** Accounts whose keys can send transactions. */
  readonly accounts: readonly OwnAccount[]
  /**
   * Minimum value, in units of stablecoin, that the owner of an approval, permit, cancellation or delegation must hold.
   */
  readonly minHolding: bigint
  /** Returns the digest of a message. Also returns the signer, or the reason why the signature is invalid. */
  readonly recover: (
    message: TypedMessage,
    signature: string,
  ) => { readonly signer: Address | { readonly flaw: string }; readonly digest: string }
  /** Returns the contract of a market of this exchange. */
  readonly marketAddressOf: (marketId: MarketId) => Promise<Address | undefined>
  /** Returns how many outcome tokens the owner is known to hold. Tokens of outcomes that have lost do not count. */
  readonly tokensHeldBy: (owner: Address) => Promise<bigint>
  /** Minimum payout of a redemption, in units of stablecoin. */
  readonly minRedemption: bigint
  /**
   * Returns why the owner cannot redeem tokens of these outcomes yet: unsettled sales still need the tokens,
   * or the market still accepts orders. Returns undefined if the owner can redeem them.
   */
  readonly salesFlaw: (
    owner: Address,
    redemption: Redemption,
    field: string,
  ) => Promise<Rejection | undefined>
  /** Returns the transaction that set an approval or allowance to its current value, if known. */
  readonly grantedBy: (operation: CtfApproval | StablecoinPermit) => Promise<string | undefined>
  /** Returns the transaction in which the owner redeemed tokens of the market, if known. */
  readonly redeemedBy: (owner: Address, marketId: MarketId) => Promise<string | undefined>
  /** Returns the transaction that resolved the market. */
  readonly resolvedBy: (market: Address) => Promise<string | undefined>
}
