/**
 * Builds a growing tree. Keeps the last tile of each level, and returns the tiles that have changed. Memory
 * is at most 8 KiB per level; a tree of fewer than 2^32 leaves has at most four levels of tiles.
 */

import { combine, TILE_WIDTH, tileWidth } from './tiles.ts'
import { HASH_BYTES, type TreeHasher } from './tree-hash.ts'

export type BuiltTile = {
  readonly level: number
  readonly index: number
  readonly hashes: Uint8Array
}

export class TreeBuilder {
  readonly #hasher: TreeHasher
  /** Hashes of the last tile of each level. `append` replaces a full tile by an empty one. */
  readonly #edge: Uint8Array[][] = []
  #size = 0
  #full: BuiltTile[] = []
  #sizeBefore = 0

  constructor(hasher: TreeHasher) {
    this.#hasher = hasher
  }

  /** Continues a tree of `size` leaves from its partial tiles. */
  static from(size: number, tiles: readonly BuiltTile[], hasher: TreeHasher): TreeBuilder {
    const builder = new TreeBuilder(hasher)
    builder.#size = size
    builder.#sizeBefore = size
    for (const { level, index } of lastTiles(size)) {
      const tile = tiles.find((each) => each.level === level && each.index === index)
      const width = tileWidth(size, { level, index })
      if (width > 0 && (tile === undefined || tile.hashes.length < width * HASH_BYTES)) {
        throw new Error(`tile ${level}/${index} of a tree of ${size} leaves is missing`)
      }
      builder.#edge[level] = Array.from({ length: width }, (_, at) =>
        tile!.hashes.slice(at * HASH_BYTES, (at + 1) * HASH_BYTES),
      )
    }
    return builder
  }

  get size(): number {
    return this.#size
  }

  append(leafHash: Uint8Array): void {
    this.#size++
    let hash = leafHash
    for (let level = 0; ; level++) {
      this.#edge[level] ??= []
      const edge = this.#edge[level]!
      edge.push(hash)
      if (edge.length < TILE_WIDTH) return
      const index = this.#size / TILE_WIDTH ** (level + 1) - 1
      this.#full.push({ level, index, hashes: joined(edge) })
      hash = combine(edge, this.#hasher)
      this.#edge[level] = []
    }
  }

  root(): Uint8Array {
    let root: Uint8Array | undefined
    // `root` is the hash of the leaves at the right end of the tree. Each step joins it with the next complete subtree
    // on the left. The loop begins with the lowest level, because its subtrees are the rightmost.
    for (const edge of this.#edge) {
      for (const [from, to] of [...powers(edge.length)].reverse()) {
        const subtree = combine(edge.slice(from, to), this.#hasher)
        root = root === undefined ? subtree : this.#hasher.node(subtree, root)
      }
    }
    return root ?? this.#hasher.emptyRoot
  }

  /** Returns the tiles that have changed since the last call: full tiles, and the partial tile of each level. */
  takeChanged(): BuiltTile[] {
    const partial = lastTiles(this.#size).flatMap(({ level, index }) => {
      const edge = this.#edge[level] ?? []
      const before = tileWidth(this.#sizeBefore, { level, index })
      return edge.length === before ? [] : [{ level, index, hashes: joined(edge) }]
    })
    const changed = [...this.#full, ...partial]
    this.#full = []
    this.#sizeBefore = this.#size
    return changed
  }
}

/** Returns the last tile of each level of a tree; the last tile of a level may be empty. */
export function lastTiles(size: number): { readonly level: number; readonly index: number }[] {
  const tiles: { level: number; index: number }[] = []
  for (let level = 0, hashes = size; hashes > 0; level++) {
    tiles.push({ level, index: Math.floor(hashes / TILE_WIDTH) })
    hashes = Math.floor(hashes / TILE_WIDTH)
  }
  return tiles
}

/**
 * Splits `count` hashes into complete subtrees: groups whose sizes are powers of two, the largest first. Yields the
 * range of each group.
 */
function* powers(count: number): Generator<[from: number, to: number]> {
  let from = 0
  for (let power = TILE_WIDTH / 2; power >= 1; power /= 2) {
    if (from + power > count) continue
    yield [from, from + power]
    from += power
  }
}

function joined(hashes: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(hashes.length * HASH_BYTES)
  for (const [at, hash] of hashes.entries()) bytes.set(hash, at * HASH_BYTES)
  return bytes
}
