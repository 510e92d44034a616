/**
 * The log's side of C2SP tlog-witness: requests a cosignature from a witness, and selects the valid lines of the
 * answer.
 */

import { trimEnd } from '#domain/trim-end.ts'
import { toBase64 } from './base64.ts'
import { cosignedAtSec } from './cosignature.ts'
import {
  COSIGNATURE,
  parseNote,
  parseVerifierKey,
  signatureLine,
  signaturesBy,
  type VerifierKey,
} from './note.ts'

export type WitnessAddress = { readonly key: VerifierKey; readonly url: string }

/** Parses `name+id+key@https://…`. Returns undefined if the text is not a witness's key and address. */
export function parseWitness(text: string): WitnessAddress | undefined {
  const [, keyText = '', url = ''] =
    /^([^+@\s]+\+[0-9a-f]{8}\+[^@\s]+)@(https?:\/\/\S+)$/.exec(text) ?? []
  const key = parseVerifierKey(keyText)
  if (key?.type !== COSIGNATURE || !URL.canParse(url)) return undefined
  return { key, url: trimEnd(url, '/') }
}

/**
 * Returns the body of `POST add-checkpoint`. `oldSize` is the number of entries that the witness has already cosigned.
 */
export function addCheckpointBody(
  oldSize: number,
  proof: readonly Uint8Array[],
  checkpoint: string,
): string {
  return `${[`old ${oldSize}`, ...proof.map(toBase64)].join('\n')}\n\n${checkpoint}`
}

/** Maximum length of a witness's answer, enough for some signature lines. A longer answer is rejected. */
const ANSWER_BYTES_MAX = 16_384

/** Sends a request to a witness. `signal` aborts the request. */
export async function postToWitness(
  url: string,
  body: string,
  signal: AbortSignal,
): Promise<{ readonly status: number; readonly text: string }> {
  const headers = { 'content-type': 'text/plain; charset=utf-8' }
  const response = await fetch(url, { method: 'POST', body, headers, signal, redirect: 'error' })
  let text = ''
  const decoder = new TextDecoder()
  for await (const part of response.body ?? []) {
    text += decoder.decode(part, { stream: true })
    if (text.length > ANSWER_BYTES_MAX) {
      throw new Error(`the answer of the witness has more than ${ANSWER_BYTES_MAX} bytes`)
    }
  }
  return { status: response.status, text }
}

export type PostToWitness = typeof postToWitness

/**
 * Returns the lines of a witness's answer that are valid cosignatures of the checkpoint; undefined if the answer has
 * none.
 */
export function cosignatureLines(
  checkpoint: string,
  answer: string,
  key: VerifierKey,
): string | undefined {
  const note = parseNote(checkpoint + answer)
  // If the answer contains a blank line, `parseNote` takes everything before that line as the note's text. This text
  // differs from the checkpoint's text, so the answer is rejected.
  if (note === undefined || note.text !== parseNote(checkpoint)?.text) return undefined
  if (cosignedAtSec(note, key) === undefined) return undefined
  return signaturesBy(note, key)
    .map(({ signature }) => signatureLine(key, signature))
    .join('')
}
