/**
 * Builds the typed data that the owner of a relayed operation signs, from the owner's current nonces at the contracts.
 * The SDK signs these messages; the relayer recovers the signer.
 */

import { delegatesOf } from './delegate.ts'
import type { Address, Uint256 } from './ids.ts'
import { orderHash } from './order-hash.ts'
import type { Redemption, RelayOperation, SignedPermit } from './relay.ts'
import {
  APPROVAL_FOR_ALL_TYPES,
  CANCEL_ALL_BEFORE_TYPES,
  CANCEL_ORDERS_TYPES,
  conditionalTokensDomain,
  delegatesDomain,
  marketDomain,
  PERMIT_TYPES,
  PROPOSE_RESOLUTION_TYPES,
  REDEEM_POSITIONS_TYPES,
  SET_DELEGATE_TYPES,
  SETTLE_MARKET_TYPES,
  type Stablecoin,
  settlementDomain,
  stablecoinDomain,
  type TypedDataDomain,
  type TypedDataTypes,
} from './typed-data.ts'

/** A value of a message: an address, a hash or decimal text, a number, a boolean, or a list of strings. */
export type MessageValue = string | number | boolean | readonly string[]

export type TypedMessage = {
  readonly domain: TypedDataDomain
  readonly primaryType: string
  readonly types: TypedDataTypes
  readonly message: Readonly<Record<string, MessageValue>>
}

export type SignedMessage = TypedMessage & {
  readonly signature: SignedPermit
  /**
   * Path of the object in the request that contains the signature, such as `redemptions[1].`. Empty if the request
   * itself contains the signature.
   */
  readonly path: string
  /** True for the permit of a bond. In the request, its fields have other names than the fields of other signatures. */
  readonly isBond: boolean
}

type MessageContracts = {
  readonly settlement: Address
  readonly conditionalTokens: Address
  readonly stablecoin: Stablecoin
}

/**
 * `nonce`: the owner's nonce at the contract that the operation calls. `bond`: the amount of the bond, and the owner's
 * nonce at the stablecoin.
 */
export type MessageNonces = {
  readonly nonce: bigint
  readonly bond?: { readonly nonce: bigint; readonly amount: bigint }
}

export function signedMessages(
  operation: RelayOperation,
  contracts: MessageContracts,
  nonces: MessageNonces,
): SignedMessage[] {
  const { chainId, owner } = operation
  const { nonce } = nonces
  const tokens = conditionalTokensDomain(chainId, contracts.conditionalTokens)
  switch (operation.kind) {
    case 'ctf-approval': {
      const { operator, approved, deadline } = operation
      const message = { owner, operator, approved, nonce: String(nonce), deadline }
      const types = APPROVAL_FOR_ALL_TYPES
      return [signed(operation, { domain: tokens, primaryType: 'ApprovalForAll', types, message })]
    }
    case 'stablecoin-permit': {
      const { spender, value, deadline } = operation
      return [
        signed(
          operation,
          permitMessage(chainId, contracts.stablecoin, { owner, spender, value, nonce, deadline }),
        ),
      ]
    }
    case 'ctf-redemption':
      return [signed(operation, redemptionMessage(tokens, owner, operation, nonce))]
    case 'batch-ctf-redemption':
      return operation.redemptions.map((redemption, at) => ({
        ...redemptionMessage(tokens, owner, redemption, nonce + BigInt(at)),
        signature: redemption,
        path: `redemptions[${at}].`,
        isBond: false,
      }))
    case 'propose-resolution': {
      const { marketAddress, outcome, deadline, bond } = operation
      const message = { proposer: owner, outcome, nonce: String(nonce), deadline }
      const domain = marketDomain(chainId, marketAddress)
      const types = PROPOSE_RESOLUTION_TYPES
      const own = signed(operation, { domain, primaryType: 'ProposeResolution', types, message })
      if (bond === undefined || nonces.bond === undefined) return [own]
      const permit = permitMessage(chainId, contracts.stablecoin, {
        owner,
        spender: marketAddress,
        value: String(nonces.bond.amount) as Uint256,
        nonce: nonces.bond.nonce,
        deadline: bond.deadline,
      })
      return [own, { ...signed(bond, permit), isBond: true }]
    }
    case 'settle-market': {
      const { marketAddress, winningOutcome, deadline } = operation
      const message = { settler: owner, winningOutcome, nonce: String(nonce), deadline }
      const domain = marketDomain(chainId, marketAddress)
      const types = SETTLE_MARKET_TYPES
      return [signed(operation, { domain, primaryType: 'SettleMarket', types, message })]
    }
    case 'cancel-orders': {
      const { orders, deadline } = operation
      const contract = { chainId, verifyingContract: contracts.settlement }
      const orderHashes = orders.map((order) => orderHash(order, contract))
      const message = { trader: owner, orderHashes, deadline }
      const domain = settlementDomain(chainId, contracts.settlement)
      const types = CANCEL_ORDERS_TYPES
      return [signed(operation, { domain, primaryType: 'CancelOrders', types, message })]
    }
    case 'cancel-all-before': {
      const message = { trader: owner, nonce: operation.nonce, deadline: operation.deadline }
      const domain = settlementDomain(chainId, contracts.settlement)
      const types = CANCEL_ALL_BEFORE_TYPES
      return [signed(operation, { domain, primaryType: 'CancelAllBefore', types, message })]
    }
    case 'set-delegate': {
      const { delegate, until, maxOrderSize, maxOpenNotional, markets, deadline } = operation
      const message = {
        ...{ account: owner, delegate, until, maxOrderSize, maxOpenNotional, markets },
        ...{ nonce: String(nonce), deadline },
      }
      const domain = delegatesDomain(chainId, delegatesOf(contracts.settlement))
      const types = SET_DELEGATE_TYPES
      return [signed(operation, { domain, primaryType: 'SetDelegate', types, message })]
    }
  }
}

/** Returns the message of a stablecoin permit, signed by a trader or by the account that posts a bond. */
export function permitMessage(
  chainId: number,
  stablecoin: Stablecoin,
  permit: {
    readonly owner: Address
    readonly spender: Address
    readonly value: Uint256
    readonly nonce: bigint
    readonly deadline: Uint256
  },
): TypedMessage {
  return {
    domain: stablecoinDomain(chainId, stablecoin),
    primaryType: 'Permit',
    types: PERMIT_TYPES,
    message: { ...permit, nonce: String(permit.nonce) },
  }
}

function redemptionMessage(
  domain: TypedDataDomain,
  owner: Address,
  redemption: Redemption,
  nonce: bigint,
): TypedMessage {
  const { collateralToken, parentCollectionId, conditionId, indexSets, deadline } = redemption
  return {
    domain,
    primaryType: 'RedeemPositions',
    types: REDEEM_POSITIONS_TYPES,
    message: {
      owner,
      collateralToken,
      parentCollectionId,
      conditionId,
      indexSets,
      nonce: String(nonce),
      deadline,
    },
  }
}

function signed(signature: SignedPermit, message: TypedMessage): SignedMessage {
  return { ...message, signature, path: '', isBond: false }
}
