/**
 * Hardhat's well-known accounts and their purposes. Their keys are public: they must never hold anything of value on a
 * public chain.
 */

import { createECDH, createHmac, pbkdf2Sync } from 'node:crypto'
import type { Hex } from 'viem'
import { type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'

export const DEVNET_CHAIN_ID = 31_337
const MNEMONIC = 'test test test test test test test test test test test junk'
/** Number of accounts that have ether from the first block on. */
export const ACCOUNTS = 20

export const DEPLOYER = 0
export const RELAYER = 1
export const OPERATOR = 2
export const MAKER = 3
/**
 * Index of the account that sends the transactions that settle resolutions. It has its own key, because two senders
 * with the same key could assign the same nonces.
 */
export const RESOLVER = 4
/** Index of the account that gives test money to new wallets of the trading page. */
export const FAUCET = 7
/**
 * Index of the account that quotes for `sibyl maker`. It is not one of the demo traders. Otherwise a user who trades as
 * a demo trader could match their own orders.
 */
export const DEMO_MAKER = 9
/** Index of the account that buys a few shares from the demo maker now and then. */
export const DEMO_TAKER = 8
export const DEMO_TRADERS = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19] as const

/** Smallest index of hardened BIP-32 child keys, which are derived from the parent's private key. */
const HARDENED = 2 ** 31
/** Number of points of the curve secp256k1. */
const ORDER = 0xffffffff_ffffffff_ffffffff_fffffffe_baaedce6_af48a03b_bfd25e8c_d0364141n
/** Path of the accounts in Ethereum wallets: `m/44'/60'/0'/0`. */
const PATH = [HARDENED + 44, HARDENED + 60, HARDENED, 0]

type ExtendedKey = { readonly key: Buffer; readonly chain: Buffer }

const keys = new Map<number, Hex>()
const accounts = new Map<number, PrivateKeyAccount>()
let parent: ExtendedKey | undefined

export function devnetAccount(index: number): PrivateKeyAccount {
  const account = accounts.get(index) ?? privateKeyToAccount(devnetKey(index))
  accounts.set(index, account)
  return account
}

export function devnetKey(index: number): Hex {
  const key = keys.get(index) ?? (`0x${childOf(parentKey(), index).key.toString('hex')}` as const)
  keys.set(index, key)
  return key
}

/**
 * Returns the key from which the account keys are derived. The key is computed on first use, because an exchange that
 * does not use the devnet never needs it.
 */
function parentKey(): ExtendedKey {
  // Computes BIP-39 and BIP-32 with Node's native functions. In JavaScript, the computation would take most of the time
  // that the chain needs to start.
  const seed = () => pbkdf2Sync(MNEMONIC, 'mnemonic', 2_048, 64, 'sha512')
  parent ??= PATH.reduce(childOf, halves('Bitcoin seed', seed()))
  return parent
}

function childOf({ key, chain }: ExtendedKey, index: number): ExtendedKey {
  const number = Buffer.alloc(4)
  number.writeUInt32BE(index)
  const own = index >= HARDENED ? Buffer.concat([Buffer.alloc(1), key]) : publicKeyOf(key)
  const child = halves(chain, Buffer.concat([own, number]))
  const sum = (numberOf(child.key) + numberOf(key)) % ORDER
  return { key: Buffer.from(sum.toString(16).padStart(64, '0'), 'hex'), chain: child.chain }
}

function halves(secret: string | Buffer, data: Buffer): ExtendedKey {
  const digest = createHmac('sha512', secret).update(data).digest()
  return { key: digest.subarray(0, 32), chain: digest.subarray(32) }
}

function publicKeyOf(key: Buffer): Buffer {
  const curve = createECDH('secp256k1')
  curve.setPrivateKey(key)
  return curve.getPublicKey(null, 'compressed')
}

function numberOf(bytes: Buffer): bigint {
  return BigInt(`0x${bytes.toString('hex')}`)
}
