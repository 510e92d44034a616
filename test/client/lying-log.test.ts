/**
 * Tests that a client detects if the exchange shows it another log than before: one with another key, name, root or
 * history.
 */

import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { createClient } from '#client/client.ts'
import { parseCheckpoint } from '#transparency/checkpoint.ts'
import { inclusionText } from '#transparency/inclusion-text.ts'
import { inclusionProof } from '#transparency/merkle-proof.ts'
import { verifierKeyText } from '#transparency/note.ts'
import { subtreesOf, tilePath } from '#transparency/tiles.ts'
import { makeMemoryLog } from '../transparency/memory-log.ts'

const ORIGIN = 'example.com/log/1/p0'
const ORDER = `0x${'ab'.repeat(32)}`
const OTHER_ORDER = `0x${'cd'.repeat(32)}`
const MARKET = `0x${'11'.repeat(32)}`
const TERMS = [`0x${'22'.repeat(20)}`, 0, 0, 400_000, 1_000_000]
const SIGNED = ['7', '1900000000', 0, `0x${'33'.repeat(32)}`, 0]
const lineOf = (cells: readonly unknown[]) =>
  `{"v":1,"first":1,"count":1}\n${JSON.stringify(cells)}\n`
const restedLine = (orderHash: string, ...tail: object[]) => {
  const life = [1_000_000, 1_000_000, 1_900_000_000, 1, 0, 0]
  return lineOf(['R', MARKET, 2, 1, orderHash, ...TERMS, ...life, ...SIGNED, ...tail])
}
const ENTRY = restedLine(ORDER)

type Log = ReturnType<typeof makeMemoryLog>

function logOf(origin: string, ...entries: string[]): Log {
  const log = makeMemoryLog(origin)
  log.grow(ENTRY, ...entries)
  return log
}

async function proofIn({ remote, checkpoint, entries }: Log): Promise<string> {
  const size = parseCheckpoint(checkpoint())!.head.size
  const subtrees = subtreesOf(size, async (place) => (await remote.get(tilePath(place)))!)
  const proof = await inclusionProof(0, size, subtrees)
  const extra = entries[0]!
  return inclusionText({ extra, index: 0, proof, checkpoint: checkpoint() })
}

test('the SDK rejects a public log that contradicts the log that the SDK verified before', async (t) => {
  let shown = logOf(ORIGIN, 'one', 'two')
  let files = shown
  const honest = shown
  const server = createServer(async (request, response) => {
    const { key } = shown.remote
    const path = request.url ?? ''
    if (path === '/api/v1/transparency') {
      const log = { partition: 0, origin: key.name, path: '/log/1/p0', size: 1 }
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ logs: [{ ...log, verifierKeys: [verifierKeyText(key)] }] }))
      return
    }
    const file = path.startsWith('/log/1/p0/')
      ? await files.remote.get(path.slice('/log/1/p0/'.length))
      : await proofIn(shown)
    response.statusCode = file === undefined ? 404 : 200
    response.end(file ?? JSON.stringify({ error: 'not found', code: 'NOT_FOUND' }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close().closeAllConnections())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const client = () => createClient({ url, retries: 0 })
  const invalid = (message: RegExp) => ({ code: 'INVALID_PROOF', message })

  const ann = client()
  assert.equal((await ann.transparency.proveOrder(ORDER)).size, 3)
  honest.grow('three')
  assert.equal((await ann.transparency.proveOrder(ORDER)).size, 4)

  const other = logOf(ORIGIN, 'one', 'two', 'three')
  shown = other
  await assert.rejects(ann.transparency.proveOrder(ORDER), invalid(/not signed by the key/))

  shown = logOf('example.com/log/2/p0', 'one', 'two', 'three')
  await assert.rejects(
    ann.transparency.proveOrder(ORDER),
    invalid(/but listed example.com\/log\/1\/p0 before/),
  )
  const keys = [verifierKeyText(honest.signer.key)]
  const pinned = createClient({ url, retries: 0, logKeys: keys })
  await assert.rejects(pinned.transparency.proveOrder(ORDER), invalid(/no trusted key belongs to/))

  // The exchange signs a different history with its own key.
  const forked = (entries: readonly string[]) => {
    const log = makeMemoryLog(ORIGIN, undefined, honest.signer)
    log.grow(ENTRY, ...entries)
    return log
  }
  for (const entries of [
    ['another', 'two', 'three'],
    ['another', 'two', 'three', 'four', 'five'],
    ['another'],
  ]) {
    shown = forked(entries)
    files = shown
    await assert.rejects(
      ann.transparency.proveOrder(ORDER),
      invalid(/was rewritten|has no tile/),
      `${entries}`,
    )
  }
  // The exchange may show an earlier checkpoint of the same history. But it must still serve the tiles of the newer
  // checkpoint that the client has seen.
  shown = forked(['one'])
  files = shown
  await assert.rejects(ann.transparency.proveOrder(ORDER), invalid(/has no tile/))
  files = honest
  assert.equal((await ann.transparency.proveOrder(ORDER)).size, 2)
  shown = forked(['one', 'two', 'three', 'four'])
  files = shown
  assert.equal((await ann.transparency.proveOrder(ORDER)).size, 5)
})

test('during a rotation of keys, a proof is accepted if any trusted key has signed its checkpoint', async () => {
  const { verifyProof } = await import('#client/verify-log.ts')
  const log = logOf(ORIGIN)
  const text = await proofIn(log)
  const keys = [logOf(ORIGIN), log, logOf(ORIGIN)].map(({ signer }) => verifierKeyText(signer.key))
  assert.equal(verifyProof(text, { keys, orderHash: ORDER }).size, 1)
  assert.throws(() => verifyProof(text, { keys: [keys[0]!], orderHash: ORDER }), {
    code: 'INVALID_PROOF',
  })
})

test('the SDK refuses a proof whose entry mentions the requested order or match but does not record it', async () => {
  const { verifyProof } = await import('#client/verify-log.ts')
  const match = (...fills: unknown[]) =>
    lineOf(['M', MARKET, 3, 1, ORDER, ...TERMS, 0, 1, ...SIGNED, ...fills])
  const fill = [OTHER_ORDER, `0x${'44'.repeat(20)}`, 400_000, 1_000_000, 0]
  const proves = async (entry: string, terms: { orderHash: string } | { tradeId: string }) => {
    const log = makeMemoryLog(ORIGIN)
    log.grow(entry)
    const keys = [verifierKeyText(log.signer.key)]
    return verifyProof(await proofIn(log), { keys, ...terms })
  }
  const refused = { code: 'INVALID_PROOF', message: /another entry/ }
  assert.equal((await proves(ENTRY, { orderHash: ORDER })).size, 1)
  // An order can claim to replace any order, so this entry does not prove that the replaced order was logged.
  const replacing = restedLine(OTHER_ORDER, { replaces: ORDER })
  await assert.rejects(proves(replacing, { orderHash: ORDER }), refused)
  // The entry of a match names orders that earlier entries logged. So it proves neither the taker's order nor a
  // maker's.
  await assert.rejects(proves(match(...fill), { orderHash: ORDER }), refused)
  await assert.rejects(proves(match(...fill), { orderHash: OTHER_ORDER }), refused)

  assert.equal((await proves(match(...fill), { tradeId: `${MARKET}-3-0` })).size, 1)
  for (const other of ['3-1', '2-0', '4-0']) {
    await assert.rejects(proves(match(...fill), { tradeId: `${MARKET}-${other}` }), refused, other)
  }
})
