/** Orders for the tests of verification. They are signed with viem, a different library than the one under test. */

import { hexToBytes, toHex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { type Address, type MarketId, toAddress, type Uint64, ZERO_ADDRESS } from '#domain/ids.ts'
import type { Price, Shares } from '#domain/money.ts'
import { BUY, type Order, YES } from '#domain/order.ts'
import { type OrderDomain, orderHash } from '#domain/order-hash.ts'
import type { SignedOrder } from '#verify/inspect-orders.ts'
import type { PermitDomain } from '#verify/inspect-permit.ts'

export const DOMAIN: PermitDomain = {
  chainId: 31337,
  verifyingContract: '0x5fbdb2315678afecb367f032d93f642f64180aa3' as Address,
  stablecoin: {
    address: '0xe7f1725e7734ce288f8367e1bb143e90bb3f0512' as Address,
    domainName: 'USD Coin',
    domainVersion: '1',
  },
}
export const OTHER_DOMAIN: PermitDomain = { ...DOMAIN, chainId: 137 }

/** The order of the curve. */
export const CURVE_ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

export const alice = account(1)
export const bob = account(2)

export function account(key: number): PrivateKeyAccount {
  return privateKeyToAccount(toHex(key, { size: 32 }))
}

export function addressOf(trader: PrivateKeyAccount): Address {
  return toAddress(trader.address)
}

export function orderOf(trader: PrivateKeyAccount, fields: Partial<Order> = {}): Order {
  return {
    marketId: `0x${'c'.repeat(64)}` as MarketId,
    trader: addressOf(trader),
    side: BUY,
    outcome: YES,
    price: 420_000 as Price,
    size: 10_000_000 as Shares,
    nonce: '18446744073709551615' as Uint64,
    expiration: '1893456000' as Uint64,
    makerFeeRecipient: ZERO_ADDRESS,
    ...fields,
  }
}

export async function signedOrder(
  trader: PrivateKeyAccount,
  fields: Partial<Order> = {},
  domain: OrderDomain = DOMAIN,
): Promise<SignedOrder> {
  const order = orderOf(trader, fields)
  const signature = await trader.sign({ hash: orderHash(order, domain) as string as `0x${string}` })
  return { chainId: domain.chainId, order, signature }
}

export type Parts = { r: bigint; s: bigint; v: number }

export function partsOf(signature: string): Parts {
  return {
    r: BigInt(signature.slice(0, 66)),
    s: BigInt(`0x${signature.slice(66, 130)}`),
    v: Number(`0x${signature.slice(130)}`),
  }
}

export function signatureOf({ r, s, v }: Parts): string {
  const word = (value: bigint) => value.toString(16).padStart(64, '0')
  return `0x${word(r)}${word(s)}${v.toString(16).padStart(2, '0')}`
}

export function bytesOf(hex: string): Uint8Array {
  return hexToBytes(hex as `0x${string}`)
}
