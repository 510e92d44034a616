/**
 * Signs with a private key. Only this file needs a library for elliptic curves. It is loaded on first use, so a page
 * that signs with a wallet does not load it.
 */

import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import type { Order } from '#domain/order.ts'
import { type OrderDomain, orderHash } from '#domain/order-hash.ts'
import type { Hex } from '#domain/typed-data.ts'
import { SibylError } from './sibyl-error.ts'

/** Deriving the address of a key takes almost as long as signing, so recent ones are cached. */
const KEPT_MAX = 32
const kept = new Map<Hex, PrivateKeyAccount>()

/** An invalid key is never repeated in an error. */
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

/** Signs the hash directly: a key shows no typed data to a user, and our own hash is many times faster. */
export function signHash(
  account: PrivateKeyAccount,
  order: Order,
  domain: OrderDomain,
): Promise<string> {
  return account.sign({ hash: orderHash(order, domain) as Hex })
}
