/**
 * Typed data (EIP-712) of every signature of Sibyl: the contracts verify it, the exchange and the relayer check it, the
 * SDK signs it, and `/api/v1/config` publishes it. Plain data; nothing is hashed or signed here.
 */
import { delegatesOf } from './delegate.ts'
import type { Address } from './ids.ts'

/**
 * Bytes as 0x-hex, the same as viem's type; importing that type would make users of the SDK load all of viem's
 * declarations.
 */
export type Hex = `0x${string}`

type TypedDataField = { readonly name: string; readonly type: string }
export type TypedDataTypes = { readonly [primaryType: string]: readonly TypedDataField[] }

export type TypedDataDomain = {
  readonly name: string
  readonly version: string
  readonly chainId: number
  readonly verifyingContract: Hex
}

/**
 * View function that returns the nonce of a message. It is called on `contract`, or on the market's contract if
 * `contract` is absent.
 */
type NonceSource = {
  readonly contract?: Address
  readonly function: string
  readonly args: readonly string[]
}

/**
 * One entry of `signatures` in `/api/v1/config`. If a message concerns a single market, its domain has no
 * `verifyingContract`. The signer must then use the market's `contractAddress`.
 */
export type SignatureScheme = {
  readonly domain: Omit<TypedDataDomain, 'verifyingContract'> &
    Partial<Pick<TypedDataDomain, 'verifyingContract'>>
  readonly primaryType: string
  readonly types: TypedDataTypes
  readonly nonce?: NonceSource
}

type SignatureName =
  | 'order'
  | 'cancelOrders'
  | 'cancelAllBefore'
  | 'ctfApproval'
  | 'ctfRedemption'
  | 'stablecoinPermit'
  | 'proposeResolution'
  | 'settleMarket'
  | 'setDelegate'

export const ORDER_TYPES = {
  Order: [
    { name: 'marketId', type: 'bytes32' },
    { name: 'trader', type: 'address' },
    { name: 'side', type: 'uint8' },
    { name: 'outcome', type: 'uint8' },
    { name: 'price', type: 'uint64' },
    { name: 'size', type: 'uint64' },
    { name: 'nonce', type: 'uint64' },
    { name: 'expiration', type: 'uint64' },
    { name: 'makerFeeRecipient', type: 'address' },
  ],
} as const

