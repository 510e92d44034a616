/** Tests the public log of a running exchange: the log follows the standards, and a single flipped bit is detected. */

import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gunzipSync } from 'node:zlib'
import { serveWitness } from '#cli/witness/witness-server.ts'
import type { Orderbook } from '#client/answers.ts'
import { createClient } from '#client/client.ts'
import { LocalBook } from '#client/local-book.ts'
import { verifyProof, verifyReceipt } from '#client/verify-log.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { openCheckpoint } from '#transparency/checkpoint.ts'
import { cosignedAtSec } from '#transparency/cosignature.ts'
import { verifyInclusionText } from '#transparency/inclusion-text.ts'
import {
  makeVerifierKey,
  parseNote,
  parseVerifierKey,
  type VerifierKey,
  verifierKeyText,
} from '#transparency/note.ts'
import { makeEventReader } from '#transparency/public-event.ts'
import type { PublicEvent } from '#transparency/public-event-shapes.ts'
import { openReceipt } from '#transparency/receipt.ts'
import { verifyEntries } from '#transparency/remote-log.ts'
import { TreeBuilder } from '#transparency/tree-builder.ts'
import { treeHasher } from '#transparency/tree-hash.ts'
import type { Witness } from '#transparency/witness.ts'
import { callSibyl } from '../cli/call-sibyl.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { servicesRequired } from '../support/required-services.ts'
import { newWitnessSigner } from '../transparency/memory-log.ts'

const VERIFY_GO = new URL('../transparency/foreign/verify.go', import.meta.url)
const run = promisify(execFile)
/** Where Debian puts Go's packages. */
const GO_ENVIRONMENT = {
  ...process.env,
  GO111MODULE: 'off',
  GOPATH: process.env.GOPATH ?? '/usr/share/gocode',
  GOCACHE: join(tmpdir(), 'sibyl-go-cache'),
}

type Logs = {
  logs: {
    origin: string
    path: string
    verifierKeys: string[]
    size: number
    witnesses?: string[]
    cosignedSize?: number
  }[]
}

/** Makes a witness that stores its state in memory. The test later adds the logs that the witness follows. */
function makeWitness() {
  const kept = new Map<string, string>()
  return {
    logs: new Map<string, VerifierKey[]>(),
    signer: newWitnessSigner(),
    state: {
      read: (origin: string) => kept.get(origin),
      write: (origin: string, text: string) => void kept.set(origin, text),
    },
    nowSec: () => Math.floor(Date.now() / 1_000),
  } satisfies Witness
}

