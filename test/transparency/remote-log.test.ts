/** Tests the checks of a log on another server: they detect one changed byte anywhere, and a rewritten history. */

import assert from 'node:assert/strict'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { serveWitness } from '#cli/witness/witness-server.ts'
import { toBase64 } from '#transparency/base64.ts'
import { parseCheckpoint } from '#transparency/checkpoint.ts'
import { cosignedAtSec } from '#transparency/cosignature.ts'
import { parseNote, signatureLine } from '#transparency/note.ts'
import { proveConsistency, readCheckpoint, verifyEntries } from '#transparency/remote-log.ts'
import { TreeBuilder } from '#transparency/tree-builder.ts'
import { treeHasher } from '#transparency/tree-hash.ts'
import { addCheckpoint, type Witness } from '#transparency/witness.ts'
import { makeMemoryLog, newWitnessSigner } from './memory-log.ts'

const names = (count: number, from = 0): string[] =>
  Array.from({ length: count }, (_, at) => `entry ${from + at}`)

test('the verification of a public log reads every entry once, and continues after the log has grown', async () => {
  const log = makeMemoryLog()
  const builder = new TreeBuilder(treeHasher)
  const seen: number[] = []
  let before: Awaited<ReturnType<typeof readCheckpoint>> | undefined
  for (const more of [1, 254, 1, 1, 300]) {
    log.grow(...names(more, log.entries.length))
    const checkpoint = await readCheckpoint(log.remote)
    await verifyEntries(log.remote, checkpoint, builder, (_entry, index) => seen.push(index))
    if (before !== undefined) await proveConsistency(log.remote, before, checkpoint)
    before = checkpoint
  }
  assert.deepEqual(
    seen,
    log.entries.map((_, at) => at),
  )
})

test('the verification of a public log detects one changed byte in any of its files', async () => {
  const files: string[] = []
  let spoiled = ''
  let at = 0
  const log = makeMemoryLog('example.com/log/1/p0', (path, bytes) => {
    files.push(path)
    if (path === spoiled) bytes[at % bytes.length]! ^= 1
    return bytes
  })
  log.grow(...names(300))
  const verify = async (): Promise<void> =>
    verifyEntries(log.remote, await readCheckpoint(log.remote), new TreeBuilder(treeHasher))
  await verify()
  const all = [...new Set(files)]
  assert.deepEqual(all.sort(), [
    'checkpoint',
    'tile/0/000',
    'tile/0/001.p/44',
    'tile/1/000.p/1',
    'tile/entries/000',
    'tile/entries/001.p/44',
  ])
  for (spoiled of all) {
    for (at of [0, 1, 17, 63, 100, 1_000, 5_000]) {
      await assert.rejects(verify(), Error, `${spoiled}, byte ${at}`)
    }
  }
})

test('a public log whose past was rewritten is found by comparison with an earlier checkpoint', async () => {
  const log = makeMemoryLog()
  log.grow(...names(100))
  const older = await readCheckpoint(log.remote)
  const other = makeMemoryLog()
  other.grow(...names(50), 'another', ...names(99, 51))
  await assert.rejects(
    proveConsistency(other.remote, older, await readCheckpoint(other.remote)),
    /was rewritten/,
  )
})

