/**
 * Tiles of C2SP tlog-tiles: 256 consecutive hashes of every eighth level of the tree. A tile is immutable; the last one
 * of a level may be partial, and its hashes are the first ones of the full tile.
 */

import type { SubtreeReader } from './merkle-proof.ts'
import { HASH_BYTES, type TreeHasher, treeHasher } from './tree-hash.ts'

export const TILE_WIDTH = 256
/** Number of levels of the tree between two levels of tiles. */
const TILE_HEIGHT = 8
const LEVEL_MAX = 63

/** A tile of hashes, or with the level `entries` a bundle of entries. */
export type TilePlace = {
  readonly level: number | 'entries'
  readonly index: number
  /** Number of hashes or entries; 256 in a full tile. */
  readonly width: number
}

/** Returns the path of a tile below the prefix of its log: `tile/0/x001/x234/067`, `tile/entries/000.p/17`. */
export function tilePath({ level, index, width }: TilePlace): string {
  const groups = [String(index % 1_000).padStart(3, '0')]
  for (let rest = Math.floor(index / 1_000); rest > 0; rest = Math.floor(rest / 1_000)) {
    groups.unshift(`x${String(rest % 1_000).padStart(3, '0')}`)
  }
  const partial = width === TILE_WIDTH ? '' : `.p/${width}`
  return `tile/${level}/${groups.join('/')}${partial}`
}

/** Parses the path of a tile; undefined if it is not in the standard's form. */
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

/** Returns how many hashes a tree of `size` leaves has in a tile; 0 if it does not have the tile. */
export function tileWidth(size: number, { level, index }: Omit<TilePlace, 'width'>): number {
  const hashes = Math.floor(size / TILE_WIDTH ** (level === 'entries' ? 0 : level))
  return Math.max(0, Math.min(TILE_WIDTH, hashes - index * TILE_WIDTH))
}

/** Reads a tile of a tree of the reader's size; returns exactly the hashes of that tile. */
type TileReader = (
  place: TilePlace & { readonly level: number },
) => Promise<Uint8Array> | Uint8Array

/** Reads subtrees of a tree of `size` leaves out of its tiles. */
export function subtreesOf(size: number, read: TileReader): SubtreeReader {
  return async (level, index) => {
    const tileLevel = Math.floor(level / TILE_HEIGHT)
    const span = 2 ** (level % TILE_HEIGHT)
    const first = index * span
    const tile = { level: tileLevel, index: Math.floor(first / TILE_WIDTH) }
    const width = tileWidth(size, tile)
    const start = first % TILE_WIDTH
    if (start + span > width) throw new RangeError(`subtree ${level}/${index} of a tree of ${size}`)
    const bytes = await read({ ...tile, width })
    if (bytes.length !== width * HASH_BYTES) {
      throw new Error(`${tilePath({ ...tile, width })} has ${bytes.length} bytes`)
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
