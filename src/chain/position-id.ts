/**
 * Computes the ids of outcome tokens as the Conditional Tokens contract does. A collection id is the x coordinate of a
 * point on the curve alt_bn128. Its bit 254 is the parity of y. To find the point, x starts at a hash and increases by
 * 1 until x³ + 3 is a square. The token id is a hash of the collateral and the collection id.
 */

import { encodePacked, type Hex, keccak256 } from 'viem'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { hexAddress } from './call.ts'

const P = 21888242871839275222246405745257275088696311157297823662689037894645226208583n
/** Because P ≡ 3 (mod 4), raising a square to this power gives its square root modulo P. */
const SQRT_EXPONENT = (P + 1n) / 4n
const ODD_TOGGLE = 1n << 254n

function collectionIdOf(conditionId: MarketId, indexSet: bigint): Hex {
  const hash = keccak256(
    encodePacked(['bytes32', 'uint256'], [conditionId as string as Hex, indexSet]),
  )
  let x = BigInt(hash)
  const odd = x >> 255n !== 0n
  let y: bigint
  let square: bigint
  do {
    x = (x + 1n) % P
    square = (x * x * x + 3n) % P
    y = power(square, SQRT_EXPONENT)
  } while ((y * y) % P !== square)
  if ((y % 2n === 1n) !== odd) y = P - y
  if (y % 2n === 1n) x ^= ODD_TOGGLE
  return word(x)
}

/** Returns the ERC-1155 id of an outcome of a market, as 32 bytes of hex. */
export function positionIdOf(collateral: Address, marketId: MarketId, outcome: Outcome): Hex {
  return collectionPositionId(collateral, collectionIdOf(marketId, 1n << BigInt(outcome)))
}

/** Returns the ERC-1155 id of a collection of outcomes of any conditions. */
export function collectionPositionId(collateral: Address, collectionId: Hex): Hex {
  return keccak256(encodePacked(['address', 'bytes32'], [hexAddress(collateral), collectionId]))
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  let factor = base % P
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * factor) % P
    factor = (factor * factor) % P
  }
  return result
}

function word(value: bigint): Hex {
  return `0x${value.toString(16).padStart(64, '0')}`
}
