/** Reads and verifies a log on another server. It trusts only the key of the log. */

import { type Checkpoint, openCheckpoint } from './checkpoint.ts'
import { decodeBundle } from './entry-bundle.ts'
import { consistencyProof, type SubtreeReader, verifyConsistency } from './merkle-proof.ts'
import type { VerifierKey } from './note.ts'
import { subtreesOf, TILE_WIDTH, type TilePlace, tilePath, tileWidth } from './tiles.ts'
import type { TreeBuilder } from './tree-builder.ts'
import { HASH_BYTES, sameBytes, treeHasher } from './tree-hash.ts'

/** Reads the file at a path below the prefix of the log; undefined if there is none. */
export type LogGet = (path: string) => Promise<Uint8Array | undefined>

/** A file of the log could not be read, which proves nothing about the log. */
export class LogUnavailable extends Error {}

export type RemoteLog = { readonly get: LogGet; readonly key: VerifierKey }

const decoder = new TextDecoder('utf-8', { fatal: true })

/** Reads the newest checkpoint; throws if it is not one of the key's log. */
export async function readCheckpoint({
  get,
  key,
}: RemoteLog): Promise<Checkpoint & { text: string }> {
  const text = decoder.decode(await expected(get, 'checkpoint'))
  return { ...openCheckpoint(text, key), text }
}

/** Reads subtrees of the tree of a checkpoint from tiles, each once. */
function remoteSubtrees({ get }: RemoteLog, size: number): SubtreeReader {
  const tiles = new Map<string, Promise<Uint8Array>>()
  return subtreesOf(size, (place) => {
    const path = tilePath(place)
    const reading = tiles.get(path) ?? readTile(get, place)
    tiles.set(path, reading)
    return reading
  })
}

/** Reads a tile. A log may have deleted a partial tile after it was full. */
async function readTile(get: LogGet, place: TilePlace): Promise<Uint8Array> {
  const tile =
    (await get(tilePath(place))) ?? (await expected(get, tilePath({ ...place, width: TILE_WIDTH })))
  return tile.subarray(0, place.width * HASH_BYTES)
}

/** Throws unless the tree of the newer checkpoint begins with the tree of the older one. Returns the proof. */
export async function proveConsistency(
  log: RemoteLog,
  older: Pick<Checkpoint, 'head'>,
  newer: Pick<Checkpoint, 'head'>,
): Promise<Uint8Array[]> {
  const { size: oldSize, root: oldRoot, origin } = older.head
  const { size, root } = newer.head
  const proof = await consistencyProof(oldSize, size, remoteSubtrees(log, size))
  if (!verifyConsistency({ oldSize, oldRoot, size, root, proof })) {
    throw new Error(
      `${origin} was rewritten: its ${size} entries do not begin with the ${oldSize} entries that were verified before`,
    )
  }
  return proof
}

/**
 * Downloads the entries of a checkpoint that `builder` does not have, and adds them to it. Throws if they do not lead
 * to the root of the checkpoint, or if the log's tiles differ from those computed from its entries.
 */
export async function verifyEntries(
  { get }: RemoteLog,
  { head }: Pick<Checkpoint, 'head'>,
  builder: TreeBuilder,
  each: (entry: Uint8Array, index: number) => void = () => {},
): Promise<void> {
  const { origin, size, root } = head
  while (builder.size < size) {
    const index = Math.floor(builder.size / TILE_WIDTH)
    const width = tileWidth(size, { level: 'entries', index })
    const place = { level: 'entries', index, width } as const
    const bundle =
      (await get(tilePath(place))) ??
      (await expected(get, tilePath({ ...place, width: TILE_WIDTH })))
    const entries = decodeBundle(bundle, width) ?? decodeBundle(bundle, TILE_WIDTH)
    if (entries === undefined) throw new Error(`${origin}: ${tilePath(place)} is malformed`)
    for (const entry of entries.slice(builder.size % TILE_WIDTH, width)) {
      each(entry, builder.size)
      builder.append(treeHasher.leaf(entry))
    }
  }
  if (!sameBytes(builder.root(), root)) {
    throw new Error(`${origin}: the first ${size} entries have another root than the checkpoint`)
  }
  for (const { level, index, hashes } of builder.takeChanged()) {
    const width = hashes.length / HASH_BYTES
    if (!sameBytes(await readTile(get, { level, index, width }), hashes)) {
      throw new Error(`${origin}: ${tilePath({ level, index, width })} differs from the entries`)
    }
  }
}

async function expected(get: LogGet, path: string): Promise<Uint8Array> {
  const found = await get(path)
  if (found === undefined) throw new LogUnavailable(`the log has no ${path}`)
  return found
}
