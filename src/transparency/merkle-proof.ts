/**
 * Inclusion and consistency proofs of RFC 6962, sections 2.1.1 and 2.1.2. Proofs are made from the hashes of complete
 * subtrees and verified against roots. Tree sizes are safe integers.
 */

import { sameBytes, treeHasher } from './tree-hash.ts'

/** Returns the root of a complete subtree of 2^`level` leaves. `index` is the subtree's position in its level. */
export type SubtreeReader = (level: number, index: number) => Promise<Uint8Array>

/**
 * Returns the inclusion proof of leaf `index` in the tree of `size` leaves. The hash nearest to the leaf comes first.
 */
export async function inclusionProof(
  index: number,
  size: number,
  subtree: SubtreeReader,
): Promise<Uint8Array[]> {
  if (!(index >= 0 && index < size))
    throw new RangeError(`a tree of ${size} leaves has no leaf ${index}`)
  const proof: Uint8Array[] = []
  let from = 0
  let to = size
  while (to - from > 1) {
    const middle = from + largestPowerBelow(to - from)
    if (index < middle) {
      proof.unshift(await rangeRoot(middle, to, subtree))
      to = middle
    } else {
      proof.unshift(await rangeRoot(from, middle, subtree))
      from = middle
    }
  }
  return proof
}

/**
 * Returns the consistency proof: the hashes that prove that the tree of `size` leaves begins with the tree of `oldSize`
 * leaves.
 */
export async function consistencyProof(
  oldSize: number,
  size: number,
  subtree: SubtreeReader,
): Promise<Uint8Array[]> {
  if (!(oldSize >= 0 && oldSize <= size))
    throw new RangeError(
      `a tree of ${size} leaves cannot contain an older tree of ${oldSize} leaves`,
    )
  if (oldSize === 0 || oldSize === size) return []
  const proof: Uint8Array[] = []
  let from = 0
  let to = size
  // The verifier knows the root of the old tree. If the old tree is a complete subtree of the new tree, the proof omits
  // that root.
  while (to !== oldSize) {
    const middle = from + largestPowerBelow(to - from)
    if (oldSize <= middle) {
      proof.unshift(await rangeRoot(middle, to, subtree))
      to = middle
    } else {
      proof.unshift(await rangeRoot(from, middle, subtree))
      from = middle
    }
  }
  return from === 0 ? proof : [await rangeRoot(from, to, subtree), ...proof]
}

/** Returns whether the proof shows that the tree with this root contains the leaf at `index`. */
export function verifyInclusion(claim: {
  readonly leafHash: Uint8Array
  readonly index: number
  readonly size: number
  readonly root: Uint8Array
  readonly proof: readonly Uint8Array[]
}): boolean {
  const { index, size, proof } = claim
  if (!Number.isSafeInteger(index) || !Number.isSafeInteger(size)) return false
  if (index < 0 || index >= size) return false
  let hash = claim.leafHash
  let place = index
  let last = size - 1
  for (const sibling of proof) {
    if (last === 0) return false
    if (place % 2 === 1 || place === last) {
      hash = treeHasher.node(sibling, hash)
      while (place % 2 === 0 && place !== 0) {
        place = half(place)
        last = half(last)
      }
    } else {
      hash = treeHasher.node(hash, sibling)
    }
    place = half(place)
    last = half(last)
  }
  return last === 0 && sameBytes(hash, claim.root)
}

/** Returns whether the tree of `size` leaves begins with the leaves of the old tree. */
export function verifyConsistency(claim: {
  readonly oldSize: number
  readonly oldRoot: Uint8Array
  readonly size: number
  readonly root: Uint8Array
  readonly proof: readonly Uint8Array[]
}): boolean {
  const { oldSize, oldRoot, size, root } = claim
  if (!Number.isSafeInteger(oldSize) || !Number.isSafeInteger(size)) return false
  if (oldSize < 0 || oldSize > size) return false
  if (oldSize === 0) return claim.proof.length === 0 && sameBytes(oldRoot, treeHasher.emptyRoot)
  if (oldSize === size) return claim.proof.length === 0 && sameBytes(oldRoot, root)
  // If the size of the old tree is a power of two, the old tree is a subtree of the new tree. The verifier knows the
  // old root, so the proof omits it.
  const proof = isPowerOfTwo(oldSize) ? [oldRoot, ...claim.proof] : [...claim.proof]
  let place = oldSize - 1
  let last = size - 1
  while (place % 2 === 1) {
    place = half(place)
    last = half(last)
  }
  const first = proof.shift()
  if (first === undefined) return false
  let old = first
  let hash = first
  for (const sibling of proof) {
    if (last === 0) return false
    if (place % 2 === 1 || place === last) {
      old = treeHasher.node(sibling, old)
      hash = treeHasher.node(sibling, hash)
      while (place % 2 === 0 && place !== 0) {
        place = half(place)
        last = half(last)
      }
    } else {
      hash = treeHasher.node(hash, sibling)
    }
    place = half(place)
    last = half(last)
  }
  return last === 0 && sameBytes(old, oldRoot) && sameBytes(hash, root)
}

/** Returns the root of the leaves from `from` up to, but not including, `to`; `from` must be the start of a subtree. */
async function rangeRoot(from: number, to: number, subtree: SubtreeReader): Promise<Uint8Array> {
  const count = to - from
  if (isPowerOfTwo(count)) return subtree(Math.log2(count), from / count)
  const middle = from + largestPowerBelow(count)
  const left = await rangeRoot(from, middle, subtree)
  return treeHasher.node(left, await rangeRoot(middle, to, subtree))
}

/** Returns the largest power of two that is less than `count`. `count` must be at least 2. */
function largestPowerBelow(count: number): number {
  let power = 1
  while (power * 2 < count) power *= 2
  return power
}

function isPowerOfTwo(count: number): boolean {
  return Number.isInteger(Math.log2(count))
}

/** Returns half of an integer, rounded down. A bit shift would be wrong for integers from 2^31 on. */
function half(value: number): number {
  return Math.floor(value / 2)
}
