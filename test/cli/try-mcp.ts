/** Tests `sibyl mcp` on a running devnet, with the protocol's own client library and with hostile plain requests. */

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createClient } from '#client/client.ts'
import { signerAddress } from '#client/sign-order.ts'
import { devnetAccount, devnetKey } from '#devnet/accounts.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { callSibyl } from './call-sibyl.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const ACCOUNT = 18
/** A new key without money: the delegate. */
const AGENT_KEY = `0x${'a6'.repeat(32)}` as const
const LIBRARY = '@modelcontextprotocol/sdk'

type Answer = { content: { text: string }[]; isError?: boolean }
type McpClient = {
  getInstructions(): string | undefined
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
  const { url } = exchange
  const { Client, StdioClientTransport, StreamableHTTPClientTransport } = await loadClient()
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-mcp-'))
  t.after(() => rm(folder, { recursive: true }))
  const ownerFile = join(folder, 'owner.key')
  const agentFile = join(folder, 'agent.key')
  await writeFile(ownerFile, devnetKey(ACCOUNT), { mode: 0o600 })
  await writeFile(agentFile, AGENT_KEY, { mode: 0o600 })
  const account = devnetAccount(ACCOUNT).address
  const agent = await signerAddress(AGENT_KEY)
  const owner = createClient({ url, signer: devnetKey(ACCOUNT) })
  const delegated = ['--key-file', agentFile, '--for', account]
  const args = (...more: string[]) => [
    ...['--import', './src/loader/hooks.js', 'src/cli/main.ts', 'mcp', '--url', url, ...more],
  ]
  const [market] = await owner.markets({ status: 'open' })
  assert.ok(market !== undefined)
  const order = { marketId: market.id, side: 'buy', outcome: 'YES', price: '0.02' }
  const openOrders = () => owner.orders.list()
  const env = { ...process.env, HOME: folder } as Record<string, string>

  /** Runs the server as a child process that speaks over its standard input and output. */
  async function overStdio(...more: string[]) {
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

  /**
   * Appoints the agent's key, or changes its limits. Then waits until the exchange lists the delegate with the new
   * limits.
   */
  async function appoint(limits: { maxOrderSize?: string; maxOpenNotional?: string }) {
    const { serverTime } = await owner.config({ fresh: true })
    await owner.delegates.create({ delegate: agent, until: serverTime + 86_400, ...limits })
    const sizeMax = Number(limits.maxOrderSize ?? 0) * 1e6
    await eventually(async () => {
      const found = (await owner.delegates.list()).find(({ delegate }) => delegate === agent)
      assert.deepEqual([found?.active, found?.maxOrderSize], [true, sizeMax])
    })
  }

  await t.test(
    'mcp: the server refuses a key that is not a delegate with limits, and shows the command that creates a ' +
      'delegate',
    async () => {
      const refusal = async (...more: string[]) => {
        const { code, err } = await callSibyl(['mcp', '--url', url, ...more])
        assert.notEqual(code, 0)
        assert.ok(!err.includes(devnetKey(ACCOUNT).slice(2)) && !err.includes(AGENT_KEY.slice(2)))
        return err
      }
      const create = /sibyl delegate create \S.* --days 7 --max-size 100 --max-notional 500/
      const isOwner = await refusal('--key-file', ownerFile)
      assert.match(isOwner, /the key of a delegate only/)
      assert.match(isOwner, create)
      const named = await refusal('--key-file', ownerFile, '--for', account)
      assert.match(named, /this key belongs to the account itself/)
      assert.match(named, create)
      assert.match(await refusal(...delegated), new RegExp(`sibyl delegate create ${agent} `))
      await appoint({})
      assert.match(
        await refusal(...delegated, '--live'),
        /must limit orders with --max-size and --max-notional/,
      )
    },
  )

  await appoint({ maxOrderSize: '100', maxOpenNotional: '3' })

  await t.test(
    'mcp: without a key, the server offers only read tools, and these return data',
    async () => {
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
        await eventually(() => assert.match(log(), /"tool":"place_order"/))
        assert.equal(log().match(/"tool":"list_markets"/g)?.length, 1)
      } finally {
        await client.close()
      }
    },
  )

  await t.test(
    'mcp: with --live, the exchange enforces the delegate’s limits, and the server enforces the limits set ' +
      'by its own options',
    async () => {
      const limits = ['--max-size', '1000', '--max-notional', '5']
      const { client, log } = await overStdio(...delegated, '--live', ...limits)
      try {
        assert.deepEqual(await namesOf(client), [...READING, ...TRADING])
        assert.match(
          client.getInstructions() ?? '',
          /more than 100.00 shares.* 3.00 dollars in total/,
        )
        const place = async (size: string, more: object = {}) =>
          textOf(
            await client.callTool({
              name: 'place_order',
              arguments: { ...order, size, label: 'mcp', ...more },
            }),
          )
        const placed = JSON.parse(await place('100')) as { orderHash: string }
        assert.deepEqual(
          (await openOrders()).map(({ label, trader }) => [label, trader.toLowerCase()]),
          [['mcp', account.toLowerCase()]],
        )
        // The exchange enforces both limits of the delegation. Refused orders do not count towards the limits of the
        // session.
        assert.match(await place('100.000001'), /^DELEGATE_LIMIT: /)
        assert.match(await place('51', { price: '0.04' }), /^DELEGATE_LIMIT: .* 3000000/)
        assert.equal((await openOrders()).length, 1)
        assert.match(await place('1000.000001'), /^REFUSED: size must be at most 1000000000/)
        // The maximum loss of a sale is $1 minus the price, for each share.
        assert.match(
          await place('4', { side: 'sell' }),
          /^REFUSED: .* 3920001 .* 3000000 of 5000000/,
        )
        const cancel = { orderHash: placed.orderHash, marketId: market.id, side: 'buy' }
        const foreign = createClient({ url, signer: devnetKey(ACCOUNT - 1) })
        const theirs = await foreign.orders.place({
          ...order,
          size: '50',
          ttlSeconds: 600,
        } as never)
        const stolen = { ...cancel, orderHash: theirs.orderHash }
        assert.match(
          textOf(await client.callTool({ name: 'cancel_order', arguments: stolen })),
          /^NOT_ORDER_OWNER/,
        )
        assert.match(await place('1', { replaces: theirs.orderHash }), /^NOT_ORDER_OWNER/)
        await foreign.orders.cancel({
          orderHash: theirs.orderHash,
          marketId: market.id,
          side: 'buy',
        })
        const cancelled = await client.callTool({ name: 'cancel_order', arguments: cancel })
        assert.equal((JSON.parse(textOf(cancelled)) as { status: string }).status, 'cancelled')
        assert.deepEqual(await openOrders(), [])
        const leaked = `a${AGENT_KEY}b0x${AGENT_KEY.slice(2).toUpperCase()}`
        await client.callTool({ name: AGENT_KEY, arguments: { [AGENT_KEY]: leaked } })
        await eventually(() => assert.match(log(), /"tool":"0x…","args":{"0x…":"a0x…b0x…"}/))
        assert.ok(!log().toLowerCase().includes(AGENT_KEY.slice(2)), 'the key is in no log')
        assert.equal(log().trim().split('\n').length, 9, 'each call is one line')
      } finally {
        await client.close()
      }
    },
  )

  await t.test(
    'mcp: an HTTP server without --live validates orders without placing them, and rejects hostile requests',
    async (subtest) => {
      const server = spawn(process.execPath, args('--http', '0', ...delegated), { cwd: ROOT, env })
      subtest.after(() => ended(server))
      const log: string[] = []
      const [, base = '', token = ''] = await new Promise<RegExpMatchArray>((resolve, reject) => {
        server.once('exit', (code) => reject(new Error(`it ended with ${code}: ${log.join('')}`)))
        server.stderr.on('data', (chunk: Buffer) => {
          log.push(chunk.toString())
          const found = /(http:\S+) with Authorization: Bearer (\S+)\n/.exec(log.join(''))
          if (found !== null) resolve(found)
        })
      })
      const authorization = `Bearer ${token}`
      const list = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' })
      const accept = 'application/json, text/event-stream'
      const good = { authorization, accept, 'content-type': 'application/json' }
      const statusOf = (headers: Record<string, string>, text = list, method = 'POST') =>
        new Promise<number>((resolve, reject) => {
          const sent = request(base, { method, headers }, (response) => {
            response.resume()
            resolve(response.statusCode ?? 0)
          })
          sent.on('error', reject)
          sent.end(text)
        })
      assert.equal(await statusOf(good), 200)
      assert.equal(await statusOf({ accept }), 401)
      assert.equal(await statusOf({ ...good, authorization: `${authorization}0` }), 401)
      const { port } = new URL(base)
      assert.equal(await statusOf({ ...good, host: `localhost:${port}` }), 200)
      assert.equal(await statusOf({ ...good, host: `evil.example:${port}` }), 403)
      assert.equal(await statusOf({ ...good, origin: 'http://example.org' }), 403)
      assert.equal(await statusOf({ ...good, origin: `http://127.0.0.1:${port}` }), 403)
      assert.equal(await statusOf(good, '', 'GET'), 405)
      assert.equal(await statusOf(good, '', 'DELETE'), 405)
      assert.equal(await statusOf(good, `[${list},${list}]`), 400)
      const deepCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${'['.repeat(30_000)}`
      assert.equal(await statusOf(good, `${deepCall}${']'.repeat(30_000)}}`), 400)
      assert.equal(await statusOf(good, '{'), 400)
      assert.equal(await statusOf({ ...good, 'content-length': '65537' }, ' '.repeat(65_537)), 413)

      const client = new Client({ name: 'test', version: '1' })
      await client.connect(
        new StreamableHTTPClientTransport(new URL(base), {
          requestInit: { headers: { authorization } },
        }),
      )
      assert.deepEqual(await namesOf(client), [...READING, ...TRADING])
      const call = async (name: string, given: object) =>
        textOf(await client.callTool({ name, arguments: given }))
      const answer = JSON.parse(await call('place_order', { ...order, size: '2' })) as object
      assert.deepEqual({ dryRun: true, valid: true, signer: 'delegate' }, pick(answer))
      const over = JSON.parse(
        await call('place_order', { ...order, size: '10', price: '0.5' }),
      ) as {
        valid: boolean
        errors: { code: string }[]
      }
      assert.deepEqual([over.valid, over.errors[0]?.code], [false, 'DELEGATE_LIMIT'])
      assert.deepEqual(await openOrders(), [])

      let deep: unknown = 1
      for (let depth = 0; depth < 500; depth++) deep = [deep]
      const hostile: [string, object, RegExp][] = [
        ['get_market', { marketId: '0x1' }, /^REFUSED: marketId must match/],
        ['get_market', { marketId: market.id, toString: 'x' }, /^REFUSED: an argument is unknown/],
        ['get_market', { marketId: deep }, /^REFUSED: marketId must be of the type string/],
        ['get_market', {}, /^REFUSED: marketId is required/],
        ['list_markets', { search: 'x'.repeat(40_000) }, /^REFUSED: search is too long/],
        ['get_open_orders', { trader: '../../admin' }, /^REFUSED: trader must match/],
        ['place_order', { ...order, size: 5 }, /^REFUSED: size must be of the type string/],
        ['place_order', { ...order, size: '1e9' }, /^REFUSED: size must match/],
        ['place_order', { ...order, size: '-1' }, /^REFUSED: size must match/],
        ['place_order', { ...order, size: '1', trader: agent }, /^REFUSED: an argument is unknown/],
        ['place_order', { ...order, size: '1', ttlSeconds: 1e300 }, /^REFUSED: ttlSeconds must be/],
        ['place_order', { ...order, size: '1', label: 'a\nb' }, /^REFUSED: label must match/],
        ['place_order', { ...order, size: '1', price: '1' }, /^PRICE_OUT_OF_RANGE/],
        ['x'.repeat(1_000), { '\n': '\n' }, /^REFUSED: there is no tool x{100}$/],
      ]
      for (const [name, given, expected] of hostile) assert.match(await call(name, given), expected)
      const many = await Promise.all(Array.from({ length: 40 }, () => call('list_markets', {})))
      assert.ok(many.every((text) => /^\{|^REFUSED: 16 calls are under way/.test(text)))
      await client.close()
      // The log and the answers are separate streams, so the last log lines may arrive after the answers.
      const lines = await eventually(() => {
        const found = log.join('').trim().split('\n').slice(1)
        assert.equal(found.length, 2 + hostile.length + many.length, 'each call is one line')
        return found
      })
      for (const line of lines)
        assert.ok(line.length < 1_000 && JSON.parse(line).tool.length <= 100)
    },
  )

  await owner.delegates.revoke(agent)
}

function pick(answer: object): object {
  const { dryRun, valid, signer } = answer as Record<string, unknown>
  return { dryRun, valid, signer }
}

async function ended(server: ChildProcess): Promise<void> {
  const gone = new Promise((resolve) => server.once('exit', resolve))
  server.kill('SIGTERM')
  await gone
}
