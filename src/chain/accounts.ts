/** The exchange's own keys as accounts that sign. A key stays in its thread. */

import type { Hex, LocalAccount } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { type Address, toAddress } from '#domain/ids.ts'

export type OwnAccount = { readonly account: LocalAccount; readonly address: Address }

export function accountOf(key: string): OwnAccount {
  const account = privateKeyToAccount(key.toLowerCase() as Hex)
  return { account, address: toAddress(account.address) }
}

/** Each key once. */
export function accountsOf(keys: readonly string[]): OwnAccount[] {
  return [...new Set(keys.map((key) => key.toLowerCase()))].map(accountOf)
}
