/** The tree: hashes and proofs of RFC 6962, and tiles, against the vectors of Certificate Transparency. */

import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import {
  consistencyProof,
  inclusionProof,
  verifyConsistency,
  verifyInclusion,
} from '#transparency/merkle-proof.ts'
import { parseTilePath, subtreesOf, TILE_WIDTH, tilePath, tileWidth } from '#transparency/tiles.ts'
import { type BuiltTile, lastTiles, TreeBuilder } from '#transparency/tree-builder.ts'
import { HASH_BYTES, makeTreeHasher, treeHasher } from '#transparency/tree-hash.ts'

/** Leaves and roots from the tests of Certificate Transparency. */
const LEAVES = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657'].concat(
  '606162636465666768696a6b6c6d6e6f',
)
const ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
]

const hasher = makeTreeHasher((bytes) => createHash('sha256').update(bytes).digest())
const hexOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

/** Grows a tree and keeps its tiles as a log would. */
function makeLog() {
  const builder = new TreeBuilder(hasher)
  const tiles = new Map<string, BuiltTile>()
  const leaf = (at: number): Uint8Array => hasher.leaf(Buffer.from(`leaf ${at}`))
  return {
    builder,
    leaf,
    grow(size: number): void {
      while (builder.size < size) builder.append(leaf(builder.size))
      for (const tile of builder.takeChanged()) tiles.set(`${tile.level}/${tile.index}`, tile)
    },
    tiles,
    subtrees: (size: number) =>
      subtreesOf(size, ({ level, index, width }) =>
        tiles.get(`${level}/${index}`)!.hashes.subarray(0, width * HASH_BYTES),
      ),
  }
}

/** Computes a root exactly as RFC 6962, section 2.1, defines it. */
function naiveRoot(leaves: readonly Uint8Array[]): Uint8Array {
  if (leaves.length === 0) return hasher.emptyRoot
  if (leaves.length === 1) return leaves[0]!
  let split = 1
  while (split * 2 < leaves.length) split *= 2
  return hasher.node(naiveRoot(leaves.slice(0, split)), naiveRoot(leaves.slice(split)))
}

test('a Merkle tree of the standard’s test leaves has the roots that the standard lists', () => {
  const builder = new TreeBuilder(treeHasher)
  assert.equal(hexOf(builder.root()), ROOTS[0])
  for (const [at, leaf] of LEAVES.entries()) {
    builder.append(treeHasher.leaf(Buffer.from(leaf, 'hex')))
    assert.equal(hexOf(builder.root()), ROOTS[at + 1])
  }
})

test('every leaf of a small Merkle tree has a proof that verifies, and an altered proof does not verify', async () => {
  const log = makeLog()
  for (let size = 1; size <= 40; size++) {
    log.grow(size)
    const root = log.builder.root()
    const leaves = Array.from({ length: size }, (_, at) => log.leaf(at))
    assert.deepEqual(hexOf(root), hexOf(naiveRoot(leaves)))
    for (let index = 0; index < size; index++) {
      const proof = await inclusionProof(index, size, log.subtrees(size))
      const claim = { leafHash: log.leaf(index), index, size, root, proof }
      assert(verifyInclusion(claim), `leaf ${index} of ${size}`)
      assert(!verifyInclusion({ ...claim, leafHash: log.leaf(size) }))
      assert(!verifyInclusion({ ...claim, index: index + 1 }) || size === 1)
      assert(!verifyInclusion({ ...claim, proof: [...proof, root] }))
      for (const at of proof.keys()) {
        const flipped = proof.map((hash, place) => (place === at ? flip(hash) : hash))
        assert(!verifyInclusion({ ...claim, proof: flipped }))
      }
    }
  }
})

