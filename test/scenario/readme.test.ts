/**
 * Runs every block of code and of commands in the README and docs/ on a devnet. Blocks whose result depends on other
 * orders also run beside the demo maker.
 */

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { createClient } from '#client/client.ts'
import { DEMO_MAKER, devnetAccount } from '#devnet/accounts.ts'
import { callSibyl } from '../cli/call-sibyl.ts'
import { tryChain } from '../client/try-chain.ts'
import { eventually } from '../support/eventually.ts'
import { type Exchange, startExchange } from '../support/exchange.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const LOADER = pathToFileURL(join(ROOT, 'src/loader/hooks.js')).href
const TIMEOUT_MS = 300_000
const run = promisify(execFile)

type Block = { readonly name: string; readonly code: string }

const DOCUMENTS = ['README.md', ...readdirSync(join(ROOT, 'docs')).map((name) => `docs/${name}`)]

/** Returns the blocks of one language in all documents, each named by its document and its section. */
function blocksOf(language: 'js' | 'ts' | 'sh'): Block[] {
  return DOCUMENTS.filter((name) => name.endsWith('.md')).flatMap((document) => {
    const sections = readFileSync(join(ROOT, document), 'utf8').split(/^#+ /m)
    return sections.flatMap((section) => {
      const found = section.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))
      const title = section.split('\n', 1)[0]!
      return [...found].map(([, code]) => ({ name: `${document}: ${title}`, code: code! }))
    })
  })
}

/** Expected output of each block of code. A block without an entry here fails. */
const PRINTED: Readonly<Record<string, RegExp>> = {
  'README.md: By the SDK': /bob met 1 order\n.*size: 4000000\b.*size: \d+n/s,
  'docs/sdk.md: Another signer': /status: 'accepted'/,
  'docs/sdk.md: API keys': /cancelled/,
  'docs/smart-accounts.md: A bot with its own key': /delegate\naccepted\n/,
  'docs/prices.md: The stream of prices': /^\d+(\.\d+)? \w+\n$/,
  'docs/stream.md: SDK': /^\[.*\] \[.*\]\n/s,
  'docs/settlement.md: How a market ends': /proposedOutcome: true.*YES won/s,
  'docs/settlement.md: Without ether': /ether: 0n, stablecoin: 1\d{8}n/,
}
const MOVES_TIME = /devnet:warp/
/**
 * Matches code that places an order, or reads a book or trades. The result of such code also depends on the maker's
 * orders.
 */
