/** Signed notes, checkpoints, cosignatures and offline proofs, against the examples of the standards. */

import assert from 'node:assert/strict'
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign } from 'node:crypto'
import { test } from 'node:test'
import { openCheckpoint, parseTreeHead } from '#transparency/checkpoint.ts'
import { cosign, cosignedAtSec } from '#transparency/cosignature.ts'
import { decodeBundle, encodeBundle } from '#transparency/entry-bundle.ts'
import {
  inclusionText,
  parseInclusionText,
  verifyInclusionText,
} from '#transparency/inclusion-text.ts'
import { inclusionProof } from '#transparency/merkle-proof.ts'
import {
  COSIGNATURE,
  isSignedBy,
  makeVerifierKey,
  NOTE_SIGNATURE,
  type NoteSigner,
  parseNote,
  parseVerifierKey,
  type VerifierKey,
  verifierKeyText,
} from '#transparency/note.ts'
import { TreeBuilder } from '#transparency/tree-builder.ts'
import { treeHasher } from '#transparency/tree-hash.ts'
import { signCheckpoint } from './memory-log.ts'

const VKEY = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k'
const NOTE = `This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
`

function newSigner(name: string, type: VerifierKey['type'] = NOTE_SIGNATURE): NoteSigner {
  const { privateKey } = generateKeyPairSync('ed25519')
  const { x = '' } = createPublicKey(
    createPrivateKey(privateKey.export({ type: 'pkcs8', format: 'pem' })),
  ).export({ format: 'jwk' })
  const key = makeVerifierKey(name, Buffer.from(x, 'base64url'), type)
  return { key, sign: (message) => sign(null, message, privateKey) }
}

test('the standard’s example of a signed note verifies with the standard’s example key', () => {
  const key = parseVerifierKey(VKEY)
  assert(key !== undefined)
  assert.equal(verifierKeyText(key), VKEY)
  const note = parseNote(NOTE)
  assert(note !== undefined)
  assert.equal(note.text, 'This is an example message.\n')
  assert(isSignedBy(note, key))
})

test('a signed note with one changed character does not verify', () => {
  const key = parseVerifierKey(VKEY)!
  for (let at = 0; at < NOTE.length; at++) {
    const character = NOTE[at] === 'A' ? 'B' : 'A'
    if (NOTE[at] === character) continue
    const note = parseNote(NOTE.slice(0, at) + character + NOTE.slice(at + 1))
    assert(note === undefined || !isSignedBy(note, key), `character ${at}`)
  }
})

test('malformed notes and keys are refused', () => {
  for (const note of [
    '',
    'text\n',
    'text\n\n',
    `${NOTE}x`,
    NOTE.replace('\n', '\t\n'),
    NOTE.slice(0, -1),
  ]) {
    assert.equal(parseNote(note), undefined, JSON.stringify(note))
  }
  for (const key of [
    '',
    'a b+530d903a+AA==',
    VKEY.replace('530d903a', '530d903b'),
    `${VKEY}A`,
    'a+b',
  ]) {
    assert.equal(parseVerifierKey(key), undefined, key)
  }
  assert.throws(() => makeVerifierKey('with space', new Uint8Array(32)))
})

test('a checkpoint is accepted only if the log’s own key signed it', () => {
  const signer = newSigner('example.com/log/1/p0')
  const head = { origin: signer.key.name, size: 12, root: new Uint8Array(32).fill(7) }
  const text = signCheckpoint(head, signer)
  assert.deepEqual(openCheckpoint(text, signer.key).head, head)
  assert.throws(() => openCheckpoint(text, newSigner(signer.key.name).key), /not signed/)
  assert.throws(() => openCheckpoint(text, newSigner('example.com/other').key), /belongs to/)
  assert.throws(() => openCheckpoint(text.replace('\n12\n', '\n13\n'), signer.key), /not signed/)
  assert.throws(() => openCheckpoint(text.replace('\n12\n', '\n012\n'), signer.key), /malformed/)
  assert.equal(parseTreeHead('origin\n1\nAA==\n'), undefined)
})

test('a cosignature has the standard’s form, and is valid only for its time and checkpoint', () => {
  const log = newSigner('example.com/log/1/p0')
  const witness = newSigner('witness.example/w1', COSIGNATURE)
  const text = signCheckpoint({ origin: log.key.name, size: 1, root: new Uint8Array(32) }, log)
  const line = cosign(parseNote(text)!.text, 1_679_315_147, witness)
  const note = parseNote(text + line)!
  assert.equal(cosignedAtSec(note, witness.key), 1_679_315_147)
  assert(isSignedBy(note, log.key))
  assert.equal(cosignedAtSec(parseNote(text)!, witness.key), undefined)
  assert.equal(cosignedAtSec(note, newSigner(witness.key.name, COSIGNATURE).key), undefined)
  const other = parseNote((text + line).replace('\n1\n', '\n2\n'))!
  assert.equal(cosignedAtSec(other, witness.key), undefined)
})

test('an offline proof verifies with only the log’s key, and one changed byte makes it fail', async () => {
  const log = newSigner('example.com/log/1/p0')
  const witness = newSigner('witness.example/w1', COSIGNATURE)
  const entries = Array.from({ length: 5 }, (_, at) => Buffer.from(`entry ${at}`))
  const builder = new TreeBuilder(treeHasher)
  for (const entry of entries) builder.append(treeHasher.leaf(entry))
  const hashes = entries.map((entry) => treeHasher.leaf(entry))
  const subtree = async (level: number, index: number): Promise<Uint8Array> =>
    level === 0
      ? hashes[index]!
      : treeHasher.node(
          await subtree(level - 1, 2 * index),
          await subtree(level - 1, 2 * index + 1),
        )
  const signed = signCheckpoint({ origin: log.key.name, size: 5, root: builder.root() }, log)
  const checkpoint = signed + cosign(parseNote(signed)!.text, 1_700_000_000, witness)
  const proof = await inclusionProof(3, 5, subtree)
  const text = inclusionText({ extra: entries[3]!, index: 3, proof, checkpoint })
  assert.deepEqual(parseInclusionText(text)?.index, 3)
  const verified = verifyInclusionText(text, log.key, [witness.key])
  assert.equal(Buffer.from(verified.entry).toString(), 'entry 3')
  assert.deepEqual(verified.cosigners, ['witness.example/w1'])
  for (const wrong of [
    text.replace('index 3', 'index 2'),
    text.replace(/extra .*/, `extra ${Buffer.from('entry 2').toString('base64')}`),
    text.replace('\n5\n', '\n6\n'),
    text.replace('@v1', '@v2'),
    text.replace(/\n\n/, '\n'),
  ]) {
    assert.throws(() => verifyInclusionText(wrong, log.key))
  }
})

test('a bundle of log entries is decoded as it was encoded, and refused with a wrong length', () => {
  const entries = [Buffer.from('a'), Buffer.from(''), Buffer.alloc(65_535, 1)]
  const bundle = encodeBundle(entries)
  assert.deepEqual(
    decodeBundle(bundle, 3)?.map((entry) => Buffer.from(entry)),
    entries,
  )
  assert.equal(decodeBundle(bundle, 2), undefined)
  assert.equal(decodeBundle(bundle.subarray(0, -1), 3), undefined)
  assert.throws(() => encodeBundle([Buffer.alloc(65_536)]))
})
