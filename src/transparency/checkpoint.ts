/** Checkpoints of C2SP tlog-checkpoint: the size and the root of a log, signed by the log. */

import { fromBase64, toBase64 } from './base64.ts'
import { isSignedBy, type Note, parseNote, type VerifierKey } from './note.ts'
import { HASH_BYTES } from './tree-hash.ts'

export type TreeHead = {
  /** Identifies the log. */
  readonly origin: string
  readonly size: number
  readonly root: Uint8Array
}

export function checkpointText({ origin, size, root }: TreeHead): string {
  return `${origin}\n${size}\n${toBase64(root)}\n`
}

/** Reads the text of a checkpoint; undefined if it is malformed. Extension lines are accepted and ignored. */
export function parseTreeHead(text: string): TreeHead | undefined {
  const lines = text.split('\n')
  if (lines.pop() !== '' || lines.length < 3 || lines.includes('')) return undefined
  const [origin = '', sizeText = '', rootText = ''] = lines
  const size = parseDecimal(sizeText)
  const root = fromBase64(rootText)
  if (size === undefined || root?.length !== HASH_BYTES) return undefined
  return { origin, size, root }
}

export type Checkpoint = { readonly note: Note; readonly head: TreeHead }

/** Reads a checkpoint without trusting its signatures; undefined if it is malformed. */
export function parseCheckpoint(text: string): Checkpoint | undefined {
  const note = parseNote(text)
  const head = note === undefined ? undefined : parseTreeHead(note.text)
  return note === undefined || head === undefined ? undefined : { note, head }
}

/**
 * Reads a checkpoint of the key's log. Throws if the checkpoint is malformed, belongs to another log, or is not signed
 * by the key.
 */
export function openCheckpoint(text: string, key: VerifierKey): Checkpoint {
  const checkpoint = parseCheckpoint(text)
  if (checkpoint === undefined) throw new Error('the checkpoint is malformed')
  const { origin } = checkpoint.head
  if (origin !== key.name)
    throw new Error(`the checkpoint belongs to the log ${origin}, not to ${key.name}`)
  if (!isSignedBy(checkpoint.note, key)) {
    throw new Error(`the checkpoint of ${origin} is not signed by the key of the log`)
  }
  return checkpoint
}

/** Parses a number as C2SP writes it: decimal, without leading zeros. Returns undefined for any other text. */
export function parseDecimal(text: string): number | undefined {
  const value = /^(0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : Number.NaN
  return Number.isSafeInteger(value) ? value : undefined
}
