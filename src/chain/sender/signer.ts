/** Signs the transactions of a lane (one key on one chain). */

import assert from 'node:assert/strict'
import {
  bytesToHex,
  type Hex,
  hexToBytes,
  keccak256,
  type LocalAccount,
  parseSignature,
  parseTransaction,
  serializeTransaction,
} from 'viem'
import type { Keccak256 } from '#domain/order-hash.ts'
import type { Fees } from './fees.ts'

export type Payload = {
  readonly to: string
  readonly data: string
  readonly value: bigint
  readonly gas: bigint
}

const BLANK_GAS = 21_000n

export type Signer = (
  nonce: number,
  call: Payload,
  fees: Fees,
) => Promise<{ raw: string; hash: string }>

export function makeSigner(options: {
  readonly account: LocalAccount
  readonly chainId: number
  /**
   * Replaces viem's Keccak-256 function by a faster one. For a large transaction, hashing with viem's function takes
   * longer than the rest of signing.
   */
  readonly keccak256?: Keccak256
}): Signer {
  const { account, chainId } = options
  const hashBytes = options.keccak256 ?? ((bytes) => keccak256(bytes, 'bytes'))
  const hashOf = (bytes: Hex): Hex => bytesToHex(hashBytes(hexToBytes(bytes)))
  return async (
    nonce: number,
    call: Payload,
    fees: Fees,
  ): Promise<{ raw: string; hash: string }> => {
    const transaction = {
      type: 'eip1559' as const,
      chainId,
      nonce,
      to: call.to as Hex,
      data: call.data as Hex,
      value: call.value,
      gas: call.gas,
      ...fees,
    }
    assert(account.sign !== undefined, 'the account of a lane must have a private key')
    const signature = await account.sign({ hash: hashOf(serializeTransaction(transaction)) })
    const raw = serializeTransaction(transaction, parseSignature(signature))
    return { raw, hash: hashOf(raw) }
  }
}

/** Returns the payload of a signed transaction. If the transaction has no recipient, `self` is the recipient. */
export function payloadOf(raw: string, self: string): Payload {
  const { to, data, value, gas } = parseTransaction(raw as Hex)
  return { to: to ?? self, data: data ?? '0x', value: value ?? 0n, gas: gas ?? BLANK_GAS }
}

/** Returns the payload of a transaction to `self` that only uses up a nonce. */
export function blankPayload(self: string): Payload {
  return { to: self, data: '0x', value: 0n, gas: BLANK_GAS }
}
