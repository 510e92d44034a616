/**
 * Offline proofs of C2SP tlog-proof: one text with an entry's index, its inclusion proof and a checkpoint. `extra`
 * contains the entry itself. So a verifier needs only this text and the key of the log.
 */

import { fromBase64, toBase64 } from './base64.ts'
import { openCheckpoint, parseCheckpoint, parseDecimal, type TreeHead } from './checkpoint.ts'
import { cosignedAtSec } from './cosignature.ts'
import { verifyInclusion } from './merkle-proof.ts'
import type { VerifierKey } from './note.ts'
import { HASH_BYTES, treeHasher } from './tree-hash.ts'

const HEADER = 'c2sp.org/tlog-proof@v1'
/** A tree has at most 2^53 leaves, so a proof has at most this many hashes. */
const PROOF_HASHES_MAX = 53

type InclusionText = {
  readonly extra?: Uint8Array
  readonly index: number
  readonly proof: readonly Uint8Array[]
  /** With signatures. */
  readonly checkpoint: string
}

export function inclusionText({ extra, index, proof, checkpoint }: InclusionText): string {
  const lines = [HEADER, ...(extra === undefined ? [] : [`extra ${toBase64(extra)}`])]
  lines.push(`index ${index}`, ...proof.map(toBase64))
  return `${lines.join('\n')}\n\n${checkpoint}`
}

/** Parses the text without checking its proof or signatures; undefined if it is malformed. */
export function parseInclusionText(text: string): InclusionText | undefined {
  const blank = text.indexOf('\n\n')
  if (blank < 0) return undefined
  const lines = text.slice(0, blank).split('\n')
  const checkpoint = text.slice(blank + 2)
  if (lines.shift() !== HEADER || parseCheckpoint(checkpoint) === undefined) return undefined
  let extra: Uint8Array | undefined
  if (lines[0]?.startsWith('extra ')) {
    extra = fromBase64(lines.shift()!.slice('extra '.length))
    if (extra === undefined) return undefined
  }
  const [, indexText = ''] = /^index ([0-9]+)$/.exec(lines.shift() ?? '') ?? []
  const index = parseDecimal(indexText)
  const proof = parseHashes(lines)
  if (index === undefined || proof === undefined) return undefined
  return { ...(extra === undefined ? {} : { extra }), index, proof, checkpoint }
}

/**
 * Parses lines of base64, each with one hash. Returns undefined if a line is invalid, or if there are more lines than a
 * proof can have.
 */
export function parseHashes(lines: readonly string[]): Uint8Array[] | undefined {
  if (lines.length > PROOF_HASHES_MAX) return undefined
  const hashes: Uint8Array[] = []
  for (const line of lines) {
    const hash = fromBase64(line)
    if (hash?.length !== HASH_BYTES) return undefined
    hashes.push(hash)
  }
  return hashes
}

/**
 * Verifies a proof that contains its entry; throws if any part is wrong. Returns the entry and the names of the
 * witnesses that cosigned the checkpoint.
 */
export function verifyInclusionText(
  text: string,
  key: VerifierKey,
  witnesses: readonly VerifierKey[] = [],
): {
  readonly entry: Uint8Array
  readonly index: number
  readonly head: TreeHead
  readonly cosigners: readonly string[]
} {
  const parsed = parseInclusionText(text)
  if (parsed?.extra === undefined)
    throw new Error('the proof is malformed, or does not contain its entry')
  const { head, note } = openCheckpoint(parsed.checkpoint, key)
  const { index, proof, extra: entry } = parsed
  const leafHash = treeHasher.leaf(entry)
  if (!verifyInclusion({ leafHash, index, size: head.size, root: head.root, proof })) {
    throw new Error(`entry ${index} is not in the tree of ${head.size} entries of ${head.origin}`)
  }
  const cosigners = witnesses.filter((witness) => cosignedAtSec(note, witness) !== undefined)
  return { entry, index, head, cosigners: cosigners.map(({ name }) => name) }
}