test('a consistency proof verifies between each small Merkle tree and each smaller one, but not for altered trees', async () => {
  const log = makeLog()
  const roots = [log.builder.root()]
  for (let size = 1; size <= 40; size++) {
    log.grow(size)
    const root = log.builder.root()
    roots.push(root)
    for (let oldSize = 0; oldSize <= size; oldSize++) {
      const proof = await consistencyProof(oldSize, size, log.subtrees(size))
      const claim = { oldSize, oldRoot: roots[oldSize]!, size, root, proof }
      assert(verifyConsistency(claim), `from ${oldSize} to ${size}`)
      assert(!verifyConsistency({ ...claim, oldRoot: flip(roots[oldSize]!) }))
      if (oldSize > 0) assert(!verifyConsistency({ ...claim, root: flip(root) }))
      if (oldSize > 0) assert(!verifyConsistency({ ...claim, proof: [...proof, root] }))
      for (const at of proof.keys()) {
        const flipped = proof.map((hash, place) => (place === at ? flip(hash) : hash))
        assert(!verifyConsistency({ ...claim, proof: flipped }))
      }
    }
  }
})

test('a Merkle tree that is restored from its stored tiles has the same root', async () => {
  const log = makeLog()
  for (const size of [1, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 70_000]) {
    log.grow(size)
    const stored = lastTiles(size).flatMap(
      ({ level, index }) => log.tiles.get(`${level}/${index}`) ?? [],
    )
    const again = TreeBuilder.from(size, stored, hasher)
    assert.equal(hexOf(again.root()), hexOf(log.builder.root()), `size ${size}`)
    const first = { leafHash: log.leaf(0), index: 0, size, root: log.builder.root() }
    const proof = await inclusionProof(0, size, log.subtrees(size))
    assert(verifyInclusion({ ...first, proof }), `tiles of size ${size}`)
    again.append(log.leaf(size))
    assert.notEqual(hexOf(again.root()), hexOf(log.builder.root()))
  }
  const root = log.builder.root()
  for (const index of [0, 255, 256, 65_535, 65_536, 69_999]) {
    const proof = await inclusionProof(index, 70_000, log.subtrees(70_000))
    assert(verifyInclusion({ leafHash: log.leaf(index), index, size: 70_000, root, proof }))
  }
})

test('a Merkle tree of 70,000 leaves has the tiles that the standard lists for it', () => {
  const widths = [0, 1, 2].map((level) => {
    const full = Math.floor(tileCount(70_000, level))
    return [full, tileWidth(70_000, { level, index: full })]
  })
  assert.deepEqual(widths, [
    [273, 112],
    [1, 17],
    [0, 1],
  ])
  assert.equal(tileWidth(256, { level: 0, index: 0 }), TILE_WIDTH)
  assert.equal(tileWidth(256, { level: 1, index: 0 }), 1)
  assert.equal(tileWidth(256, { level: 0, index: 1 }), 0)
})

test('a tile of a Merkle tree has the path that the standard defines', () => {
  assert.equal(tilePath({ level: 3, index: 1_234_067, width: TILE_WIDTH }), 'tile/3/x001/x234/067')
  assert.equal(tilePath({ level: 'entries', index: 5, width: 17 }), 'tile/entries/005.p/17')
  for (const path of ['tile/3/x001/x234/067', 'tile/0/000.p/255', 'tile/entries/x001/000']) {
    assert.equal(tilePath(parseTilePath(path)!), path)
  }
  for (const path of [
    ...['tile/64/000', 'tile/00/000', 'tile/0/00', 'tile/0/x000/001', 'tile/0/1000'],
    ...['tile/0/000.p/256', 'tile/0/000.p/0', 'tile/0/000.p/01', 'tile/0/000/', 'tile/-1/000'],
    ...['tile/data/000', 'tile/0/x01/000', 'tile/0/001/000', '/tile/0/000', 'tile/0/000.p/'],
  ]) {
    assert.equal(parseTilePath(path), undefined, path)
  }
})

function tileCount(size: number, level: number): number {
  return Math.floor(size / TILE_WIDTH ** level) / TILE_WIDTH
}

function flip(hash: Uint8Array): Uint8Array {
  const flipped = Uint8Array.from(hash)
  flipped[7]! ^= 1
  return flipped
}
