/** The log collects cosignatures from witnesses over HTTP: honest, slow, unreachable and malicious ones. */

import assert from 'node:assert/strict'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { serveWitness } from '#cli/witness/witness-server.ts'
import { makeCosigners } from '#services/transparency/thread/cosigners.ts'
import { closeDatabase, sqlConnection } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { makeReads } from '#store/reads/reads.ts'
import {
  growTrees,
  publicTrees,
  publishCheckpoints,
  storeCosigned,
} from '#store/writes/public-log.ts'
import { cosign, cosignedAtSec } from '#transparency/cosignature.ts'
import { keyPairOf, makeNoteSigner } from '#transparency/node-signer.ts'
import { parseNote, type VerifierKey, verifierKeyText } from '#transparency/note.ts'
import { TreeBuilder } from '#transparency/tree-builder.ts'
import { treeHasher } from '#transparency/tree-hash.ts'
import type { Witness } from '#transparency/witness.ts'
import { parseWitness, postToWitness } from '#transparency/witness-request.ts'
import { onBothDatabases } from '../../support/databases.ts'
import { newWitnessSigner, signCheckpoint } from '../../transparency/memory-log.ts'

const ORIGIN = 'example.com/log/1/p0'
const NOW_SEC = 1_700_000_000

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function witnessOf(name: string, log: VerifierKey) {
  const kept = new Map<string, string>()
  const witness: Witness = {
    logs: new Map([[ORIGIN, [log]]]),
    signer: newWitnessSigner(name),
    state: { read: (origin) => kept.get(origin), write: (origin, text) => kept.set(origin, text) },
    nowSec: () => NOW_SEC,
  }
  return { witness, kept }
}

