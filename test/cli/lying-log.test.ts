/**
 * Tests that the commands of the public log detect a dishonest exchange. It hides a log, proves an entry other than the
 * requested one, or lists a market in two logs.
 */

import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { MarketId, OrderHash } from '#domain/ids.ts'
import { parseCheckpoint } from '#transparency/checkpoint.ts'
import { inclusionText } from '#transparency/inclusion-text.ts'
import { inclusionProof } from '#transparency/merkle-proof.ts'
import { signatureLine, verifierKeyText } from '#transparency/note.ts'
import { receiptText } from '#transparency/receipt.ts'
import { subtreesOf, tilePath } from '#transparency/tiles.ts'
import { makeMemoryLog } from '../transparency/memory-log.ts'
import { callSibyl } from './call-sibyl.ts'

const MARKET = `0x${'11'.repeat(32)}` as MarketId
const ORDER = `0x${'ab'.repeat(32)}` as OrderHash
const TERMS = [`0x${'22'.repeat(20)}`, 0, 0, 400_000, 1_000_000]
const OPENED = { type: 'MarketOpened', marketId: MARKET, seq: 1, atMs: 1 }
const RESTED = ['R', MARKET, 2, 2, ORDER, ...TERMS, 1_000_000, 1_000_000, 1_900_000_000, 2, 0, 0]
const SIGNED = ['7', '1900000000', 0, `0x${'33'.repeat(32)}`, 0]
const CANCELLED = ['C', MARKET, 3, 3, ORDER, ...TERMS, 'cancelled', 1_000_000, 1_900_000_000, 2, 0]
const EVENTS = [
  { ...OPENED, market: { id: MARKET, chainId: 1 } },
  [...RESTED, ...SIGNED],
  CANCELLED,
] as const

function logOf(partition: number, count: number) {
  const log = makeMemoryLog(`example.com/log/1/p${partition}`)
  log.grow(
    ...EVENTS.slice(0, count).map(
      (event, at) => `{"v":1,"first":${at + 1},"count":1}\n${JSON.stringify(event)}\n`,
    ),
  )
  return log
}
type Log = ReturnType<typeof logOf>

async function proofAt({ remote, checkpoint, entries }: Log, index: number): Promise<string> {
  const { size } = parseCheckpoint(checkpoint())!.head
  const subtrees = subtreesOf(size, async (place) => (await remote.get(tilePath(place)))!)
  const proof = await inclusionProof(index, size, subtrees)
  return inclusionText({ extra: entries[index]!, index, proof, checkpoint: checkpoint() })
}

test('the log commands detect an exchange that hides or changes entries of its public log', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-lying-log-'))
  let logs: Log[] = [logOf(0, 2), logOf(1, 1)]
  let proof = ''
  const server = createServer(async (request, response) => {
    const path = request.url ?? ''
    const [, at, file = ''] = /^\/log\/([0-9])\/(.*)$/.exec(path) ?? []
    if (at !== undefined) {
      const bytes = await logs[Number(at)]?.remote.get(file)
      response.statusCode = bytes === undefined ? 404 : 200
      response.end(bytes)
      return
    }
    const listed = logs.map(({ signer: { key } }, partition) => ({
      ...{ partition, origin: key.name, path: `/log/${partition}`, size: 1 },
      verifierKeys: [verifierKeyText(key)],
    }))
    response.setHeader('content-type', 'application/json')
    if (path === '/api/v1/transparency') response.end(JSON.stringify({ logs: listed }))
    else if (path === '/api/v1/config') response.end('{"chains":[]}')
    else response.end(proof)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(async () => {
    server.close().closeAllConnections()
    await rm(folder, { recursive: true })
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const call = (...args: string[]) => callSibyl(['log', ...args, '--url', url])
  const fails = async (why: RegExp, ...args: string[]) => {
    const { code, err } = await call(...args)
    assert.equal(code, 1, `${args} ${err}`)
    assert.match(err, why)
  }

  await t.test(
    'the command log verify fails if the exchange no longer lists a public log that it published earlier',
    async () => {
      const [shown, hidden] = logs as [Log, Log]
      const keys = [shown, hidden].map(({ signer }) => verifierKeyText(signer.key)).join(',')
      const kept = join(folder, 'kept')
      assert.equal((await call('verify', '--keep', kept, '--key', keys)).code, 0)
      logs = [shown]
      await fails(/no longer publishes the log example.com\/log\/1\/p1/, 'verify', '--keep', kept)
      await fails(
        /does not list the log example.com\/log\/1\/p1, although/,
        'verify',
        '--key',
        keys,
      )
      await fails(
        /does not list the log example.com\/log\/1\/p1, although/,
        'replay',
        '--key',
        keys,
      )
      logs = [shown, hidden]
      const [file] = await readdir(kept)
      await writeFile(join(kept, file!), '')
      await fails(/is damaged/, 'verify', '--keep', kept)
    },
  )

  await t.test('the command log replay fails if one market occurs in two public logs', async () => {
    logs = [logOf(0, 1), logOf(1, 1)]
    await fails(/is in two logs/, 'replay', '--no-signatures')
    logs = [logOf(0, 2)]
  })

  await t.test(
    'the command log proof fails if the exchange returns a proof of another entry than the requested one',
    async () => {
      proof = await proofAt(logs[0]!, 1)
      assert.equal((await call('proof', ORDER)).code, 0)
      // The exchange proves an entry of the same market, but not the entry of the requested trade.
      await fails(/for another entry/, 'proof', `${MARKET}-2-0`)
      proof = await proofAt(logs[0]!, 0)
      await fails(/for another entry/, 'proof', ORDER)
    },
  )

  await t.test(
    'the command log receipt reports a signed receipt whose promise the public log does not keep',
    async () => {
      const file = join(folder, 'order.receipt')
      const promise = async (log: Log, status: 'accepted' | 'cancelled', seq: number) => {
        logs = [log]
        proof = await proofAt(log, 1)
        const { key, sign } = log.signer
        const facts = { origin: key.name, orderHash: ORDER, marketId: MARKET, atMs: 5 }
        const text = receiptText({ ...facts, status, seq })
        await writeFile(file, `${text}\n${signatureLine(key, sign(Buffer.from(text)))}`)
      }
      await promise(logOf(0, 2), 'accepted', 2)
      assert.equal((await call('receipt', file)).code, 0)
      await promise(logOf(0, 2), 'accepted', 1)
      await fails(
        /promises that the log has the order at or before event 1 of the market, but the log has it later/,
        'receipt',
        file,
      )
      // The order still rests.
      await promise(logOf(0, 2), 'cancelled', 3)
      await fails(/does not contain the promised cancellation/, 'receipt', file)
      await promise(logOf(0, 3), 'cancelled', 2)
      await fails(/does not contain the promised cancellation/, 'receipt', file)
      await promise(logOf(0, 3), 'cancelled', 3)
      const redeemed = await call('receipt', file)
      assert.deepEqual([redeemed.code, redeemed.err], [0, ''])
      assert.match(redeemed.out, /^ok {2}cancelled 0xab\S+, entry 2 of /)
    },
  )
})
