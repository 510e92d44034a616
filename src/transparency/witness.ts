/**
 * A witness of C2SP tlog-witness. It cosigns a checkpoint only if the checkpoint is consistent with the newest one that
 * it cosigned for the same log. It returns HTTP statuses and bodies. The caller runs the HTTP server and stores the
 * state.
 */

import { type Checkpoint, parseCheckpoint, parseDecimal } from './checkpoint.ts'
import { cosign } from './cosignature.ts'
import { parseHashes } from './inclusion-text.ts'
import { verifyConsistency } from './merkle-proof.ts'
import {
  isSignedBy,
  type Note,
  type NoteSigner,
  signatureLine,
  signaturesBy,
  type VerifierKey,
} from './note.ts'
import { sameBytes, treeHasher } from './tree-hash.ts'

export type WitnessState = {
  /** Returns the newest cosigned checkpoint of a log with its cosignature. */
  read(origin: string): string | undefined
  /** Stores a newer checkpoint. Must return only when the checkpoint is durable. */
  write(origin: string, checkpoint: string): void
}

export type Witness = {
  /** Keys of each log that the witness cosigns, by the log's origin. */
  readonly logs: ReadonlyMap<string, readonly VerifierKey[]>
  readonly signer: NoteSigner
  readonly state: WitnessState
  readonly nowSec: () => number
}

type WitnessAnswer = { readonly status: number; readonly body: string; readonly type: string }

const BODY_CHARS_MAX = 100_000

/**
 * Answers `POST add-checkpoint`. The function is synchronous, so that no other request runs between its check and its
 * write.
 */
export function addCheckpoint(witness: Witness, body: string): WitnessAnswer {
  const request = parseRequest(body)
  if (request === undefined) return plain(400, 'the request is malformed\n')
  const { oldSize, proof, checkpoint } = request
  const { head } = checkpoint
  const keys = witness.logs.get(head.origin)
  if (keys === undefined)
    return plain(404, 'this witness does not cosign the log of the checkpoint\n')
  if (!isSigned(checkpoint, keys))
    return plain(403, 'the signature of the log on the checkpoint is missing or invalid\n')
  if (oldSize > head.size)
    return plain(400, 'the old size is larger than the size of the checkpoint\n')
  const before = cosignedBefore(witness.state, head.origin)?.head
  if (oldSize !== (before?.size ?? 0)) {
    return { status: 409, body: `${before?.size ?? 0}\n`, type: 'text/x.tlog.size' }
  }
  const oldRoot = before?.root ?? treeHasher.emptyRoot
  if (oldSize === head.size && !sameBytes(oldRoot, head.root)) {
    return plain(409, 'this witness has a different root hash for this tree size\n')
  }
  const isEmptyRight = head.size > 0 || sameBytes(head.root, treeHasher.emptyRoot)
  const { size, root } = head
  if (!isEmptyRight || !verifyConsistency({ oldSize, oldRoot, size, root, proof })) {
    return plain(
      422,
      'the proof does not show that the checkpoint is consistent with the last cosigned checkpoint\n',
    )
  }
  const line = cosign(checkpoint.note.text, witness.nowSec(), witness.signer)
  witness.state.write(head.origin, ownNote(checkpoint.note, keys) + line)
  return plain(200, line)
}

/**
 * Returns the newest checkpoint that was cosigned for a log. Throws if the stored checkpoint cannot be read: without
 * its last checkpoint, a witness could cosign a contradicting history of the log.
 */
export function cosignedBefore(state: WitnessState, origin: string): Checkpoint | undefined {
  const known = state.read(origin)
  const checkpoint = known === undefined ? undefined : parseCheckpoint(known)
  if (known === undefined || checkpoint?.head.origin === origin) return checkpoint
  throw new Error(
    `the last cosigned checkpoint of ${origin} cannot be read: restore it from a backup`,
  )
}

/**
 * Returns the note with one signature per key of `keys`. Signatures of other keys are left out, because any client can
 * add many of them to a checkpoint.
 */
function ownNote(note: Note, keys: readonly VerifierKey[]): string {
  const lines = keys.flatMap((key) =>
    signaturesBy(note, key)
      .slice(0, 1)
      .map(({ signature }) => signatureLine(key, signature)),
  )
  return `${note.text}\n${lines.join('')}`
}

/**
 * Returns whether at least one trusted key has signed the checkpoint. Returns false if the checkpoint has an invalid
 * signature with the name and id of a trusted key.
 */
function isSigned({ note }: Checkpoint, keys: readonly VerifierKey[]): boolean {
  const named = keys.filter((key) => signaturesBy(note, key).length > 0)
  return named.length > 0 && named.every((key) => isSignedBy(note, key))
}

function parseRequest(
  body: string,
): { oldSize: number; proof: Uint8Array[]; checkpoint: Checkpoint } | undefined {
  const blank = body.indexOf('\n\n')
  if (blank < 0 || body.length > BODY_CHARS_MAX) return undefined
  const [first = '', ...lines] = body.slice(0, blank).split('\n')
  const [, oldText = ''] = /^old ([0-9]+)$/.exec(first) ?? []
  const oldSize = parseDecimal(oldText)
  const proof = parseHashes(lines)
  const checkpoint = parseCheckpoint(body.slice(blank + 2))
  if (oldSize === undefined || proof === undefined || checkpoint === undefined) return undefined
  return { oldSize, proof, checkpoint }
}

function plain(status: number, body: string): WitnessAnswer {
  return { status, body, type: 'text/plain; charset=utf-8' }
}
