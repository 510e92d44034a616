/**
 * Signing with a private key, the one thing that needs a library for its curve: loaded when a key is
 * first used, so that a page that signs by a wallet does without.
 */

import type { Hex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import type { Order } from '#domain/order.ts'
import { type OrderDomain, orderHash } from '#domain/order-hash.ts'
import { SibylError } from './sibyl-error.ts'

/** To find the address of a key takes almost as long as to sign with it: that of the last ones is kept. */
const KEPT_MAX = 32
const kept = new Map<Hex, PrivateKeyAccount>()

/** A key that cannot be one is never repeated in an error. */
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
    throw new SibylError('INVALID_FIELD', 'the private key is not 0x and 64 hex digits of a key')
  }
}

/** A key shows no typed data to a user, and our own hash is many times quicker. */
export function signHash(
  account: PrivateKeyAccount,
  order: Order,
  domain: OrderDomain,
): Promise<string> {
  return account.sign({ hash: orderHash(order, domain) as Hex })
}
