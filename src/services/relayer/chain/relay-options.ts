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
  /** Domain for which its permits are signed. */
  readonly stablecoin: StablecoinDomain
  /** Keys that can send. */
  readonly accounts: readonly OwnAccount[]
  /** Minimum holding of the owner of an approval or permit, in units of stablecoin. */
  readonly minHolding: bigint
  /** Returns the signer of the message or a rejection, and the digest. */
  readonly recover: (
    message: TypedMessage,
    signature: string,
  ) => { readonly signer: Address | { readonly flaw: string }; readonly digest: string }
  /** Returns the contract of a market of ours. */
  readonly marketAddressOf: (marketId: MarketId) => Promise<Address | undefined>
  /** Returns the owner's known outcome tokens, except those of lost outcomes. */
  readonly tokensHeldBy: (owner: Address) => Promise<bigint>
  /** Smallest payout of a redemption, in units of stablecoin. */
  readonly minRedemption: bigint
  /** Returns why the owner's tokens of these outcomes cannot be redeemed yet: unsettled sales need them. */
  readonly salesFlaw: (
    owner: Address,
    redemption: Redemption,
    field: string,
  ) => Promise<Rejection | undefined>
  /** Returns the transaction that set an approval or allowance to its current value, if known. */
  readonly grantedBy: (operation: CtfApproval | StablecoinPermit) => Promise<string | undefined>
  /** Returns the transaction in which the owner redeemed that market, if known. */
  readonly redeemedBy: (owner: Address, marketId: MarketId) => Promise<string | undefined>
  /** Returns the transaction that resolved the market. */
  readonly resolvedBy: (market: Address) => Promise<string | undefined>
}
