/** The account of one of the exchange's own keys. The key stays in this thread. */

import type { LocalAccount } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { type Address, toAddress } from '#domain/ids.ts'

export type OwnAccount = { readonly account: LocalAccount; readonly address: Address }

export function accountOfKey(key: string): OwnAccount {
  const account = privateKeyToAccount(key as `0x${string}`)
  return { account, address: toAddress(account.address) }
}
