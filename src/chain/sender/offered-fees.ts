/**
 * Computes the fees that a transaction would offer if it were signed now. Simulations offer the same fees, because the
 * code of a trader's account (EIP-7702) may read `tx.gasprice` and `block.basefee`. Without fees, a simulation sets
 * both values to 0.
 */

import { type Hex, hexToBigInt, numberToHex, type PublicClient } from 'viem'
import { broadcastAnswer, everythingSaid } from './broadcast-error.ts'
import { cappedFees, type Fees, freshFees } from './fees.ts'
import { DEFAULT_POLICY } from './sender.ts'

/** One gwei. */
const TIP_DEFAULT = numberToHex(1_000_000_000)

export async function offeredFees(
  client: PublicClient,
  maxFeeCap = DEFAULT_POLICY.maxFeeCap,
): Promise<Fees> {
  const [head, tip] = await Promise.all([
    client.request({ method: 'eth_getBlockByNumber', params: ['latest', false] }),
    wantedTip(client),
  ])
  const baseFee = head?.baseFeePerGas == null ? 0n : hexToBigInt(head.baseFeePerGas)
  return cappedFees(freshFees(baseFee, hexToBigInt(tip)), maxFeeCap)
}

export async function wantedTip(client: PublicClient): Promise<Hex> {
  try {
    return await client.request({ method: 'eth_maxPriorityFeePerGas' })
  } catch (error) {
    // Some nodes do not support `eth_maxPriorityFeePerGas`; the default tip is used for them.
    if (/not (found|supported|available|exist)/i.test(everythingSaid(error))) return TIP_DEFAULT
    throw error
  }
}

/** Returns whether the error means that the sender of a call cannot pay for its gas. */
export function isTooPoor(error: unknown): boolean {
  return broadcastAnswer(error) === 'poor'
}
