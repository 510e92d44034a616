/**
 * Ed25519 cosignatures of C2SP tlog-cosignature. By cosigning a checkpoint, a witness states that it has cosigned no
 * contradicting checkpoint of the same log.
 */

import type { Note } from './note.ts'
import {
  bytesOf,
  COSIGNATURE,
  isSignature,
  type NoteSigner,
  SIGNATURE_BYTES,
  signatureLine,
  signaturesBy,
  type VerifierKey,
} from './note.ts'

const TIMESTAMP_BYTES = 8

/** Returns the signature line that a witness adds to a checkpoint. */
export function cosign(checkpointText: string, atSec: number, signer: NoteSigner): string {
  const timestamp = new Uint8Array(TIMESTAMP_BYTES)
  new DataView(timestamp.buffer).setBigUint64(0, BigInt(atSec))
  const signature = signer.sign(message(checkpointText, atSec))
  return signatureLine(signer.key, bytesOf(timestamp, signature))
}

/**
 * Returns the time, in Unix seconds, at which the witness signed the checkpoint. Returns undefined if the witness did
 * not sign it, or if one of the witness's signatures is wrong.
 */
export function cosignedAtSec(note: Note, witness: VerifierKey): number | undefined {
  let newest: number | undefined
  for (const { signature } of signaturesBy(note, witness)) {
    const atSec = timeOf(signature)
    if (
      witness.type !== COSIGNATURE ||
      atSec === undefined ||
      !isSignature(signature.slice(TIMESTAMP_BYTES), message(note.text, atSec), witness)
    ) {
      return undefined
    }
    newest = Math.max(newest ?? 0, atSec)
  }
  return newest
}

function timeOf(signature: Uint8Array): number | undefined {
  if (signature.length !== TIMESTAMP_BYTES + SIGNATURE_BYTES) return undefined
  const view = new DataView(signature.buffer, signature.byteOffset)
  const atSec = Number(view.getBigUint64(0))
  return Number.isSafeInteger(atSec) ? atSec : undefined
}

function message(checkpointText: string, atSec: number): Uint8Array {
  return bytesOf(`cosignature/v1\ntime ${atSec}\n${checkpointText}`)
}
