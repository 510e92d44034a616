/** Signs notes with an Ed25519 key. Works only in Node, where it is a hundred times faster than the portable code. */

import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { makeVerifierKey, NOTE_SIGNATURE, type NoteSigner, type VerifierKey } from './note.ts'

/** Fixed first bytes of an Ed25519 private key in DER. The seed follows them. */
const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex')

type KeyPair = { readonly privateKey: KeyObject; readonly publicKey: Uint8Array }

/** Returns the key pair of a seed: 32 bytes as hex with `0x`. */
export function keyPairOf(seed: string): KeyPair {
  const der = Buffer.concat([PKCS8_HEAD, Buffer.from(seed.slice(2), 'hex')])
  const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  const { x = '' } = createPublicKey(privateKey).export({ format: 'jwk' })
  return { privateKey, publicKey: Buffer.from(x, 'base64url') }
}

/** Makes a signer of notes. `name` is the origin of a log, or the name of a witness. */
export function makeNoteSigner(
  { privateKey, publicKey }: KeyPair,
  name: string,
  type: VerifierKey['type'] = NOTE_SIGNATURE,
): NoteSigner {
  return {
    key: makeVerifierKey(name, publicKey, type),
    sign: (message) => sign(null, message, privateKey),
  }
}