test('a witness signs a checkpoint only if it extends the checkpoint that the witness signed before', async () => {
  const log = makeMemoryLog()
  const { origin } = { origin: log.signer.key.name }
  const kept = new Map<string, string>()
  const signer = newWitnessSigner()
  const witness: Witness = {
    logs: new Map([[origin, [log.signer.key]]]),
    signer,
    state: { read: (name) => kept.get(name), write: (name, text) => void kept.set(name, text) },
    nowSec: () => 1_700_000_000,
  }
  const ask = (old: number, proof: readonly Uint8Array[], checkpoint = log.checkpoint()) =>
    addCheckpoint(witness, `${[`old ${old}`, ...proof.map(toBase64)].join('\n')}\n\n${checkpoint}`)

  log.grow(...names(5))
  const first = ask(0, [])
  assert.equal(first.status, 200)
  assert.equal(cosignedAtSec(parseNote(log.checkpoint() + first.body)!, signer.key), 1_700_000_000)
  assert.equal(kept.get(origin), log.checkpoint() + first.body)
  assert.equal(ask(5, []).status, 200, 'the same checkpoint again')

  const older = parseCheckpoint(log.checkpoint())!
  log.grow(...names(6, 5))
  const newest = await readCheckpoint(log.remote)
  const proof = await proveConsistency(log.remote, older, newest)
  assert.deepEqual(ask(0, []), { status: 409, body: '5\n', type: 'text/x.tlog.size' })
  assert.equal(ask(5, []).status, 422)
  assert.equal(ask(5, [...proof, proof[0]!]).status, 422)
  assert.equal(ask(12, proof).status, 400)
  assert.equal(ask(5, proof, newest.text.replace('\n11\n', '\n12\n')).status, 403)
  assert.equal(ask(5, proof, newest.text.replaceAll(origin, 'example.com/other')).status, 404)
  for (const body of ['', 'old 5\n\n', 'old 05\n\n', `old -1\n\n${newest.text}`, newest.text]) {
    assert.equal(addCheckpoint(witness, body).status, 400, JSON.stringify(body))
  }
  assert.equal(kept.get(origin), older.note.text.length > 0 ? kept.get(origin) : '')
  assert.equal(parseCheckpoint(kept.get(origin)!)?.head.size, 5, 'what was refused is not kept')
  assert.equal(ask(5, proof).status, 200)
  const sameSize = makeMemoryLog(origin)
  sameSize.grow(...names(10), 'another')
  const known = new Map([[origin, [sameSize.signer.key]]])
  const other = addCheckpoint({ ...witness, logs: known }, `old 11\n\n${sameSize.checkpoint()}`)
  assert.equal(other.status, 409, 'another root for the size that it has')

  const forked = makeMemoryLog(origin)
  const forkWitness = { ...witness, logs: new Map([[origin, [forked.signer.key]]]) }
  forked.grow(...names(10), 'another', ...names(5))
  const forkProof = await proveConsistency(
    forked.remote,
    { head: { origin, size: 11, root: new Uint8Array(32) } },
    await readCheckpoint(forked.remote),
  ).catch(() => [])
  const refused = addCheckpoint(
    forkWitness,
    `${['old 11', ...forkProof.map(toBase64)].join('\n')}\n\n${forked.checkpoint()}`,
  )
  assert.equal(refused.status, 422)
})

test('signatures of strangers do not make a witness forget the checkpoint that it signed', async () => {
  const log = makeMemoryLog()
  const origin = log.signer.key.name
  const kept = new Map<string, string>()
  const witness: Witness = {
    logs: new Map([[origin, [log.signer.key]]]),
    signer: newWitnessSigner(),
    state: { read: (name) => kept.get(name), write: (name, text) => void kept.set(name, text) },
    nowSec: () => 1_700_000_000,
  }
  log.grow(...names(5))
  const stranger = '— stranger.example AAAAAAA=\n'
  // The forged signature has the witness's name. If the witness stored the forged signature with the checkpoint, it
  // would hide the witness's real signature.
  const forged = signatureLine(witness.signer.key, new Uint8Array(72))
  for (const lines of [stranger.repeat(99), forged]) {
    assert.equal(addCheckpoint(witness, `old 0\n\n${log.checkpoint()}${lines}`).status, 200)
    const note = parseNote(kept.get(origin)!)!
    assert.equal(note.signatures.length, 2)
    assert.equal(cosignedAtSec(note, witness.signer.key), 1_700_000_000)
    // This log has the same name and key, but its entries differ from the first one on.
    const forked = makeMemoryLog(origin, undefined, log.signer)
    forked.grow('another')
    const answer = addCheckpoint(witness, `old 0\n\n${forked.checkpoint()}`)
    assert.deepEqual([answer.status, answer.body], [409, '5\n'])
    kept.delete(origin)
  }
})

test('a witness that cannot read its stored state of a log signs nothing for the log', async () => {
  const log = makeMemoryLog()
  const origin = log.signer.key.name
  log.grow(...names(5))
  for (const damaged of ['', 'x', log.checkpoint().replace(origin, 'example.com/other')]) {
    const written: string[] = []
    const witness: Witness = {
      logs: new Map([[origin, [log.signer.key]]]),
      signer: newWitnessSigner(),
      state: { read: () => damaged, write: (_, text) => void written.push(text) },
      nowSec: () => 1_700_000_000,
    }
    const ask = () => addCheckpoint(witness, `old 0\n\n${log.checkpoint()}`)
    assert.throws(ask, /cannot be read: restore it/)
    const server = serveWitness(witness)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/add-checkpoint`
      const body = `old 0\n\n${log.checkpoint()}`
      assert.equal((await fetch(url, { method: 'POST', body })).status, 500)
    } finally {
      server.close().closeAllConnections()
    }
    assert.deepEqual(written, [])
  }
})