export const CANCEL_ORDERS_TYPES = {
  CancelOrders: [
    { name: 'trader', type: 'address' },
    { name: 'orderHashes', type: 'bytes32[]' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

export const CANCEL_ALL_BEFORE_TYPES = {
  CancelAllBefore: [
    { name: 'trader', type: 'address' },
    { name: 'nonce', type: 'uint64' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

export const APPROVAL_FOR_ALL_TYPES = {
  ApprovalForAll: [
    { name: 'owner', type: 'address' },
    { name: 'operator', type: 'address' },
    { name: 'approved', type: 'bool' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

export const REDEEM_POSITIONS_TYPES = {
  RedeemPositions: [
    { name: 'owner', type: 'address' },
    { name: 'collateralToken', type: 'address' },
    { name: 'parentCollectionId', type: 'bytes32' },
    { name: 'conditionId', type: 'bytes32' },
    { name: 'indexSets', type: 'uint256[]' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

export const PERMIT_TYPES = {
  Permit: [
    { name: 'owner', type: 'address' },
    { name: 'spender', type: 'address' },
    { name: 'value', type: 'uint256' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

export const PROPOSE_RESOLUTION_TYPES = {
  ProposeResolution: [
    { name: 'proposer', type: 'address' },
    { name: 'outcome', type: 'bool' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

export const SETTLE_MARKET_TYPES = {
  SettleMarket: [
    { name: 'settler', type: 'address' },
    { name: 'winningOutcome', type: 'uint8' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

/**
 * Message in which an account appoints a key that may sign orders for the account until a given time, within
 * limits that the exchange enforces.
 */
export const SET_DELEGATE_TYPES = {
  SetDelegate: [
    { name: 'account', type: 'address' },
    { name: 'delegate', type: 'address' },
    { name: 'until', type: 'uint64' },
    { name: 'maxOrderSize', type: 'uint64' },
    { name: 'maxOpenNotional', type: 'uint64' },
    { name: 'markets', type: 'bytes32[]' },
    { name: 'nonce', type: 'uint256' },
    { name: 'deadline', type: 'uint256' },
  ],
} as const

/**
 * Message in which an operator of the factory assigns a market, named by its predicted address, to the event
 * with this metadata hash.
 */
export const EVENT_MARKET_TYPES = {
  EventMarket: [
    { name: 'market', type: 'address' },
    { name: 'eventHash', type: 'bytes32' },
  ],
} as const

const MARKET_DOMAIN = { name: 'SibylMarket', version: '1' } as const

export function settlementDomain(chainId: number, settlement: Address): TypedDataDomain {
  return { name: 'SibylSettlement', version: '1', chainId, verifyingContract: settlement as Hex }
}

export function delegatesDomain(chainId: number, delegates: Address): TypedDataDomain {
  return { name: 'SibylDelegates', version: '1', chainId, verifyingContract: delegates as Hex }
}

export function conditionalTokensDomain(
  chainId: number,
  conditionalTokens: Address,
): TypedDataDomain {
  return {
    name: 'SibylConditionalTokens',
    version: '1',
    chainId,
    verifyingContract: conditionalTokens as Hex,
  }
}

export function marketDomain(chainId: number, market: Address): TypedDataDomain {
  return { ...MARKET_DOMAIN, chainId, verifyingContract: market as Hex }
}

export function factoryDomain(chainId: number, factory: Address): TypedDataDomain {
  return { name: 'SibylMarketFactory', version: '1', chainId, verifyingContract: factory as Hex }
}

/**
 * Domain of a stablecoin's signatures. The token chooses its name and version: "USD Coin" and 1 on the devnet, version
 * 2 for the issuer's USDC.
 */
export type Stablecoin = {
  readonly address: Address
  readonly domainName: string
  readonly domainVersion: string
}

export function stablecoinDomain(chainId: number, stablecoin: Stablecoin): TypedDataDomain {
  return {
    name: stablecoin.domainName,
    version: stablecoin.domainVersion,
    chainId,
    verifyingContract: stablecoin.address as Hex,
  }
}

/** Returns every signature scheme of a chain, ready for any EIP-712 library. */
export function signatureSchemes(chain: {
  readonly chainId: number
  readonly settlement: Address
  readonly conditionalTokens: Address
  readonly stablecoin: Stablecoin
}): Readonly<Record<SignatureName, SignatureScheme>> {
  const { chainId, settlement, conditionalTokens, stablecoin } = chain
  const delegates = delegatesOf(settlement)
  const tokensDomain = conditionalTokensDomain(chainId, conditionalTokens)
  const tokensNonce = { contract: conditionalTokens, function: 'nonces', args: ['owner'] }
  return {
    order: {
      domain: settlementDomain(chainId, settlement),
      primaryType: 'Order',
      types: ORDER_TYPES,
    },
    cancelOrders: {
      domain: settlementDomain(chainId, settlement),
      primaryType: 'CancelOrders',
      types: CANCEL_ORDERS_TYPES,
    },
    cancelAllBefore: {
      domain: settlementDomain(chainId, settlement),
      primaryType: 'CancelAllBefore',
      types: CANCEL_ALL_BEFORE_TYPES,
    },
    ctfApproval: {
      domain: tokensDomain,
      primaryType: 'ApprovalForAll',
      types: APPROVAL_FOR_ALL_TYPES,
      nonce: tokensNonce,
    },
    ctfRedemption: {
      domain: tokensDomain,
      primaryType: 'RedeemPositions',
      types: REDEEM_POSITIONS_TYPES,
      nonce: tokensNonce,
    },
    stablecoinPermit: {
      domain: stablecoinDomain(chainId, stablecoin),
      primaryType: 'Permit',
      types: PERMIT_TYPES,
      nonce: { contract: stablecoin.address, function: 'nonces', args: ['owner'] },
    },
    proposeResolution: {
      domain: { ...MARKET_DOMAIN, chainId },
      primaryType: 'ProposeResolution',
      types: PROPOSE_RESOLUTION_TYPES,
      nonce: { function: 'nonces', args: ['proposer'] },
    },
    settleMarket: {
      domain: { ...MARKET_DOMAIN, chainId },
      primaryType: 'SettleMarket',
      types: SETTLE_MARKET_TYPES,
      nonce: { function: 'nonces', args: ['settler'] },
    },
    setDelegate: {
      domain: delegatesDomain(chainId, delegates),
      primaryType: 'SetDelegate',
      types: SET_DELEGATE_TYPES,
      nonce: { contract: delegates, function: 'nonces', args: ['account'] },
    },
  }
}

/** Returns the type as EIP-712 writes it, `Permit(address owner,…)`; the type hash is the hash of this text. */
export function typeString(primaryType: string, types: TypedDataTypes): string {
  const fields = types[primaryType] ?? []
  return `${primaryType}(${fields.map(({ name, type }) => `${type} ${name}`).join(',')})`
}
