/**
 * Signs checkpoints and receipts with every configured key. While a key is being replaced, some clients trust the old
 * key and others the new key.
 */

import { checkpointText } from '#transparency/checkpoint.ts'
import { keyPairOf, makeNoteSigner } from '#transparency/node-signer.ts'
import { signatureLine, type VerifierKey } from '#transparency/note.ts'

/**
 * Makes the functions that sign with all keys. `seeds` are the seeds of the keys: 32 bytes each, as 0x-hex;
 * empty texts are skipped.
 */
export function makeCheckpointSigners(seeds: readonly string[]) {
  const pairs = seeds.filter((seed) => seed !== '').map(keyPairOf)
  const signersOf = (origin: string) => pairs.map((pair) => makeNoteSigner(pair, origin))
  /** Returns the text as a signed note with the signatures of all keys of a log. */
  function signText(origin: string, text: string): string {
    const message = Buffer.from(text)
    const lines = signersOf(origin).map(({ key, sign }) => signatureLine(key, sign(message)))
    return `${text}\n${lines.join('')}`
  }

  return {
    keys: (origin: string): VerifierKey[] => signersOf(origin).map(({ key }) => key),
    sign: (origin: string, size: number, root: Uint8Array): string =>
      signText(origin, checkpointText({ origin, size, root })),
    signText,
  }
}