test('the log of a running exchange is public and verifiable', async (t) => {
  const witness = makeWitness()
  const witnessServer = serveWitness(witness)
  await new Promise<void>((resolve) => witnessServer.listen(0, '127.0.0.1', resolve))
  t.after(() => witnessServer.close().closeAllConnections())
  const witnessKey = verifierKeyText(witness.signer.key)
  const witnessUrl = `http://127.0.0.1:${(witnessServer.address() as AddressInfo).port}`
  const exchange = await startExchange(t, {
    environment: {
      SIBYL_TRANSPARENCY: 'on',
      SIBYL_TRANSPARENCY_WITNESSES: `${witnessKey}@${witnessUrl}`,
    },
  })
  const { url } = exchange
  const ann = createClient({ url, signer: devnetKey(10) })
  const bob = createClient({ url, signer: devnetKey(11) })
  const [market] = await ann.markets({ status: 'open' })
  assert.ok(market !== undefined)
  const terms = { marketId: market.id, outcome: 'YES', price: '0.40', ttlSeconds: 3_600 } as const
  const offer = await ann.orders.place({ ...terms, side: 'sell', size: '10' })
  const bid = await bob.orders.place({ ...terms, side: 'buy', size: '4' })
  const bytesAt = async (path: string): Promise<Uint8Array> => {
    const response = await fetch(url + path)
    assert.equal(response.status, 200, path)
    return new Uint8Array(await response.arrayBuffer())
  }
  const proofOf = async (path: string): Promise<string> => {
    const response = await eventually(async () => {
      const found = await fetch(url + path)
      assert.equal(found.status, 200, `${path}: ${found.status}`)
      return found
    })
    assert.match(response.headers.get('content-type') ?? '', /^text\/plain/)
    return response.text()
  }
  const logsNow = async (): Promise<Logs['logs']> =>
    ((await (await fetch(`${url}/api/v1/transparency`)).json()) as Logs).logs

  await eventually(async () => {
    for (const { origin, verifierKeys } of await logsNow()) {
      witness.logs.set(origin, [parseVerifierKey(verifierKeys[0] ?? '')!])
    }
    assert.ok(witness.logs.size > 0)
  })

  await t.test(
    'an offline proof of an order contains the order’s entry from the public log',
    async () => {
      for (const { orderHash } of [offer, bid]) {
        const text = await proofOf(`/api/v1/orders/${orderHash}/proof`)
        const [, origin = ''] = /\n\n(.*)\n/.exec(text) ?? []
        const log = (await logsNow()).find((each) => each.origin === origin)
        const key = parseVerifierKey(log?.verifierKeys[0] ?? '')
        assert.ok(key !== undefined)
        const { entry } = verifyInclusionText(text, key)
        assert.match(Buffer.from(entry).toString(), new RegExp(`"${orderHash}"`))
        assert.throws(() => verifyInclusionText(flipBase64(text, 'extra '), key))
        assert.throws(() => verifyInclusionText(flipBase64(text, `— ${origin} `), key))
      }
    },
  )

  await t.test(
    'an offline proof of a trade contains the trade’s match from the public log',
    async () => {
      const [trade] = await ann.trades(market.id)
      assert.ok(trade !== undefined)
      const text = await proofOf(`/api/v1/trades/${trade.tradeId}/proof`)
      assert.match(Buffer.from(/extra (.*)/.exec(text)?.[1] ?? '', 'base64').toString(), /\n\["M",/)
    },
  )

  await t.test(
    'checkpoint, tiles and entries of the public log agree, and contain nothing secret',
    async () => {
      for (const log of await logsNow()) {
        const key = parseVerifierKey(log.verifierKeys[0] ?? '')
        assert.ok(key !== undefined)
        const note = Buffer.from(await bytesAt(`${log.path}/checkpoint`)).toString()
        const { head } = openCheckpoint(note, key)
        const remote = { key, get: (path: string) => bytesAt(`${log.path}/${path}`) }
        const readEvents = makeEventReader()
        const builder = new TreeBuilder(treeHasher)
        await verifyEntries(remote, { head }, builder, (entry) => {
          readEvents(entry)
          assert.doesNotMatch(Buffer.from(entry).toString(), /0x[0-9a-f]{130}/)
        })
        assert.ok(builder.size > 0)
      }
    },
  )

  await t.test(
    'the log commands verify the public log, check a stored proof, and act as witness',
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'sibyl-log-'))
      t.after(() => rm(folder, { recursive: true }))
      const at = ['--url', url]
      const call = async (...args: string[]): Promise<string> => {
        const { code, out, err } = await callSibyl(['log', ...args])
        assert.deepEqual([code, err], [0, ''], args.join(' '))
        return out
      }
      const keep = ['--keep', join(folder, 'kept')]
      assert.match(
        await call('verify', ...at, ...keep),
        /^ok {2}localhost\/log\/\S+ {2}\d+ entries\n/,
      )
      await call('verify', ...at, ...keep)
      const saved = join(folder, 'order.tlog-proof')
      assert.match(
        await call('proof', offer.orderHash, ...at, '--save', saved),
        new RegExp(offer.orderHash),
      )
      const keys = (await logsNow()).flatMap(({ verifierKeys }) => verifierKeys).join(',')
      assert.match(await call('proof', saved, '--key', keys), /^ok {2}entry/)
      await writeFile(saved, flipBase64(await readFile(saved, 'utf8'), 'extra '))
      const wrong = await callSibyl(['log', 'proof', saved, '--key', keys])
      assert.deepEqual([wrong.code, wrong.out], [1, ''])
      const replayed = /^ok {2}\S+ {2}\d+ events, \d+ orders, \d+ fills, \d+ signers$/m
      const lines = await call('replay', ...at)
      assert.match(lines, replayed)
      // Bob's order was filled, so the public log has its signature. Ann's order still rests.
      assert.match(lines, /2 orders, 1 fills, 1 signers/)
      const keyFile = join(folder, 'witness.key')
      await writeFile(keyFile, `0x${'7'.repeat(64)}\n`, { mode: 0o600 })
      const witness = ['witness', '--name', 'witness.example/w1', '--key-file', keyFile, '--once']
      const state = ['--state', join(folder, 'witness')]
      for (let round = 0; round < 2; round++) {
        assert.match(await call(...witness, ...state, ...at), /^witness\.example\/w1\+/)
      }
    },
  )

  await t.test(
    'a signed receipt leads to a proof of the order, and is refused if one character of it changes',
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'sibyl-receipt-'))
      t.after(() => rm(folder, { recursive: true }))
      const post = async (headers: Record<string, string>) => {
        const order = await ann.orders.sign({ ...terms, side: 'sell', size: '1', price: '0.70' })
        const body = JSON.stringify(order)
        const response = await fetch(`${url}/api/v1/orders`, {
          ...{ method: 'POST', body, headers: { 'content-type': 'application/json', ...headers } },
        })
        return (await response.json()) as { orderHash: string; receipt?: string }
      }
      assert.equal((await post({})).receipt, undefined)
      // The front learns the log's name after the first request with `accept-receipt`, so the first answers
      // have no receipt.
      const { orderHash, receipt } = await eventually(async () => {
        const answer = await post({ 'accept-receipt': '1' })
        assert.ok(answer.receipt !== undefined)
        return answer
      })
      assert.ok(receipt !== undefined)
      const key = (await logsNow())
        .map(({ verifierKeys }) => parseVerifierKey(verifierKeys[0] ?? ''))
        .find((each) => each?.name === receipt.split('\n')[1])
      assert.ok(key !== undefined)
      const opened = openReceipt(receipt, key)
      assert.deepEqual([opened.orderHash, opened.status], [orderHash, 'accepted'])
      for (let at = 0; at < receipt.length; at++) {
        const changed = receipt[at] === '7' ? '8' : '7'
        assert.throws(() =>
          openReceipt(receipt.slice(0, at) + changed + receipt.slice(at + 1), key),
        )
      }
      await proofOf(`/api/v1/orders/${orderHash}/proof`)
      const file = join(folder, 'order.receipt')
      await writeFile(file, receipt)
      const redeemed = await callSibyl(['log', 'receipt', file, '--url', url])
      assert.deepEqual([redeemed.code, redeemed.err], [0, ''])
      const cancelled = await fetch(
        `${url}/api/v1/orders/${orderHash}?marketId=${market.id}&side=sell`,
        { method: 'DELETE', headers: { 'accept-receipt': '1' } },
      )
      const gone = (await cancelled.json()) as { receipt?: string }
      assert.equal(openReceipt(gone.receipt ?? '', key).status, 'cancelled')
      await writeFile(file, gone.receipt ?? '')
      await eventually(async () => {
        const { code, out } = await callSibyl(['log', 'receipt', file, '--url', url])
        assert.deepEqual([code, out.slice(0, 14)], [0, 'ok  cancelled '])
      })
    },
  )

  await t.test('orders and cancels over the stream and in a batch get receipts', async () => {
    const receiving = createClient({ url, signer: devnetKey(12), receipts: true })
    const keys = (await logsNow()).flatMap(({ verifierKeys }) => verifierKeys)
    const sign = (price: string) =>
      receiving.orders.sign({ ...terms, side: 'sell', size: '1', price })
    const promised = (receipt: string | undefined) => {
      const { status, orderHash } = verifyReceipt(receipt ?? '', { keys })
      return [status, orderHash]
    }
    const stream = receiving.stream()
    t.after(() => stream.close())
    const { orderHash, receipt } = await stream.place(await sign('0.80'))
    assert.deepEqual(promised(receipt), ['accepted', orderHash])
    const gone = await stream.cancel({ orderHash, marketId: market.id, side: 'sell' })
    assert.deepEqual(promised(gone.receipt), ['cancelled', orderHash])
    const results = await receiving.orders.submitBatch([await sign('0.81'), await sign('0.82')])
    for (const result of results) {
      assert.ok(result.ok)
      const { placed } = result
      assert.deepEqual(promised(placed.receipt), ['accepted', placed.orderHash])
      const cancelled = await receiving.orders.cancel({
        ...placed,
        marketId: market.id,
        side: 'sell',
      })
      assert.deepEqual(promised(cancelled.receipt), ['cancelled', placed.orderHash])
    }
    const plain = ann.stream()
    t.after(() => plain.close())
    const without = await plain.place(await ann.orders.sign({ ...terms, side: 'sell', size: '1' }))
    assert.equal(without.receipt, undefined)
  })

  await t.test('the SDK verifies the proofs of an order and of a trade', async () => {
    const proven = await ann.transparency.proveOrder(offer.orderHash)
    assert.ok(proven.entry.includes(offer.orderHash) && proven.index < proven.size)
    const [trade] = await ann.trades(market.id)
    await ann.transparency.proveTrade(trade?.tradeId ?? '')
    const text = await proofOf(`/api/v1/orders/${offer.orderHash}/proof`)
    const keys = (await logsNow()).flatMap(({ verifierKeys }) => verifierKeys)
    assert.equal(verifyProof(text, { keys, orderHash: offer.orderHash }).index, proven.index)
    const invalid = { code: 'INVALID_PROOF' }
    const { orderHash } = offer
    const flipped = flipBase64(text, 'extra ')
    assert.throws(() => verifyProof(flipped, { keys, orderHash }), invalid)
    assert.throws(() => verifyProof(text, { keys, orderHash: `0x${'1'.repeat(64)}` }), invalid)
    assert.throws(() => verifyProof(text, { keys: [], orderHash }), invalid)
    assert.throws(() => verifyProof(text, { keys: [newKey(proven.origin)], orderHash }), invalid)
    assert.throws(() => verifyReceipt(text, { keys }), { code: 'INVALID_RECEIPT' })
    const pinned = createClient({ url, logKeys: [newKey(proven.origin)] })
    await assert.rejects(pinned.transparency.proveOrder(orderHash), invalid)
  })

  await t.test(
    'a witness cosigns the checkpoint of the public log, and proofs include the witness’s signature',
    async () => {
      const { orderHash } = offer
      const keys = (await logsNow()).flatMap(({ verifierKeys }) => verifierKeys)
      const terms = { keys, orderHash, witnesses: [witnessKey] }
      const { origin } = await eventually(async () => {
        const proof = verifyProof(await proofOf(`/api/v1/orders/${orderHash}/proof`), terms)
        assert.deepEqual(proof.cosigners, [witness.signer.key.name])
        return proof
      })
      const log = (await logsNow()).find((each) => each.origin === origin)
      assert.deepEqual(log?.witnesses, [witnessKey])
      assert.ok((log?.cosignedSize ?? 0) > 0)
      const cosigned = Buffer.from(await bytesAt(`${log?.path}/cosigned-checkpoint`)).toString()
      assert.ok(cosignedAtSec(parseNote(cosigned)!, witness.signer.key) !== undefined)
      const saved = await callSibyl([
        ...['log', 'proof', orderHash, '--url', url, '--witness', witnessKey],
      ])
      assert.deepEqual([saved.code, saved.err], [0, ''])
    },
  )

  await t.test('the command sibyl log book shows the order book at an earlier time', async () => {
    const then = await ann.orderbook(market.id, 'YES')
    const later = await ann.orders.place({ ...terms, side: 'sell', size: '5', price: '0.66' })
    await proofOf(`/api/v1/orders/${later.orderHash}/proof`)
    const line = ['log', 'book', market.id, 'YES', '--seq', String(then.seq), '--json']
    const { code, out, err } = await callSibyl([...line, '--url', url])
    assert.deepEqual([code, err], [0, ''])
    const shown = JSON.parse(out) as typeof then & { checksum: number }
    const pairs = (levels: typeof then.bids) =>
      levels.map(({ price, size }) => [price, String(size)] as const)
    const plain = ({ seq, bids, asks }: typeof then) => [seq, pairs(bids), pairs(asks)]
    assert.deepEqual(plain(shown), plain(then))
    const book = new LocalBook()
    book.load(then.seq ?? 0, pairs(then.bids), pairs(then.asks))
    assert.equal(shown.checksum, book.checksum())
    const now = await callSibyl(['log', 'book', market.id, '--at', '2100-01-01', '--url', url])
    assert.match(now.out, /0\.66/)
    assert.equal((await callSibyl(['log', 'book', market.id, '--url', url])).code, 2)
  })

  await t.test(
    'a book of the past has the checksum that the stream sent at that time',
    async () => {
      const stream = ann.stream()
      t.after(() => stream.close())
      const seen: { seq: number; checksum: number; bids: unknown; asks: unknown }[] = []
      const what = { marketId: market.id, outcome: 'YES' } as const
      const { ready } = stream.book(what, ({ seq, checksum }, book) => {
        seen.push({ seq, checksum, bids: book.bids(), asks: book.asks() })
      })
      await ready
      const before = new Date()
      const prices = ['0.71', '0.72', '0.73'] as const
      for (const price of prices) {
        await ann.orders.place({ ...terms, side: 'sell', size: '1', price })
      }
      const { seq: newest = 0 } = await ann.orderbook(market.id, 'YES')
      await eventually(async () => assert.ok(seen.some(({ seq }) => seq >= newest)))
      for (const { seq, checksum, bids, asks } of seen) {
        const past: Orderbook = await eventually(() => ann.orderbook(market.id, 'YES', { seq }))
        assert.deepEqual(
          [past.seq, past.checksum, past.bids, past.asks],
          [seq, checksum, bids, asks],
        )
      }
      const then = await ann.orderbook(market.id, 'YES', { at: before })
      assert.ok(!then.asks.some(({ price }) => price === 710_000))
      const both = await ann.orderbook(market.id, undefined, { seq: newest })
      assert.equal(both.checksum, undefined)
      const shown = await callSibyl(['book', market.id, '--seq', String(newest), '--url', url])
      assert.match(shown.out, /seq \d+, checksum \d+\n(.|\n)*0\.73/)
      for (const [query, status, field] of [
        [`seq=${newest + 1_000}`, 400, 'seq'],
        ['seq=0', 400, 'seq'],
        ['at=yesterday', 400, 'at'],
        ['at=-1', 400, 'at'],
        ['at=1e400', 400, 'at'],
        ['at=999999999999', 400, 'at'],
        ['at=1.2345', 400, 'at'],
        ['seq=-1', 400, 'seq'],
        ['seq=9007199254740993', 400, 'seq'],
        ['at=1&seq=1', 400, 'at'],
        ['at=1', 404, undefined],
      ] as const) {
        const response: Response = await fetch(`${url}/api/v1/orderbook/${market.id}?${query}`)
        const answer = (await response.json()) as { field?: string }
        assert.deepEqual([response.status, answer.field], [status, field], query)
      }
    },
  )

  await t.test(
    'the events of a market day can be downloaded as a file together with its hash',
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'sibyl-archive-'))
      t.after(() => rm(folder, { recursive: true }))
      const day = new Date().toISOString().slice(0, 10)
      const { seq: newest = 0 } = await ann.orderbook(market.id, 'YES')
      const events = await eventually(async () => {
        const found: PublicEvent[] = []
        for await (const event of ann.archive.events(market.id, day)) found.push(event)
        assert.equal(found.at(-1)?.seq, newest)
        return found
      })
      assert.deepEqual(
        events.map(({ seq }) => seq),
        Array.from({ length: events.length }, (_, at) => newest - events.length + 1 + at),
      )
      const file = join(folder, 'events.gz')
      const line = ['archive', market.id, day, '--out', file, '--json', '--url', url]
      const { code, out, err } = await callSibyl(line)
      assert.deepEqual([code, err], [0, ''])
      const bytes = await readFile(file)
      assert.equal(JSON.parse(out).sha256, createHash('sha256').update(bytes).digest('hex'))
      assert.equal(gunzipSync(bytes).toString().trimEnd().split('\n').length, events.length)
      const path = `${url}/api/v1/archive/${market.id}`
      assert.equal((await fetch(`${path}/2020-01-01`)).status, 404)
      assert.equal((await fetch(`${path}/2020-13-01`)).status, 400)
      assert.equal((await fetch(`${path}/2026-02-30`)).status, 400)
      assert.equal((await fetch(`${path}/2099-01-01`)).status, 404)
      const unknown = `0x${'7'.repeat(64)}`
      assert.equal((await fetch(`${url}/api/v1/archive/${unknown}/${day}`)).status, 404)
      assert.equal((await fetch(`${url}/api/v1/orderbook/${unknown}?at=1790000000`)).status, 404)
      // A request for a time in the future returns the newest book.
      const ahead = await fetch(`${url}/api/v1/orderbook/${market.id}?at=99999999999`)
      assert.deepEqual([ahead.status, ((await ahead.json()) as Orderbook).seq], [200, newest])
      // A single IP address cannot fill the queue of the thread that makes archive files: further requests of
      // the address are refused at once.
      const many = await Promise.all(
        Array.from({ length: 12 }, async () => {
          const response = await fetch(`${path}/${day}`)
          await response.arrayBuffer()
          return response.status
        }),
      )
      assert.deepEqual(new Set(many), new Set([200, 429]))
      assert.equal((await fetch(`${path}/${day}`)).status, 200)
      const { headers } = await fetch(`${path}/${day}`)
      assert.match(headers.get('repr-digest') ?? '', /^sha-256=:[A-Za-z0-9+/]{43}=:$/)
      assert.equal(headers.get('content-type'), 'application/gzip')
    },
  )

  await t.test('the Go packages verify the public log', { skip: missingGo() }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sibyl-go-'))
    t.after(() => rm(folder, { recursive: true }))
    const older = join(folder, 'checkpoint')
    const [log] = await logsNow()
    assert.ok(log !== undefined)
    await writeFile(older, await bytesAt(`${log.path}/checkpoint`))
    await ann.orders.place({ ...terms, side: 'sell', size: '2', price: '0.61' })
    const args = ['run', fileURLToPath(VERIFY_GO), url + log.path, log.verifierKeys[0] ?? '']
    const { stdout } = await run('go', [...args, older], { env: GO_ENVIRONMENT })
    assert.match(stdout, /^ok [1-9]/)
    const other = newKey(log.origin)
    await assert.rejects(
      run('go', [...args.slice(0, 3), other, older], { env: GO_ENVIRONMENT }),
      /verifi|signature/,
    )
  })

  await t.test('the signature of an order is published only once the order has ended', async () => {
    const shown = async (...hashes: string[]) => {
      const response = await fetch(`${url}/api/v1/transparency/signatures?orders=${hashes}`)
      return ((await response.json()) as { orders?: { orderHash: string }[] }).orders
    }
    const found = await shown(offer.orderHash, bid.orderHash)
    assert.deepEqual(
      found?.map(({ orderHash }) => orderHash),
      [bid.orderHash],
    )
    assert.equal(await shown('nonsense'), undefined)
    assert.equal(await shown(...Array.from({ length: 41 }, () => offer.orderHash)), undefined)
  })

  await t.test(
    'an unknown path of the public log is answered with 404, and refusals are not cached',
    async () => {
      const [log] = await logsNow()
      assert.ok(log !== undefined)
      for (const path of [
        `${log.path}/tile/0/999`,
        `${log.path}/tile/0/000.p/255`,
        `${log.path}/tile/64/000`,
        `${log.path}/tile/entries/x000/000`,
        `/log/another/p0/checkpoint`,
        `/api/v1/orders/0x${'1'.repeat(64)}/proof`,
        `/api/v1/trades/0x${'1'.repeat(64)}-1-0/proof`,
      ]) {
        const response = await fetch(url + path)
        assert.equal(response.status, 404, path)
        assert.equal(response.headers.get('cache-control'), 'no-store', path)
      }
      assert.equal((await fetch(`${url}/api/v1/trades/nonsense/proof`)).status, 400)
    },
  )

  await t.test('after a kill, the public log continues where it ended', async () => {
    const before = await logsNow()
    await exchange.kill()
    await exchange.start()
    const again = createClient({ url: exchange.url, signer: devnetKey(10) })
    const placed = await again.orders.place({ ...terms, side: 'sell', size: '3', price: '0.55' })
    const text = await eventually(async () => {
      const found = await fetch(`${exchange.url}/api/v1/orders/${placed.orderHash}/proof`)
      assert.equal(found.status, 200)
      return found.text()
    })
    assert.match(text, /^c2sp\.org\/tlog-proof@v1\n/)
    const after = ((await (await fetch(`${exchange.url}/api/v1/transparency`)).json()) as Logs).logs
    for (const log of before) {
      const same = after.find(({ origin }) => origin === log.origin)
      assert.ok(same !== undefined && same.size >= log.size)
    }
  })
})

/**
 * Returns the reason to skip the test if Go or its `sumdb` packages are missing. Returns false if they are installed,
 * or if the test must not be skipped.
 */
function missingGo(): string | false {
  if (servicesRequired) return false
  const found = spawnSync('go', ['version'], { env: GO_ENVIRONMENT })
  if (found.status !== 0) return 'needs Go: apt install golang-go golang-golang-x-mod-dev'
  const packages = join(GO_ENVIRONMENT.GOPATH, 'src/golang.org/x/mod/sumdb')
  return existsSync(packages) ? false : `needs golang-golang-x-mod-dev: ${packages} is missing`
}

function newKey(origin: string): string {
  return verifierKeyText(makeVerifierKey(origin, randomBytes(32)))
}

/** Flips the last bit of the base64 data that follows `mark`, up to the end of the line. */
function flipBase64(text: string, mark: string): string {
  const at = text.indexOf(mark) + mark.length
  const end = text.indexOf('\n', at)
  const bytes = Buffer.from(text.slice(at, end), 'base64')
  bytes[bytes.length - 1]! ^= 1
  return text.slice(0, at) + bytes.toString('base64') + text.slice(end)
}
