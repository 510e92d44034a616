/** The public log as a front reads it: trees, tiles and entries from the database, up to the published checkpoint. */

import { PUBLIC_ENTRIES_SEARCHED_MAX } from '#domain/limits.ts'
import { inclusionText } from '#transparency/inclusion-text.ts'
import { inclusionProof } from '#transparency/merkle-proof.ts'
import { subtreesOf } from '#transparency/tiles.ts'
import { HASH_BYTES } from '#transparency/tree-hash.ts'

/** A tree with its newest published checkpoint. */
export type PublishedTree = {
  readonly partition: number
  readonly logId: string
  readonly publishedSize: number
  /** The signed checkpoint; an empty text if no checkpoint is signed yet. */
  readonly checkpoint: string
  /** The newest checkpoint that a witness has cosigned. */
  readonly cosigned?: { readonly size: number; readonly checkpoint: string }
}

export type PublicLogSource = {
  /** Returns the published trees of all partitions; an empty list if the log is not public. */
  trees(): Promise<readonly PublishedTree[]> | readonly PublishedTree[]
  tile(partition: number, level: number, index: number): Promise<Uint8Array | undefined>
  entries(partition: number, from: number, count: number): Promise<readonly Uint8Array[]>
  /** Returns the index of the first leaf (entry) with an event at this time or later; undefined if there is none. */
  leafAt(partition: number, atMs: number): Promise<number | undefined>
  /** Verifier keys of the witnesses to which checkpoints are submitted. */
  readonly witnesses: readonly string[]
  /** Returns the verifier keys of the log of a partition. */
  keys(tree: PublishedTree): readonly string[]
}

/** Number of leaves that a search reads at a time. */
const SEARCH_STEP = 16

/** Returns the newest checkpoint. If witnesses have cosigned this checkpoint, it includes their cosignatures. */
export function newestCheckpoint({ checkpoint, cosigned, publishedSize }: PublishedTree): string {
  return cosigned?.size === publishedSize ? cosigned.checkpoint : checkpoint
}

export async function treeOf(
  source: PublicLogSource,
  partition: number,
): Promise<PublishedTree | undefined> {
  const tree = (await source.trees()).find((each) => each.partition === partition)
  return tree === undefined || tree.checkpoint === '' ? undefined : tree
}

/**
 * Returns the offline proof of the first published entry at or after the given time for which `holds` is true. Searches
 * at most `PUBLIC_ENTRIES_SEARCHED_MAX` entries. Returns undefined if none of them matches.
 */
export async function proveEntry(
  source: PublicLogSource,
  place: { readonly partition: number; readonly atMs: number },
  holds: (entry: Uint8Array) => boolean,
): Promise<string | undefined> {
  const { partition, atMs } = place
  const tree = await treeOf(source, partition)
  const from = await source.leafAt(partition, atMs)
  if (tree === undefined || from === undefined) return undefined
  const end = Math.min(tree.publishedSize, from + PUBLIC_ENTRIES_SEARCHED_MAX)
  for (let at = from; at < end; at += SEARCH_STEP) {
    const entries = await source.entries(partition, at, Math.min(SEARCH_STEP, end - at))
    const found = entries.findIndex(holds)
    if (found >= 0) return proofText(source, tree, at + found, entries[found]!)
  }
  return undefined
}

async function proofText(
  source: PublicLogSource,
  tree: PublishedTree,
  index: number,
  entry: Uint8Array,
): Promise<string> {
  const { partition, cosigned, publishedSize } = tree
  // If the newest cosigned checkpoint covers the entry, the proof uses it, even if a newer checkpoint exists.
  // Cosignatures of witnesses make a proof stronger.
  const isCosigned = cosigned !== undefined && index < cosigned.size
  const { size, checkpoint } = isCosigned ? cosigned : { ...tree, size: publishedSize }
  const tiles = new Map<string, Promise<Uint8Array | undefined>>()
  const subtrees = subtreesOf(size, async ({ level, index: place, width }) => {
    const name = `${level}/${place}`
    const reading = tiles.get(name) ?? source.tile(partition, level, place)
    tiles.set(name, reading)
    // The stored tile may have grown since the checkpoint was signed, so only the hashes that the checkpoint covers are
    // used.
    return (await reading)?.subarray(0, width * HASH_BYTES) ?? new Uint8Array(0)
  })
  const proof = await inclusionProof(index, size, subtrees)
  return inclusionText({ extra: entry, index, proof, checkpoint })
}