const DEALS = /orders\.(place|submit)|orderbook|\.book\(|\.trades\(/
/** Interval between quotes of the maker: short enough that its quotes change while a block runs. */
const MAKER_SECONDS = 3

/** Blocks of commands that need more than a devnet, such as another machine, a key, or a public chain. */
const NOT_RUN: Readonly<Record<string, string>> = {
  'README.md: Two commands': 'it starts an exchange, or runs this test',
  'docs/devnet.md: The local chain':
    'docs/settlement.md runs these commands; the last one needs a public chain',
  'docs/prices.md: Where prices come from': 'makes a provider fail for all other blocks',
  "docs/command-line.md: The trader's key": 'needs the key file of a trader',
  'docs/command-line.md: A devnet': 'runs in the tests of the command line; it moves time',
  'docs/command-line.md: Conformance': 'runs in the tests of the command line',
  'docs/command-line.md: The public log': 'needs files, keys and an order of the reader',
  'docs/command-line.md: Tools for other programs: `sibyl mcp`':
    'runs in the tests of the command line; it needs key files',
  'docs/transparency.md: For witnesses': 'needs a key of the reader and runs until it is stopped',
  'docs/cluster.md: Several machines': 'needs servers of NATS and a database',
  'docs/events.md: Events': 'runs in the tests of the command line',
  'docs/simulator.md: Simulator': 'runs in the tests of the simulator',
  'docs/operating.md: Install': 'needs a machine of its own',
  'docs/operating.md: Backup': 'needs an installed exchange',
  'docs/operating.md: Restore': 'needs an installed exchange',
  'docs/operating.md: Rebuild': 'needs an installed exchange',
}

test('the examples of the README and of the guides run unchanged', async (t) => {
  const exchange = await startExchange(t, { devnet: true })
  // This test is the first, because it needs the initial funds of the demo traders.
  await t.test(
    'the documented examples that read the configuration and the chain can be run',
    (subtest) => tryChain(subtest, exchange),
  )
  const reader = createClient({ url: exchange.url })
  // The exchange opens before it has read its markets from the chain, so the test waits for them.
  await eventually(async () => assert((await reader.markets()).length > 0))
  const runners = makeRunners(exchange)

  const scripts = [...blocksOf('js'), ...blocksOf('ts')]
  const still = scripts.filter(({ code }) => !MOVES_TIME.test(code))
  const moving = scripts.filter(({ code }) => MOVES_TIME.test(code))
  const all = async (blocks: readonly Block[], how: string) => {
    for (const { name, code } of blocks) {
      await t.test(`the example ${name} runs ${how}`, async () => {
        const expected = PRINTED[name]
        assert.ok(expected !== undefined, 'say above what it prints')
        assert.match(await runners.script(code), expected)
      })
    }
  }
  await all(still, 'without the demo maker')
  await t.test('the README’s example for curl runs without the demo maker', (subtest) =>
    runners.curl(subtest),
  )
  await t.test('the README’s example for the command line runs without the demo maker', () =>
    runners.commands(),
  )

  const stopMaker = await startMaker(t, exchange)
  const deals = still.filter(({ code }) => DEALS.test(code))
  assert.ok(deals.some(({ name }) => name === 'README.md: By the SDK'))
  await all(deals, 'while the demo maker trades')
  await t.test('the README’s example for curl runs while the demo maker trades', (subtest) =>
    runners.curl(subtest),
  )
  await t.test('the README’s example for the command line runs while the demo maker trades', () =>
    runners.commands(),
  )
  await all(moving, 'while the demo maker trades')
  await stopMaker()
  await t.test(
    'the first trade in the README still finds an open market at the end of the run',
    async () => {
      const trade = scripts.find(({ name }) => name === 'README.md: By the SDK')
      assert.match(await runners.script(trade?.code ?? ''), /bob met 1 order/)
    },
  )
})

test('every command block in the documents is run, or is listed with a reason for not running it', () => {
  const names = new Set(blocksOf('sh').map(({ name }) => name))
  assert.deepEqual([...names].sort(), [CURL, COMMANDS, ...Object.keys(NOT_RUN)].sort())
})

const CURL = 'README.md: By curl'
const COMMANDS = 'docs/command-line.md: The command line'

function makeRunners({ url }: Exchange) {
  const here = (code: string): string => code.replaceAll('http://127.0.0.1:8080', url)
  // Commands run with the project's Node, like `npx node`, even if another Node runs npm. They use the loader, like
  // npm's scripts.
  const env = {
    ...process.env,
    SIBYL_URL: url,
    PATH: [join(ROOT, 'node_modules/.bin'), process.env.PATH].join(delimiter),
    NODE_OPTIONS: `--import=${LOADER}`,
  }
  const options = { cwd: ROOT, env, timeout: TIMEOUT_MS }
  const block = (wanted: string): string => {
    const found = blocksOf('sh').find(({ name }) => name === wanted)
    assert.ok(found !== undefined, wanted)
    return found.code
  }
  // Leaves out commands that run until they are stopped: the tests of the command line run them.
  const commandLines = (): string[] => {
    const lines = block(COMMANDS).trim().split('\n')
    return lines.filter((each) => !each.includes('until Ctrl-C'))
  }
  return {
    async script(code: string): Promise<string> {
      const line = ['--input-type=module-typescript', '-e', here(code)]
      return (await run('node', line, options)).stdout
    },
    async curl(subtest: TestContext): Promise<void> {
      const hasCurl = await run('curl', ['--version']).catch(() => undefined)
      if (hasCurl === undefined) return subtest.skip('curl is not installed')
      const folder = await mkdtemp(join(tmpdir(), 'sibyl-readme-'))
      subtest.after(() => rm(folder, { recursive: true }))
      const direct = here(block(CURL)).replace('npx node', 'node')
      const inFolder = { ...options, env: { ...env, TMPDIR: folder } }
      const { stdout } = await run('sh', ['-e', '-c', direct], inFolder)
      const [, checked, placed] = /^(\{.*?\})(\{.*\})$/s.exec(stdout.trim()) ?? []
      assert.equal((JSON.parse(checked ?? '') as { valid: boolean }).valid, true)
      assert.equal((JSON.parse(placed ?? '') as { status: string }).status, 'accepted')
    },
    /** Runs the README's commands in this process. Other tests run the command line in a process of its own. */
    async commands(): Promise<void> {
      for (const line of commandLines()) {
        const words = line.replace(/#.*/, '').trim().split(/ +/).slice(2)
        const { code, out, err } = await callSibyl(words, { SIBYL_URL: url })
        assert.equal(code, 0, `${line}: ${out}${err}`)
      }
    },
  }
}

/** Starts the demo maker, waits until it quotes, and returns a function that stops it. */
async function startMaker(t: TestContext, { url }: Exchange): Promise<() => Promise<void>> {
  const terms = ['--seconds', String(MAKER_SECONDS), '--url', url]
  const line = ['--import', LOADER, 'src/cli/main.ts', 'maker', ...terms]
  const maker = spawn(process.execPath, line, { cwd: ROOT, stdio: 'ignore' })
  const gone = new Promise<void>((resolve) => maker.once('exit', () => resolve()))
  const stop = async () => {
    maker.kill('SIGINT')
    await gone
  }
  t.after(stop)
  const trader = devnetAccount(DEMO_MAKER).address
  const reader = createClient({ url })
  await eventually(async () => assert.ok((await reader.orders.list({ trader })).length > 20))
  return stop
}
