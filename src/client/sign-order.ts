/**
 * Signs an order for one settlement contract; the result is the body of `POST /api/v1/orders`. The signer may be a
 * private key, a viem account or wallet client, or any object that signs typed data. Keys stay with the caller, and the
 * code that signs with a key is loaded on first use.
 */

import { type Address, parseAddress } from '#domain/ids.ts'
import type { Order } from '#domain/order.ts'
import type { OrderDomain } from '#domain/order-hash.ts'
import { type Hex, ORDER_TYPES, settlementDomain } from '#domain/typed-data.ts'
import type { OrderDraft } from './build-order.ts'
import type { OrderSubmission } from './order-submission.ts'
import { SibylError } from './sibyl-error.ts'

/** Data that a wallet signs and shows to its owner. */
export type OrderTypedData = {
  readonly domain: {
    readonly name: string
    readonly version: string
    readonly chainId: number
    readonly verifyingContract: Hex
  }
  readonly types: typeof ORDER_TYPES
  readonly primaryType: 'Order'
  readonly message: {
    readonly marketId: Hex
    readonly trader: Hex
    readonly side: number
    readonly outcome: number
    readonly price: bigint
    readonly size: bigint
    readonly nonce: bigint
    readonly expiration: bigint
    readonly makerFeeRecipient: Hex
  }
}

/** A viem local account, or any object with an address and `signTypedData`. */
export type AccountSigner = {
  readonly address: string
  /**
   * True if the key belongs to a delegate that signs for the account `address`. Requests then name this account as
   * their trader.
   */
  readonly isDelegated?: boolean
  readonly signTypedData: (typedData: OrderTypedData) => Promise<string>
}

/** A viem wallet client with an account. */
export type WalletSigner = {
  readonly account: { readonly address: string }
  readonly signTypedData: (typedData: OrderTypedData) => Promise<string>
}

/** A private key as 0x and 64 hex digits, an account signer, or a wallet signer. */
export type OrderSigner = Hex | AccountSigner | WalletSigner

const SIGNATURE = /^0x[0-9a-fA-F]{130}$/

export async function signOrder(
  draft: OrderDraft,
  signer: OrderSigner,
  domain: OrderDomain,
): Promise<OrderSubmission> {
  if (typeof signer === 'string') {
    const { accountOf, signHash } = await import('./local-key.ts')
    const account = accountOf(signer)
    const order = orderOf(draft, account.address)
    return submission(order, await signHash(account, order, domain))
  }
  const order = orderOf(draft, await signerAddress(signer))
  return submission(order, await signer.signTypedData(orderTypedData(order, domain)))
}

export async function signerAddress(signer: OrderSigner): Promise<string> {
  if (typeof signer === 'string') {
    const { accountOf } = await import('./local-key.ts')
    return accountOf(signer).address
  }
  return 'account' in signer ? signer.account.address : signer.address
}

/** Returns the account for which a delegate's key signs; undefined if the signer signs for itself. */
export function delegatedAccount(signer: OrderSigner | undefined): string | undefined {
  if (typeof signer !== 'object' || 'account' in signer) return undefined
  return signer.isDelegated === true ? signer.address : undefined
}

export function orderTypedData(order: Order, domain: OrderDomain): OrderTypedData {
  const { name, version, chainId } = settlementDomain(domain.chainId, domain.verifyingContract)
  return {
    domain: { name, version, chainId, verifyingContract: hex(domain.verifyingContract) },
    types: ORDER_TYPES,
    primaryType: 'Order',
    message: {
      marketId: hex(order.marketId),
      trader: hex(order.trader),
      side: order.side,
      outcome: order.outcome,
      price: BigInt(order.price),
      size: BigInt(order.size),
      nonce: BigInt(order.nonce),
      expiration: BigInt(order.expiration),
      makerFeeRecipient: hex(order.makerFeeRecipient),
    },
  }
}

function orderOf(draft: OrderDraft, signerAddress: string): Order {
  const trader: Address | undefined = parseAddress(signerAddress)
  if (trader === undefined) {
    throw new SibylError('INVALID_FIELD', `the signer has no valid address: '${signerAddress}'`, {
      field: 'order.trader',
    })
  }
  return {
    marketId: draft.marketId,
    trader,
    side: draft.side,
    outcome: draft.outcome,
    price: draft.price,
    size: draft.size,
    nonce: draft.nonce,
    expiration: draft.expiration,
    makerFeeRecipient: draft.makerFeeRecipient,
  }
}

/**
 * Returns the order with its signature. Throws if the signature does not have 65 bytes, because the server would reject
 * the order. For example, a contract wallet with several owners may return a signature of another length.
 */
function submission(order: Order, signature: string): OrderSubmission {
  if (SIGNATURE.test(signature)) return { order, signature }
  throw new SibylError(
    'INVALID_SIGNATURE',
    'the signer returned a signature that does not have 65 bytes; a contract wallet that signs in another form can appoint a delegate',
    { field: 'signature' },
  )
}

function hex(text: string): Hex {
  return text as Hex
}
