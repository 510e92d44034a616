/** The exchange's own keys as signing accounts. A private key never leaves the thread that uses it. */

import type { Hex, LocalAccount } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { type Address, toAddress } from '#domain/ids.ts'
import { hexAddress } from './call.ts'
import { asked, type ChainClient } from './clients.ts'

export type OwnAccount = { readonly account: LocalAccount; readonly address: Address }

export function accountOf(key: string): OwnAccount {
  const account = privateKeyToAccount(key.toLowerCase() as Hex)
  return { account, address: toAddress(account.address) }
}

/** Returns the balance of an address in the newest block, in wei. */
export function balanceOf({ viem }: ChainClient, address: Address): Promise<bigint> {
  return asked(viem.getBalance({ address: hexAddress(address) }))
}

/** Returns the accounts of these keys without duplicates. */
export function accountsOf(keys: readonly string[]): OwnAccount[] {
  return [...new Set(keys.map((key) => key.toLowerCase()))].map(accountOf)
}
