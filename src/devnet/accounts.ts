/**
 * Hardhat's well-known accounts and what each is for. Their keys are public: nothing of value may
 * ever belong to them on a chain that others can reach.
 */

import { pbkdf2Sync } from 'node:crypto'
import { type Hex, toHex } from 'viem'
import { type HDAccount, HDKey, hdKeyToAccount } from 'viem/accounts'

export const DEVNET_CHAIN_ID = 31_337
const MNEMONIC = 'test test test test test test test test test test test junk'
/** How many of them have ether from the first block on. */
export const ACCOUNTS = 20

export const DEPLOYER = 0
export const RELAYER = 1
export const OPERATOR = 2
export const MAKER = 3
/** A key of its own, because a key's transactions are numbered by one sender only. */
export const RESOLVER = 4
export const DEMO_TRADERS = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19] as const

const derived = new Map<number, HDAccount>()
let root: HDKey | undefined

/** Made when it is first asked for: an exchange on another chain never does. */
function rootKey(): HDKey {
  // As BIP-39 has it. By Node's own function, because in JavaScript it takes a third of a second.
  root ??= HDKey.fromMasterSeed(pbkdf2Sync(MNEMONIC, 'mnemonic', 2_048, 64, 'sha512'))
  return root
}

export function devnetAccount(index: number): HDAccount {
  const account = derived.get(index) ?? hdKeyToAccount(rootKey(), { addressIndex: index })
  derived.set(index, account)
  return account
}

export function devnetKey(index: number): Hex {
  const key = devnetAccount(index).getHdKey().privateKey
  if (key === null) throw new Error(`account ${index} has no key`)
  return toHex(key)
}
