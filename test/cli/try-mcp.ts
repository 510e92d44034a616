/** `sibyl mcp` on a running devnet, used by the client of the protocol's own library. */

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createClient } from '#client/client.ts'
import { devnetAccount, devnetKey } from '#devnet/accounts.ts'
import type { Exchange } from '../support/exchange.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const ACCOUNT = 18
const LIBRARY = '@modelcontextprotocol/sdk'

type Answer = { content: { text: string }[]; isError?: boolean }
type McpClient = {
  connect(transport: unknown): Promise<void>
  listTools(): Promise<{ tools: { name: string }[] }>
  callTool(call: { name: string; arguments: object }): Promise<Answer>
  close(): Promise<void>
}

async function loadClient() {
  const parts = ['client/index.js', 'client/stdio.js', 'client/streamableHttp.js']
  const loaded = await Promise.all(parts.map((part) => import(`${LIBRARY}/${part}`)))
  return Object.assign({}, ...loaded) as {
    Client: new (info: object) => McpClient
    StdioClientTransport: new (options: object) => { stderr: NodeJS.ReadableStream | null }
    StreamableHTTPClientTransport: new (url: URL, options: object) => unknown
  }
}

const READING = [
  ...['list_markets', 'get_market', 'get_orderbook', 'get_trades'],
  ...['get_open_orders', 'get_positions'],
]
const TRADING = ['place_order', 'cancel_order']

export async function tryMcp(t: TestContext, exchange: Exchange): Promise<void> {
  const { Client, StdioClientTransport, StreamableHTTPClientTransport } = await loadClient()
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-mcp-'))
  t.after(() => rm(folder, { recursive: true }))
  const keyFile = join(folder, 'key')
  await writeFile(keyFile, devnetKey(ACCOUNT), { mode: 0o600 })
  const args = (...more: string[]) => [
    ...['--import', './src/loader/hooks.js', 'src/cli/main.ts', 'mcp'],
    ...['--url', exchange.url, ...more],
  ]
  const [market] = await createClient({ url: exchange.url }).markets({ status: 'open' })
  assert.ok(market !== undefined)
  const order = { marketId: market.id, side: 'buy', outcome: 'YES', price: '0.02' }
  const openOrders = () =>
    createClient({ url: exchange.url }).orders.list({ trader: devnetAccount(ACCOUNT).address })

  /** Runs the server as a child process that speaks over its standard input and output. */
  async function overStdio(...more: string[]) {
    const env = { ...process.env, HOME: folder } as Record<string, string>
    const transport = new StdioClientTransport({
      ...{ command: process.execPath, args: args(...more), cwd: ROOT, env, stderr: 'pipe' },
    })
    const lines: string[] = []
    transport.stderr?.on('data', (chunk: Buffer) => lines.push(chunk.toString()))
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(transport)
    return { client, log: () => lines.join('') }
  }
  const textOf = ({ content }: Answer): string => content[0]?.text ?? ''
  const namesOf = async (client: McpClient) =>
    (await client.listTools()).tools.map(({ name }) => name)

  await t.test('mcp: without a key it lists only read tools, and they answer', async () => {
    const { client, log } = await overStdio()
    try {
      assert.deepEqual(await namesOf(client), READING)
      const listed = await client.callTool({ name: 'list_markets', arguments: {} })
      assert.ok(textOf(listed).includes(market.id))
      const book = { marketId: market.id, outcome: 'YES' }
      assert.ok(
        'bids' in
          JSON.parse(textOf(await client.callTool({ name: 'get_orderbook', arguments: book }))),
      )
      const refused = await client.callTool({
        name: 'place_order',
        arguments: { ...order, size: '1' },
      })
      assert.equal(refused.isError, true)
      assert.match(textOf(refused), /there is no tool place_order/)
      const wrong = await client.callTool({ name: 'get_market', arguments: { marketId: '0x1' } })
      assert.match(textOf(wrong), /^REFUSED: marketId must match/)
      assert.equal(log().match(/"tool":"list_markets"/g)?.length, 1)
    } finally {
      await client.close()
    }
  })

  await t.test('mcp: with a key but without --live an order is only checked', async () => {
    const { client } = await overStdio('--key-file', keyFile)
    try {
      assert.deepEqual(await namesOf(client), [...READING, ...TRADING])
      const answer = await client.callTool({
        name: 'place_order',
        arguments: { ...order, size: '2' },
      })
      const { dryRun, valid } = JSON.parse(textOf(answer)) as { dryRun: boolean; valid: boolean }
      assert.deepEqual([dryRun, valid], [true, true])
      assert.deepEqual(await openOrders(), [])
    } finally {
      await client.close()
    }
  })

  await t.test('mcp: with --live it trades, and refuses to exceed its limits', async () => {
    const limits = ['--max-size', '50', '--max-notional', '2']
    const { client, log } = await overStdio('--key-file', keyFile, '--live', ...limits)
    try {
      const place = (size: string) =>
        client.callTool({ name: 'place_order', arguments: { ...order, size, label: 'mcp' } })
      const placed = JSON.parse(textOf(await place('50'))) as { orderHash: string }
      assert.deepEqual(
        (await openOrders()).map(({ label }) => label),
        ['mcp'],
      )
      assert.match(textOf(await place('51')), /^REFUSED: size must be at most 50000000/)
      await place('50')
      assert.match(textOf(await place('1')), /^REFUSED: price times size .* 0 of 2000000/)
      const cancel = { orderHash: placed.orderHash, marketId: market.id, side: 'buy' }
      const cancelled = await client.callTool({ name: 'cancel_order', arguments: cancel })
      assert.equal((JSON.parse(textOf(cancelled)) as { status: string }).status, 'cancelled')
      assert.ok(!log().includes(devnetKey(ACCOUNT).slice(2)), 'the key is in no log')
    } finally {
      await client.close()
    }
    const trader = createClient({ url: exchange.url, signer: devnetKey(ACCOUNT) })
    for (const { orderHash } of await openOrders()) {
      await trader.orders.cancel({ orderHash, marketId: market.id, side: 'buy' })
    }
  })

  await t.test('mcp: over HTTP it requires its token and refuses web pages', async () => {
    const server = spawn(process.execPath, args('--http', '0'), { cwd: ROOT })
    try {
      const [, url = '', token = ''] = await new Promise<RegExpMatchArray>((resolve, reject) => {
        let said = ''
        server.once('exit', (code) => reject(new Error(`it ended with ${code}: ${said}`)))
        server.stderr.on('data', (chunk: Buffer) => {
          said += chunk.toString()
          const found = /(http:\S+) with Authorization: Bearer (\S+)\n/.exec(said)
          if (found !== null) resolve(found)
        })
      })
      assert.equal((await fetch(url, { method: 'POST', body: '{}' })).status, 401)
      const authorization = `Bearer ${token}`
      const page = { authorization, origin: 'http://example.org' }
      assert.equal((await fetch(url, { method: 'POST', body: '{}', headers: page })).status, 401)
      const client = new Client({ name: 'test', version: '1' })
      await client.connect(
        new StreamableHTTPClientTransport(new URL(url), {
          requestInit: { headers: { authorization } },
        }),
      )
      assert.deepEqual(await namesOf(client), READING)
      await client.close()
    } finally {
      const gone = new Promise((resolve) => server.once('exit', resolve))
      server.kill('SIGTERM')
      await gone
    }
  })
}
