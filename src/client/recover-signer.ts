/** Recovers the wallet that signed an order, for clients that check other traders' orders. */

import { recoverAddress } from 'viem'
import { type Address, toAddress } from '#domain/ids.ts'

/** Returns the address whose key signed the digest; undefined if the signature is malformed. */
export async function recoverSigner(hash: string, signature: string): Promise<Address | undefined> {
  try {
    const signed = { hash: hash as `0x${string}`, signature: signature as `0x${string}` }
    return toAddress(await recoverAddress(signed))
  } catch {
    return undefined
  }
}
