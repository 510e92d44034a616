/** `npm run audit` queries each chain at the address in the settings. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { encodeAbiParameters } from 'viem'
import { writeChainRecord } from '#devnet/chain-record.ts'
import { claimChain } from '#store/chain-index/cursor.ts'
import { indexRange } from '#store/chain-index/index-range.ts'
import { closeDatabase } from '#store/engine/database.ts'
import { migrate } from '#store/migrations/migrate.ts'
import { openDatabase } from '#store/open-database.ts'
import {
  block,
  CHAIN,
  created,
  mark,
  person,
  split,
  word,
} from '../store/chain-index/chain-events.ts'
import { runAudit } from '../support/run-audit.ts'

/** Starts a provider that answers requests only on a secret path of its URL. */
async function startProvider(t: TestContext, shares: bigint): Promise<string> {
  const answers: Readonly<Record<string, string>> = {
    eth_chainId: `0x${CHAIN.toString(16)}`,
    eth_call: encodeAbiParameters([{ type: 'uint256[]' }], [[shares, shares]]),
  }
  const server = createServer(async (request: IncomingMessage, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    if (request.url !== '/v3/secret') return response.writeHead(404).end('no such project')
    const { id, method } = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, string>
    const reply = { jsonrpc: '2.0', id, result: answers[method ?? ''] }
    return response.writeHead(200).end(JSON.stringify(reply))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v3/secret`
}

test('an audit can use an RPC provider whose URL has a secret in its path', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'sibyl-audit-'))
  t.after(() => rmSync(dataDir, { recursive: true }))
  const database = await openDatabase(`sqlite:${join(dataDir, 'sibyl.db')}`)
  await migrate(database)
  const [anchor, upTo] = [mark(0), mark(1)]
  const where = { chainId: CHAIN, deployment: 'here', startBlock: 1, anchor, atMs: 1 }
  await claimChain(database, where)
  await indexRange(database, {
    chainId: CHAIN,
    after: anchor,
    upTo,
    marks: [upTo],
    events: block(upTo, created(1), ...split(1, person(101), 5n)),
    setAside: [],
    giveUpOrphansOf: -1,
    atMs: 2,
  })
  await closeDatabase(database)
  const names = ['settlement', 'conditionalTokens', 'stablecoin', 'marketFactory', 'multicall']
  const contracts = Object.fromEntries(
    [...names, 'oracle'].map((name, at) => [name, person(at + 1)]),
  )
  // When an exchange starts, it writes the chain's contracts and its URL without the secret path into this file. In the
  // second round the file is missing, as if the audit ran on another machine.
  const record = join(dataDir, 'chain.json')
  for (const [shares, isRecorded, ends, tells] of [
    [5n, true, 0, /1 holders compared with chain 31337 at block 1.*no difference/s],
    [
      4n,
      false,
      1,
      /balances of 0x0+65 in 0x0+1 at block 1 of chain 31337: the exchange has YES 5, NO 5, but should have/,
    ],
  ] as const) {
    const rpcUrl = await startProvider(t, shares)
    const url = new URL(rpcUrl).origin
    rmSync(record, { force: true })
    if (isRecorded) writeChainRecord(dataDir, { [CHAIN]: { genesis: word(1), url, contracts } })
    const stablecoin = { symbol: 'USDC', decimals: 6, domainName: 'USD Coin', domainVersion: '1' }
    const chain = { chainId: CHAIN, role: 'test', blockExplorer: '', startBlock: 0 }
    const named = { ...chain, confirmations: 0, rpcUrls: [rpcUrl], contracts, stablecoin }
    const { code, said } = await runAudit({
      SIBYL_CHAINS: JSON.stringify([named]),
      SIBYL_DATA_DIR: dataDir,
      SIBYL_DEVNET: 'false',
    })
    assert.match(said, tells)
    assert.equal(code, ends, said)
  }
})
