/**
 * Tests that `sibyl log witness` retries a log that it cannot read. It ends only if the log contradicts a checkpoint
 * that the witness has cosigned.
 */

import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { feedWitness } from '#cli/witness/witness-server.ts'
import { verifierKeyText } from '#transparency/note.ts'
import { proveConsistency, readCheckpoint } from '#transparency/remote-log.ts'
import { addCheckpoint, type Witness } from '#transparency/witness.ts'
import { addCheckpointBody } from '#transparency/witness-request.ts'
import { eventually } from '../support/eventually.ts'
import { makeMemoryLog, newWitnessSigner } from '../transparency/memory-log.ts'
import { callSibyl } from './call-sibyl.ts'

const names = (count: number, from = 0): string[] =>
  Array.from({ length: count }, (_, at) => `entry ${from + at}`)

test('a witness retries while a log is unavailable or being rebuilt, and stops if log entries were changed', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-witness-'))
  const log = makeMemoryLog()
  const { key } = log.signer
  log.grow(...names(300))
  let answer: 'cut' | 'busy' | typeof log = log
  let failed = 0
  const server = createServer(async (request, response) => {
    const path = request.url ?? ''
    if (path === '/api/v1/transparency') {
      const listed = { partition: 0, origin: key.name, path: '/log', size: 1 }
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ logs: [{ ...listed, verifierKeys: [verifierKeyText(key)] }] }))
      return
    }
    const isRead = typeof answer === 'object'
    const bytes = typeof answer === 'object' ? await answer.remote.get(path.slice(5)) : undefined
    if (bytes === undefined) failed++
    if (answer === 'cut') request.socket.destroy()
    else response.writeHead(bytes !== undefined ? 200 : isRead ? 404 : 503).end(bytes)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const stop = new AbortController()
  t.after(async () => {
    stop.abort()
    server.close().closeAllConnections()
    await rm(folder, { recursive: true })
  })
  const keyFile = join(folder, 'witness.key')
  await writeFile(keyFile, `0x${'7'.repeat(64)}\n`, { mode: 0o600 })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const args = [
    ...['log', 'witness', '--name', 'witness.example/w1', '--key-file', keyFile],
    ...['--state', join(folder, 'state'), '--url', url, '--every', '1'],
  ]
  let out = ''
  const running = callSibyl(
    args,
    {},
    {
      signal: stop.signal,
      received(text) {
        out += text
      },
    },
  )
  const said = (size: number) =>
    eventually(() => assert.ok(out.includes(`${size} entries`), out || 'nothing yet'))
  await said(300)

  const rebuilt = makeMemoryLog(key.name, undefined, log.signer)
  rebuilt.grow(...names(100))
  for (const state of ['cut', 'busy', rebuilt] as const) {
    const before = failed
    answer = state
    await eventually(() => assert.ok(failed > before, 'it reads the log'))
  }
  log.grow(...names(1, 300))
  answer = log
  await said(301)

  const rewritten = makeMemoryLog(key.name, undefined, log.signer)
  rewritten.grow('another', ...names(400))
  answer = rewritten
  const { code, err } = await running
  assert.equal(code, 1)
  const lines = err.trim().split('\n')
  assert.match(lines.at(-1) ?? '', /was rewritten/)
  for (const line of lines.slice(0, -1)) assert.match(line, /; retrying in 1 s$/)
  assert.ok(
    lines.some((line) => line.includes('status 503')),
    err,
  )

  answer = 'busy'
  const once = await callSibyl([...args, '--once'])
  assert.deepEqual([once.code, /status 503/.test(once.err)], [1, true], 'a single read fails')
})

test('a witness accepts a newer checkpoint that is submitted while the witness reads the log', async () => {
  const log = makeMemoryLog()
  const origin = log.signer.key.name
  const kept = new Map<string, string>()
  const witness: Witness = {
    logs: new Map([[origin, [log.signer.key]]]),
    signer: newWitnessSigner(),
    state: { read: (name) => kept.get(name), write: (name, text) => void kept.set(name, text) },
    nowSec: () => 1_700_000_000,
  }
  const named = { ...log.remote, origin, partition: 0 }
  log.grow(...names(5))
  assert.equal(await feedWitness(witness, named), 5)
  const older = await readCheckpoint(log.remote)
  log.grow(...names(6, 5))
  let submitted = 0
  const get: typeof named.get = async (path) => {
    if (path !== 'checkpoint' && submitted === 0) {
      const newest = await readCheckpoint(log.remote)
      const proof = await proveConsistency(log.remote, older, newest)
      submitted = addCheckpoint(witness, addCheckpointBody(5, proof, newest.text)).status
    }
    return log.remote.get(path)
  }
  assert.equal(await feedWitness(witness, { ...named, get }), 11)
  assert.equal(submitted, 200)
})
