/**
 * Signs with a private key. This is the only file that needs a library for elliptic curves. The file is loaded on first
 * use, so a page that signs with a wallet does not load the library.
 */

import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import type { Order } from '#domain/order.ts'
import { type OrderDomain, orderHash } from '#domain/order-hash.ts'
import type { Hex } from '#domain/typed-data.ts'
import { SibylError } from './sibyl-error.ts'

/**
 * Maximum number of cached accounts. Accounts are cached, because deriving a key's address takes almost as long as
 * signing.
 */
const KEPT_MAX = 32
const kept = new Map<Hex, PrivateKeyAccount>()

/** Returns the account of a private key. The error for an invalid key never contains the key. */
export function accountOf(privateKey: Hex): PrivateKeyAccount {
  const known = kept.get(privateKey)
  if (known !== undefined) return known
  const account = accountFrom(privateKey)
  if (kept.size === KEPT_MAX) kept.clear()
  kept.set(privateKey, account)
  return account
}

function accountFrom(privateKey: Hex): PrivateKeyAccount {
  try {
    return privateKeyToAccount(privateKey)
  } catch {
    throw new SibylError(
      'INVALID_FIELD',
      'the private key must be 0x and 64 hex digits, and a valid secp256k1 key',
    )
  }
}

/**
 * Signs the hash of an order. Our own hash function is many times faster than viem's hashing of typed data. Only
 * wallets need typed data, to show the order to a user.
 */
export function signHash(
  account: PrivateKeyAccount,
  order: Order,
  domain: OrderDomain,
): Promise<string> {
  return account.sign({ hash: orderHash(order, domain) as Hex })
}
