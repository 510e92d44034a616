import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { createClient } from '#client/client.ts'
import { tryChain } from '../client/try-chain.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const run = promisify(execFile)

/** The code blocks of a section of a document, by language; sections of any depth end one. */
async function blocks(document: string, section: string, language: string): Promise<string[]> {
  const whole = await readFile(join(ROOT, document), 'utf8')
  const [, text = ''] = whole.split(`# ${section}\n`)
  const [own = ''] = text.split(/\n#{2,3} /)
  return [...own.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))].map(
    ([, code]) => code!,
  )
}

test('the examples of the README and of the guides run as they are written', async (t) => {
  const exchange = await startExchange(t, { devnet: true })
  // It counts on what the demo traders begin with.
  await t.test('the configuration and the chain, as an integrator finds them', (subtest) =>
    tryChain(subtest, exchange),
  )
  const here = (code: string): string => code.replaceAll('http://127.0.0.1:8080', exchange.url)
  // As `npx node` would: the runtime of the project, whatever node runs npm.
  const env = {
    ...process.env,
    PATH: [join(ROOT, 'node_modules/.bin'), process.env.PATH].join(delimiter),
  }
  // The first runs as a reader's does. The others load quickly, as npm's scripts do.
  const loader = pathToFileURL(join(ROOT, 'src/loader/hooks.js'))
  const quickly = { ...env, NODE_OPTIONS: `--import=${loader}` }
  const one = async (...where: [document: string, section: string, language: string]) => {
    const [code, ...rest] = await blocks(...where)
    assert.ok(code !== undefined && rest.length === 0, where.join())
    return code
  }
  // It is open before it has read its markets from the chain; a reader is slower than that.
  await eventually(async () =>
    assert((await createClient({ url: exchange.url }).markets()).length > 0),
  )
  const trade = await one('README.md', 'By the SDK', 'ts')
  const otherSigner = await one('docs/sdk.md', 'Another signer', 'ts')

  await t.test('the first trade', async () => {
    const arguments_ = ['--input-type=module-typescript', '-e', here(trade)]
    const { stdout } = await run('node', arguments_, { cwd: ROOT, env })
    assert.match(stdout, /bob met 1 order/)
    assert.match(stdout, /price: 420000,\s+size: 4000000/)
    assert.match(stdout, /size: 6000000n/)
    const client = createClient({ url: exchange.url })
    const [market] = await client.markets()
    assert.equal((await client.trades(market!.id)).length, 1)
    const { bids, asks } = await client.orderbook(market!.id)
    assert.deepEqual([bids, asks], [[], []], 'what was left was cancelled')
  })

  await t.test('another signer', async () => {
    const arguments_ = ['--input-type=module-typescript', '-e', here(otherSigner)]
    const { stdout } = await run('node', arguments_, { cwd: ROOT, env: quickly })
    assert.match(stdout, /status: 'accepted'/)
  })

  await t.test('curl', async (subtest) => {
    const script = await one('README.md', 'By curl', 'sh')
    const hasCurl = await run('curl', ['--version']).then(
      () => true,
      () => false,
    )
    if (!hasCurl) return subtest.skip('curl is not installed')
    const folder = await mkdtemp(join(tmpdir(), 'sibyl-readme-'))
    subtest.after(() => rm(folder, { recursive: true }))
    // The file that the example leaves behind goes elsewhere.
    const elsewhere = here(script).replaceAll('order.json', join(folder, 'order.json'))
    const direct = elsewhere.replace('npx node', 'node')
    const { stdout } = await run('sh', ['-e', '-c', direct], { cwd: ROOT, env: quickly })
    const [, checked, placed] = /^(\{.*?\})(\{.*\})$/s.exec(stdout.trim()) ?? []
    assert.equal((JSON.parse(checked ?? '') as { valid: boolean }).valid, true)
    assert.equal((JSON.parse(placed ?? '') as { status: string }).status, 'accepted')
  })

  // These move time, and so come last.
  const example = async (section: string): Promise<string> => {
    const code = await one('docs/settlement.md', section, 'ts')
    const arguments_ = ['--input-type=module-typescript', '-e', here(code)]
    // Such an example waits in a loop; one that waits in vain must end.
    const { stdout } = await run('node', arguments_, { cwd: ROOT, env: quickly, timeout: 300_000 })
    return stdout
  }

  await t.test('a market’s whole life', async () => {
    assert.match(await example('How a market ends'), /proposedOutcome: true.*YES won/s)
  })

  await t.test('without ether', async () => {
    assert.match(await example('Without ether'), /ether: 0n, stablecoin: 130000000n/)
  })
})
