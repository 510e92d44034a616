/** Reads a log on another server and verifies it. Trusts only the key of the log, not the server. */

import { type Checkpoint, openCheckpoint } from './checkpoint.ts'
import { decodeBundle } from './entry-bundle.ts'
import { consistencyProof, type SubtreeReader, verifyConsistency } from './merkle-proof.ts'
import type { VerifierKey } from './note.ts'
import { subtreesOf, TILE_WIDTH, type TilePlace, tilePath, tileWidth } from './tiles.ts'
import type { TreeBuilder } from './tree-builder.ts'
import { HASH_BYTES, sameBytes, treeHasher } from './tree-hash.ts'

/** Reads a file of the log by its path below the log's prefix; undefined if the file does not exist. */
export type LogGet = (path: string) => Promise<Uint8Array | undefined>

/** Thrown if a file of the log cannot be read. This does not prove that the log is invalid. */
export class LogUnavailable extends Error {}

export type RemoteLog = { readonly get: LogGet; readonly key: VerifierKey }

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * Reads the newest checkpoint. Throws if the checkpoint is malformed, belongs to another log, or is not signed by the
 * key.
 */
export async function readCheckpoint({
  get,
  key,
}: RemoteLog): Promise<Checkpoint & { text: string }> {
  const text = decoder.decode(await expected(get, 'checkpoint'))
  return { ...openCheckpoint(text, key), text }
}

/** Returns a reader of subtrees of the tree with `size` leaves. The reader downloads each tile once. */
function remoteSubtrees({ get }: RemoteLog, size: number): SubtreeReader {
  const tiles = new Map<string, Promise<Uint8Array>>()
  return subtreesOf(size, (place) => {
    const path = tilePath(place)
    const reading = tiles.get(path) ?? readTile(get, place)
    tiles.set(path, reading)
    return reading
  })
}

/**
 * Reads a tile. If a partial tile is missing, reads the full tile, because a log may delete a partial tile once the
 * tile is full.
 */
async function readTile(get: LogGet, place: TilePlace): Promise<Uint8Array> {
  const tile =
    (await get(tilePath(place))) ?? (await expected(get, tilePath({ ...place, width: TILE_WIDTH })))
  return tile.subarray(0, place.width * HASH_BYTES)
}

/**
 * Returns the proof that the newer checkpoint's tree begins with the older checkpoint's tree. Throws if the newer tree
 * begins differently.
 */
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
 * Downloads the checkpoint's entries that `builder` does not have, and appends them to `builder`. Throws if the
 * resulting root differs from the checkpoint, or if the log's tiles differ from those computed from the entries.
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
    throw new Error(
      `${origin}: the root hash of the first ${size} entries differs from the root hash in the checkpoint`,
    )
  }
  for (const { level, index, hashes } of builder.takeChanged()) {
    const width = hashes.length / HASH_BYTES
    if (!sameBytes(await readTile(get, { level, index, width }), hashes)) {
      throw new Error(
        `${origin}: the hashes in ${tilePath({ level, index, width })} differ from the entries`,
      )
    }
  }
}

async function expected(get: LogGet, path: string): Promise<Uint8Array> {
  const found = await get(path)
  if (found === undefined) throw new LogUnavailable(`the log has no ${path}`)
  return found
}
