/**
 * Tiles of C2SP tlog-tiles. A tile has 256 consecutive hashes of one level of the tree. Only every eighth level has
 * tiles. A full tile never changes. The last tile of a level may be partial: it has fewer hashes until the tree has
 * grown.
 */

import type { SubtreeReader } from './merkle-proof.ts'
import { HASH_BYTES, type TreeHasher, treeHasher } from './tree-hash.ts'

export const TILE_WIDTH = 256
/** Number of levels of the tree between two levels of tiles. */
const TILE_HEIGHT = 8
const LEVEL_MAX = 63

/** Place of a tile of hashes, or of a bundle of entries if the level is `entries`. */
export type TilePlace = {
  readonly level: number | 'entries'
  readonly index: number
  /** Number of hashes or entries; 256 in a full tile. */
  readonly width: number
}

/**
 * Returns the path of a tile below the prefix of its log, such as `tile/0/x001/x234/067` or `tile/entries/000.p/17`.
 */
export function tilePath({ level, index, width }: TilePlace): string {
  const groups = [String(index % 1_000).padStart(3, '0')]
  for (let rest = Math.floor(index / 1_000); rest > 0; rest = Math.floor(rest / 1_000)) {
    groups.unshift(`x${String(rest % 1_000).padStart(3, '0')}`)
  }
  const partial = width === TILE_WIDTH ? '' : `.p/${width}`
  return `tile/${level}/${groups.join('/')}${partial}`
}

/** Parses the path of a tile; undefined if the path does not have the form of the standard. */
export function parseTilePath(path: string): TilePlace | undefined {
  const [, level = '', digits = '', partial] =
    /^tile\/(entries|0|[1-9][0-9]?)\/((?:x[0-9]{3}\/){0,4}[0-9]{3})(?:\.p\/([1-9][0-9]{0,2}))?$/.exec(
      path,
    ) ?? []
  if (level === '') return undefined
  const place = {
    level: level === 'entries' ? level : Number(level),
    index: Number(digits.replaceAll(/[x/]/g, '')),
    width: partial === undefined ? TILE_WIDTH : Number(partial),
  } as const
  if (place.level !== 'entries' && place.level > LEVEL_MAX) return undefined
  return tilePath(place) === path ? place : undefined
}

/** Returns the number of hashes that a tile has in a tree of `size` leaves; 0 if that tree does not have the tile. */
export function tileWidth(size: number, { level, index }: Omit<TilePlace, 'width'>): number {
  const hashes = Math.floor(size / TILE_WIDTH ** (level === 'entries' ? 0 : level))
  return Math.max(0, Math.min(TILE_WIDTH, hashes - index * TILE_WIDTH))
}

/** Reads a tile of the tree. Must return exactly `width` hashes. */
type TileReader = (
  place: TilePlace & { readonly level: number },
) => Promise<Uint8Array> | Uint8Array

/** Returns a reader of subtrees of a tree of `size` leaves. The reader computes them from tiles. */
export function subtreesOf(size: number, read: TileReader): SubtreeReader {
  return async (level, index) => {
    const tileLevel = Math.floor(level / TILE_HEIGHT)
    const span = 2 ** (level % TILE_HEIGHT)
    const first = index * span
    const tile = { level: tileLevel, index: Math.floor(first / TILE_WIDTH) }
    const width = tileWidth(size, tile)
    const start = first % TILE_WIDTH
    if (start + span > width)
      throw new RangeError(`a tree of ${size} leaves has no complete subtree ${level}/${index}`)
    const bytes = await read({ ...tile, width })
    if (bytes.length !== width * HASH_BYTES) {
      throw new Error(
        `${tilePath({ ...tile, width })} has ${bytes.length} bytes, not ${width * HASH_BYTES}`,
      )
    }
    return combine(hashesIn(bytes).slice(start, start + span), treeHasher)
  }
}

function hashesIn(tile: Uint8Array): Uint8Array[] {
  return Array.from({ length: tile.length / HASH_BYTES }, (_, at) =>
    tile.subarray(at * HASH_BYTES, (at + 1) * HASH_BYTES),
  )
}

/** Returns the root of a complete subtree from all its hashes of one level. */
export function combine(hashes: readonly Uint8Array[], hasher: TreeHasher): Uint8Array {
  let level = hashes
  while (level.length > 1) {
    level = Array.from({ length: level.length / 2 }, (_, at) =>
      hasher.node(level[2 * at]!, level[2 * at + 1]!),
    )
  }
  return level[0]!
}
