/**
 * Computes the address and id of a quick market in the same way as its factory contract. The quick market's contract is
 * a minimal clone of the factory's implementation. CREATE2 creates the clone, with a hash of the question as salt. So a
 * quick market can be traded before its contract is mined, and while no Ethereum node is reachable.
 */

import {
  concatHex,
  encodeAbiParameters,
  encodePacked,
  getContractAddress,
  type Hex,
  keccak256,
} from 'viem'
import { hexAddress } from '#chain/call.ts'
import type { QuickTerms } from '#chain/market-factory.ts'
import { type Address, type MarketId, toAddress } from '#domain/ids.ts'

const QUESTION = [
  { type: 'string' },
  { type: 'string' },
  { type: 'uint64' },
  { type: 'uint32' },
] as const
/** ERC-1167: creation code of a clone, before and after the address of its implementation. */
const CLONE_HEAD: Hex = '0x3d602d80600a3d3981f3363d3d373d3d3d363d73'
const CLONE_TAIL: Hex = '0x5af43d82803e903d91602b57fd5bf3'
/** Nonce with which the factory creates its implementation: it is the first contract that the factory creates. */
const IMPLEMENTATION_NONCE = 1n
const OUTCOMES = 2n

export function predictQuickMarket(
  factory: Address,
  { asset, startSec, intervalSec }: QuickTerms,
): { marketId: MarketId; contractAddress: Address } {
  const from = hexAddress(factory)
  const implementation = getContractAddress({ from, nonce: IMPLEMENTATION_NONCE })
  const question = keccak256(
    encodeAbiParameters(QUESTION, ['quick', asset, BigInt(startSec), intervalSec]),
  )
  const bytecode = concatHex([CLONE_HEAD, implementation, CLONE_TAIL])
  const market = getContractAddress({ opcode: 'CREATE2', from, salt: question, bytecode })
  const marketId = keccak256(
    encodePacked(['address', 'bytes32', 'uint256'], [market, question, OUTCOMES]),
  )
  return { marketId: marketId as string as MarketId, contractAddress: toAddress(market) }
}
