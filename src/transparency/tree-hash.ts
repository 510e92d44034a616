/**
 * The hashes of RFC 6962. Leaves and inner nodes are hashed with different prefixes, so that a leaf cannot be passed
 * off as an inner node. SHA-256 is a parameter, because Node's own SHA-256 is ten times faster than the portable one
 * for browsers.
 */

import { sha256 } from '@noble/hashes/sha2.js'

export type Sha256 = (bytes: Uint8Array) => Uint8Array

export type TreeHasher = {
  leaf(entry: Uint8Array): Uint8Array
  node(left: Uint8Array, right: Uint8Array): Uint8Array
  /** Root of a tree without leaves. */
  readonly emptyRoot: Uint8Array
}

export const HASH_BYTES = 32
const LEAF_PREFIX = 0
const NODE_PREFIX = 1

export function makeTreeHasher(hash: Sha256): TreeHasher {
  const pair = new Uint8Array(1 + 2 * HASH_BYTES)
  pair[0] = NODE_PREFIX
  return {
    leaf(entry) {
      const bytes = new Uint8Array(1 + entry.length)
      bytes[0] = LEAF_PREFIX
      bytes.set(entry, 1)
      return hash(bytes)
    },
    node(left, right) {
      pair.set(left, 1)
      pair.set(right, 1 + HASH_BYTES)
      return hash(pair)
    },
    emptyRoot: hash(new Uint8Array(0)),
  }
}

/** Hasher with the portable SHA-256, which works in Node and browsers. */
export const treeHasher: TreeHasher = makeTreeHasher(sha256)

export function sameBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, at) => byte === right[at])
}
