/**
 * Signed notes of C2SP signed-note: text, a blank line, and one line per Ed25519 signature with the name of its key.
 * Signatures by unknown keys are ignored. A wrong signature by a known key makes the whole note invalid.
 */

import { hashes, verify } from '@noble/ed25519'
import { sha256, sha512 } from '@noble/hashes/sha2.js'
import { fromBase64, toBase64 } from './base64.ts'

// With this function, signatures can be verified without WebCrypto. Browsers offer WebCrypto only on secure pages.
hashes.sha512 = sha512

/** Signature types of the standard: signature of a note, and timestamped cosignature of a checkpoint. */
export const NOTE_SIGNATURE = 1
export const COSIGNATURE = 4

const PUBLIC_KEY_BYTES = 32
const KEY_ID_BYTES = 4
export const SIGNATURE_BYTES = 64
/** Maximum number of signatures that a note may have. The standard requires a limit of at least 16. */
const SIGNATURES_MAX = 100
const NOTE_CHARS_MAX = 1_000_000

const encoder = new TextEncoder()

export type VerifierKey = {
  readonly name: string
  readonly type: typeof NOTE_SIGNATURE | typeof COSIGNATURE
  readonly keyId: Uint8Array
  readonly publicKey: Uint8Array
}

type NoteSignature = {
  readonly name: string
  readonly keyId: Uint8Array
  readonly signature: Uint8Array
}

export type Note = { readonly text: string; readonly signatures: readonly NoteSignature[] }

/** Signs the text of notes with the private part of `key`. */
export type NoteSigner = {
  readonly key: VerifierKey
  sign(message: Uint8Array): Uint8Array
}

/**
 * Returns whether a key may have this name. A name must not be empty or contain spaces, control characters or plus
 * signs.
 */
export function isKeyName(name: string): boolean {
  return name !== '' && !/[\s+\p{Cc}\p{Zs}]/u.test(name)
}

export function makeVerifierKey(
  name: string,
  publicKey: Uint8Array,
  type: VerifierKey['type'] = NOTE_SIGNATURE,
): VerifierKey {
  if (!isKeyName(name))
    throw new Error(
      `the key name ${JSON.stringify(name)} is empty, or contains a space, a control character or a plus sign`,
    )
  if (publicKey.length !== PUBLIC_KEY_BYTES)
    throw new Error('the Ed25519 public key must have 32 bytes')
  const id = sha256(bytesOf(`${name}\n`, Uint8Array.of(type), publicKey))
  return { name, type, publicKey, keyId: id.slice(0, KEY_ID_BYTES) }
}

/** Returns the text form of a key: `name+id+key`. */
export function verifierKeyText({ name, keyId, type, publicKey }: VerifierKey): string {
  const id = [...keyId].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return `${name}+${id}+${toBase64(bytesOf(Uint8Array.of(type), publicKey))}`
}

/**
 * Parses the text form of a key. Returns undefined if the text is malformed, or if its id does not belong to its key.
 */
export function parseVerifierKey(text: string): VerifierKey | undefined {
  const [, name = '', encoded = ''] = /^([^+]+)\+[0-9a-f]{8}\+(\S+)$/.exec(text) ?? []
  const bytes = fromBase64(encoded)
  if (!isKeyName(name) || bytes?.length !== 1 + PUBLIC_KEY_BYTES) return undefined
  const type = bytes[0]
  if (type !== NOTE_SIGNATURE && type !== COSIGNATURE) return undefined
  const key = makeVerifierKey(name, bytes.slice(1), type)
  return verifierKeyText(key) === text ? key : undefined
}

export function signatureLine({ name, keyId }: VerifierKey, signature: Uint8Array): string {
  return `— ${name} ${toBase64(bytesOf(keyId, signature))}\n`
}

/** Parses a note without verifying its signatures; undefined if the note is malformed. */
export function parseNote(note: string): Note | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: a note may contain no control characters but newlines.
  if (note.length > NOTE_CHARS_MAX || /[\u0000-\u0009\u000b-\u001f]/.test(note)) return undefined
  const blank = note.lastIndexOf('\n\n')
  if (blank < 0 || !note.endsWith('\n')) return undefined
  const signatures = parseSignatureLines(note.slice(blank + 2))
  return signatures === undefined || signatures.length === 0
    ? undefined
    : { text: note.slice(0, blank + 1), signatures }
}

/** Reads signature lines; undefined if one is malformed. */
function parseSignatureLines(text: string): NoteSignature[] | undefined {
  const lines = text.split('\n')
  if (lines.pop() !== '' || lines.length > SIGNATURES_MAX) return undefined
  const signatures: NoteSignature[] = []
  for (const line of lines) {
    const [, name = '', encoded = ''] = /^— ([^ ]+) ([^ ]+)$/.exec(line) ?? []
    const bytes = fromBase64(encoded)
    if (!isKeyName(name) || bytes === undefined || bytes.length <= KEY_ID_BYTES) return undefined
    signatures.push({
      name,
      keyId: bytes.slice(0, KEY_ID_BYTES),
      signature: bytes.slice(KEY_ID_BYTES),
    })
  }
  return signatures
}

/** Returns the signatures with the name and id of this key. The signatures are not verified. */
export function signaturesBy({ signatures }: Note, key: VerifierKey): NoteSignature[] {
  return signatures.filter(
    ({ name, keyId }) => name === key.name && keyId.every((byte, at) => byte === key.keyId[at]),
  )
}

/**
 * Returns the key with this name whose signature the note contains. The signature is not verified. During a key
 * rotation, several keys have the same name. If the note contains a signature of none of them, returns the first key
 * with this name.
 */
export function keyFor(
  note: Note | undefined,
  name: string | undefined,
  keys: readonly VerifierKey[],
): VerifierKey | undefined {
  const named = keys.filter((key) => key.name === name)
  const signed = named.find((key) => note !== undefined && signaturesBy(note, key).length > 0)
  return signed ?? named[0]
}

/** Returns whether the note has a signature of the key, and all signatures with the key's name and id are valid. */
export function isSignedBy(note: Note, key: VerifierKey): boolean {
  const own = signaturesBy(note, key)
  const message = encoder.encode(note.text)
  return (
    key.type === NOTE_SIGNATURE &&
    own.length > 0 &&
    own.every(({ signature }) => isSignature(signature, message, key))
  )
}

/** Returns whether `signature` is a valid Ed25519 signature of the message by this key. */
export function isSignature(
  signature: Uint8Array,
  message: Uint8Array,
  { publicKey }: Pick<VerifierKey, 'publicKey'>,
): boolean {
  try {
    return signature.length === SIGNATURE_BYTES && verify(signature, message, publicKey)
  } catch {
    return false
  }
}

/** Joins texts and bytes. */
export function bytesOf(...parts: readonly (string | Uint8Array)[]): Uint8Array {
  const all = parts.map((part) => (typeof part === 'string' ? encoder.encode(part) : part))
  const bytes = new Uint8Array(all.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const part of all) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}