await onBothDatabases('cosignatures', ({ migrated, giveBack }) => {
  test('a checkpoint is stored with the valid cosignatures of the witnesses that answer in time', async (t) => {
    const url = await migrated()
    const database = await openDatabase(url)
    const reads = makeReads(url)
    const signer = makeNoteSigner(keyPairOf(`0x${'5'.repeat(64)}`), ORIGIN)
    const servers: Server[] = []
    t.after(async () => {
      for (const server of servers) server.close().closeAllConnections()
      await reads.close()
      await closeDatabase(database)
      giveBack(url)
    })
    const addressed = async (server: Server, key: VerifierKey) => {
      servers.push(server)
      return parseWitness(`${verifierKeyText(key)}@${await listening(server)}/`)!
    }
    const answering = async (name: string, answer: RequestListener) => {
      const { key } = newWitnessSigner(name)
      return addressed(createServer(answer), key)
    }

    const builder = new TreeBuilder(treeHasher)
    const publish = async (more: number): Promise<void> => {
      const from = { size: builder.size }
      const leaves = Array.from({ length: more }, (_, at) => {
        const entry = Buffer.from(`entry ${from.size + at}`)
        builder.append(treeHasher.leaf(entry))
        return { first: from.size + at + 1, throughMs: 1, entry }
      })
      const to = { size: builder.size, root: builder.root(), nextOffset: builder.size + 1 }
      const tree = { partition: 0, logId: '1', beginsAt: 1, from, to, leaves }
      await growTrees(database, { trees: [{ ...tree, tiles: builder.takeChanged() }] })
      const { size, root } = to
      const checkpoint = signCheckpoint({ origin: ORIGIN, size, root }, signer)
      await publishCheckpoints(database, {
        checkpoints: [{ partition: 0, size, root, checkpoint }],
      })
    }

    const one = witnessOf('witness.example/1', signer.key)
    const two = witnessOf('witness.example/2', signer.key)
    const asked = { silent: 0, lying: 0 }
    const forger = newWitnessSigner('witness.example/forged')
    const witnesses = [
      await addressed(serveWitness(one.witness), one.witness.signer.key),
      await addressed(serveWitness(two.witness), two.witness.signer.key),
      // This witness never answers, so the round ends without its cosignature.
      await answering('witness.example/silent', () => {
        asked.silent++
      }),
      // This witness signs with a key that is not its own.
      await answering('witness.example/lying', (request, response) => {
        asked.lying++
        request.resume().on('end', () => response.end(cosign('another text\n', NOW_SEC, forger)))
      }),
      await answering('witness.example/endless', (_request, response) => {
        response.write('— '.repeat(20_000))
      }),
      // Always names another size.
      await answering('witness.example/conflict', (_request, response) => {
        response.writeHead(409).end('1\n')
      }),
      await answering('witness.example/moved', (_request, response) => {
        response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end()
      }),
    ]
    let nowMs = 0
    const said: string[] = []
    const cosigners = makeCosigners({
      ...{ witnesses, query: reads.query, nowMs: () => nowMs, post: postToWitness },
      store: (checkpoints) => storeCosigned(database, { checkpoints }),
      said: ({ witness, why }) => said.push(`${witness.split('/')[1]}: ${why ?? 'cosigned'}`),
    })
    const cosigned = async () => {
      const [tree] = await publicTrees(database, {})
      const note = parseNote(tree?.cosigned?.checkpoint ?? '')
      const signers = [one, two].filter(
        ({ witness }) => note !== undefined && cosignedAtSec(note, witness.signer.key) === NOW_SEC,
      )
      const lines = tree?.cosigned?.checkpoint.split('\n').length ?? 0
      return { size: tree?.cosigned?.size, signers: signers.length, lines }
    }

    await cosigners.round()
    assert.equal((await cosigned()).size, undefined, 'nothing is published yet')
    await publish(3)
    await cosigners.round()
    const whole = { signers: 2, lines: 8 }
    assert.deepEqual(await cosigned(), { size: 3, ...whole })
    assert.deepEqual(said.filter((each) => /^[12]:/.test(each)).sort(), [
      '1: cosigned',
      '2: cosigned',
    ])
    for (const [name, why] of [
      ['silent', /timeout/],
      ['lying', /not a cosignature by the key of the witness/],
      ['endless', /more than 16384 bytes/],
      ['conflict', /409: 1/],
      ['moved', /fetch failed/],
    ] as const) {
      assert.match(said.find((each) => each.startsWith(name)) ?? '', why, name)
    }

    // Failed witnesses are left out for a while, and the others have already cosigned this size. So nothing is
    // submitted.
    said.length = 0
    await cosigners.round()
    assert.deepEqual(said, [])
    await publish(300)
    await cosigners.round()
    assert.deepEqual(await cosigned(), { size: 303, ...whole })
    assert.equal(asked.silent, 1)

    // The round of `fresh` asks only the second witness to cosign. The later round of `cosigners` also asks the first
    // witness. This witness knows only an older size, and then cosigns the newest size.
    two.kept.clear()
    two.witness.state.write(ORIGIN, one.kept.get(ORIGIN)!)
    const fresh = makeCosigners({
      ...{
        witnesses: [witnesses[1]!],
        query: reads.query,
        nowMs: () => nowMs,
        post: postToWitness,
      },
      store: (checkpoints) => storeCosigned(database, { checkpoints }),
      said: () => {},
    })
    await publish(5)
    await fresh.round()
    assert.deepEqual(await cosigned(), { size: 308, signers: 1, lines: 7 })
    await cosigners.round()
    assert.deepEqual(await cosigned(), { size: 308, ...whole })

    // A failed witness is asked again later.
    nowMs += 1_000
    const before = asked.lying
    await cosigners.round()
    assert.equal(asked.lying, before + 1)
  })

  test('after an operator replaces a public log, the new log does not show the old cosigned checkpoint', async (t) => {
    const url = await migrated()
    const database = await openDatabase(url)
    t.after(async () => {
      await closeDatabase(database)
      giveBack(url)
    })
    const signer = makeNoteSigner(keyPairOf(`0x${'5'.repeat(64)}`), ORIGIN)
    const cosignedAfter = async (logId: string) => {
      const builder = new TreeBuilder(treeHasher)
      const entry = Buffer.from(`entry of ${logId}`)
      builder.append(treeHasher.leaf(entry))
      const to = { size: 1, root: builder.root(), nextOffset: 2 }
      const leaves = [{ first: 1, throughMs: 1, entry }]
      const tree = { partition: 0, logId, beginsAt: 1, from: { size: 0 }, to, leaves }
      await growTrees(database, { trees: [{ ...tree, tiles: builder.takeChanged() }] })
      const head = { origin: `example.com/log/${logId}/p0`, size: 1, root: to.root }
      const checkpoint = signCheckpoint(head, signer)
      await publishCheckpoints(database, { checkpoints: [{ partition: 0, ...to, checkpoint }] })
      const [shown] = await publicTrees(database, {})
      return { shown: shown?.cosigned?.checkpoint, checkpoint }
    }
    const remove = async () => {
      for (const table of ['public_trees', 'public_entries', 'public_tiles'])
        await sqlConnection(database).execute(`delete from ${table}`)
    }
    const { checkpoint } = await cosignedAfter('1')
    const cosigned = { partition: 0, size: 1, checkpoint, lines: '' }
    await storeCosigned(database, { checkpoints: [cosigned] })
    await remove()
    assert.equal((await cosignedAfter('1')).shown, checkpoint, 'the same log, built again')
    await remove()
    assert.equal((await cosignedAfter('2')).shown, undefined)
  })
})
