/** Runs every file of `examples/` on a devnet, as a reader would. */

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { createClient } from '#client/client.ts'
import { devnetAccount, devnetKey } from '#devnet/accounts.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** Flags with which npm's scripts load modules. Without these flags everything works the same, but more slowly. */
const LOADER = ['--import', pathToFileURL(join(ROOT, 'src/loader/hooks.js')).href]
/** The Debian packages that the Python examples need, and the module of each. */
const PYTHON_PACKAGES = {
  'python3-ecdsa': 'ecdsa',
  'python3-pycryptodome': 'Cryptodome',
  'python3-websockets': 'websockets',
}
const PYTHON_OWN: ReadonlySet<string> = new Set([
  ...['asyncio', 'hashlib', 'json', 'os', 'secrets', 'time', 'urllib', 'zlib'],
])
const TIMEOUT_MS = 300_000
const run = promisify(execFile)

export async function tryExamples(t: TestContext, exchange: Exchange): Promise<void> {
  const env = {
    ...process.env,
    SIBYL_URL: exchange.url,
    PATH: [join(ROOT, 'node_modules/.bin'), process.env.PATH].join(delimiter),
  }
  const node = async (file: string, more: Record<string, string> = {}): Promise<string> => {
    const options = { cwd: ROOT, env: { ...env, ...more }, timeout: TIMEOUT_MS }
    return (await run(process.execPath, [...LOADER, `examples/${file}`], options)).stdout
  }
  const reader = createClient({ url: exchange.url })
  const [market] = await reader.markets()
  assert.ok(market !== undefined)
  const openOrders = (account: number) =>
    reader.orders.list({ trader: devnetAccount(account).address })
  // The README's examples import `sdk.js`, so the test of the README runs it.
  const tried = new Set(['README.md', 'connect.js', 'python', 'sdk.js'])

  await t.test('the example of a ccxt bot runs', async () => {
    tried.add('ccxt-bot.ts')
    const outcome = { SIBYL_OUTCOME: `${market.id}:NO` }
    const said = await node('ccxt-bot.ts', {
      SIBYL_KEY: devnetKey(19),
      MINUTES: '0.1',
      ...outcome,
    })
    assert.match(said, /done: \{"placed":2,.* and 2 quotes cancelled\n$/)
    assert.deepEqual(await openOrders(19), [])
  })

  await t.test('the example of the first trade runs', async () => {
    tried.add('first-trade.js')
    const said = await node('first-trade.js')
    assert.match(said, /bob met 1 order\n4 shares at 0\.42\nann has 0 open orders\n$/)
    // A maker quotes in the same market. The two traders still match each other, because their price lies between the
    // maker's bid and ask.
    const maker = createClient({ url: exchange.url, signer: devnetKey(13) })
    const terms = { marketId: market.id, outcome: 'NO', size: '9', ttlSeconds: 3_600 } as const
    const quotes = [
      await maker.orders.place({ ...terms, side: 'buy', price: '0.50' }),
      await maker.orders.place({ ...terms, side: 'sell', price: '0.60' }),
    ]
    assert.match(await node('first-trade.js'), /bob met 1 order\n4 shares at 0\.55\nann has 0 /)
    for (const [at, { orderHash }] of quotes.entries()) {
      const side = at === 0 ? 'buy' : 'sell'
      await maker.orders.cancel({ orderHash, marketId: market.id, side })
    }
  })

  await t.test(
    'the market maker example leaves no order in the book when it is killed',
    async () => {
      tried.add('market-maker.js')
      const maker = spawn(process.execPath, [...LOADER, 'examples/market-maker.js'], {
        cwd: ROOT,
        env,
      })
      const gone = new Promise((resolve) => maker.once('exit', resolve))
      try {
        let said = ''
        maker.stdout.on('data', (chunk: Buffer) => {
          said += chunk.toString()
        })
        await eventually(async () => {
          assert.match(said, /round 1: 2 quotes around 0\.5\n/)
          assert.equal((await openOrders(12)).length, 2)
        })
      } finally {
        maker.kill('SIGKILL')
        await gone
      }
      await eventually(async () => assert.deepEqual(await openOrders(12), []))
      // The example follows the prices of another maker. It skips a quote that would match an order.
      const other = createClient({ url: exchange.url, signer: devnetKey(13) })
      const terms = { marketId: market.id, outcome: 'YES', size: '1', ttlSeconds: 3_600 } as const
      await other.orders.place({ ...terms, side: 'buy', price: '0.60' })
      assert.match(
        await node('market-maker.js', { ROUNDS: '1' }),
        /round 1: 1 quotes around 0\.5\n/,
      )
      await other.orders.place({ ...terms, side: 'sell', price: '0.70' })
      assert.match(
        await node('market-maker.js', { ROUNDS: '2' }),
        /round 1: .*\nround 2: 2 quotes around 0\.65\n/,
      )
      for (const { orderHash, side } of await openOrders(13)) {
        const order = { orderHash, marketId: market.id, side: side === 0 ? 'buy' : 'sell' } as const
        await other.orders.cancel(order)
      }
      await eventually(async () => assert.deepEqual(await openOrders(12), []))
    },
  )

  await t.test('the stream example verifies the checksum of every change of a book', async () => {
    tried.add('stream-checksums.js')
    const follower = spawn(process.execPath, [...LOADER, 'examples/stream-checksums.js'], {
      ...{ cwd: ROOT, env: { ...env, CHANGES: '4' } },
    })
    let said = ''
    follower.stdout.on('data', (chunk: Buffer) => {
      said += chunk.toString()
    })
    const ended = new Promise((resolve) => follower.once('exit', resolve))
    await eventually(() => assert.match(said, /^book\.snapshot \d+: the checksum fits\n/))
    const trader = createClient({ url: exchange.url, signer: devnetKey(13) })
    for (const price of ['0.02', '0.03']) {
      const terms = { marketId: market.id, side: 'buy', outcome: 'YES', size: '1' } as const
      const { orderHash } = await trader.orders.place({ ...terms, price, ttlSeconds: 3_600 })
      await trader.orders.cancel({ orderHash, marketId: market.id })
    }
    assert.equal(await ended, 0)
    assert.equal(said.match(/book\.delta \d+: the checksum fits\n/g)?.length, 4, said)
  })

  await t.test('the example for curl runs', async (subtest) => {
    tried.add('curl.sh')
    const missing = await missingOf(['curl', 'jq'])
    if (missing.length > 0) return subtest.skip(`there is no ${missing.join(' and no ')}`)
    const sibyl = `node ${LOADER.join(' ')} src/cli/sibyl.js`
    const options = { cwd: ROOT, env: { ...env, SIBYL: sibyl }, timeout: TIMEOUT_MS }
    const { stdout, stderr } = await run('sh', ['examples/curl.sh'], options)
    assert.equal(stderr, '')
    for (const line of [
      '{"valid":true,"errors":[]}',
      '{"price":50000,"size":1000000}',
      '{"status":"accepted","duplicate":true}',
      '{"status":"cancelled"}',
      '{"code":"PRICE_OUT_OF_RANGE","field":"order.price"}',
    ]) {
      assert.ok(stdout.includes(`${line}\n`), `${line} in\n${stdout}`)
    }
  })

  await t.test('the example in Python runs', async (subtest) => {
    assert.deepEqual(await readdir(join(ROOT, 'examples/python')), ['trade.py'])
    const python = await pythonWithPackages()
    if (python === undefined) {
      return subtest.skip(`no python3 has all of ${Object.keys(PYTHON_PACKAGES).join(', ')}`)
    }
    const text = await readFile(join(ROOT, 'examples/python/trade.py'), 'utf8')
    const imported = [...text.matchAll(/^(?:import|from) (\w+)/gm)].map(([, name]) => name)
    const foreign = new Set(imported.filter((name) => !PYTHON_OWN.has(name ?? '')))
    assert.deepEqual([...foreign].sort(), Object.values(PYTHON_PACKAGES).sort())
    const folder = await mkdtemp(join(tmpdir(), 'sibyl-python-'))
    subtest.after(() => rm(folder, { recursive: true }))
    await writeFile(join(folder, 'key'), devnetKey(17))
    const { stdout } = await run(python, ['examples/python/trade.py'], {
      cwd: ROOT,
      timeout: TIMEOUT_MS,
      env: { ...env, SIBYL_TRADER_KEY: join(folder, 'key'), PYTHONDONTWRITEBYTECODE: '1' },
    })
    assert.match(stdout, /^valid: True \[\]\nplaced: accepted\ncancelled: cancelled\n/m)
    assert.equal(stdout.match(/^change \d+: the checksum fits$/gm)?.length, 2, stdout)
  })

  await t.test('the example of trading without ether runs', async () => {
    tried.add('gasless-life.js')
    assert.match(await node('gasless-life.js'), /50 YES\nfay has 105 dollars and 0 ether\n$/)
  })

  assert.deepEqual(new Set(await readdir(join(ROOT, 'examples'))), tried, 'all were tried')
}

async function missingOf(programs: readonly string[]): Promise<string[]> {
  const missing: string[] = []
  for (const program of programs) {
    await run(program, ['--version']).catch(() => missing.push(program))
  }
  return missing
}

/**
 * Returns the first Python that has the packages. The Python on the PATH may not have the packages of the system's
 * Python.
 */
async function pythonWithPackages(): Promise<string | undefined> {
  const imports = `import ${Object.values(PYTHON_PACKAGES).join(', ')}`
  for (const python of ['python3', '/usr/bin/python3']) {
    const has = await run(python, ['-c', imports]).then(
      () => true,
      () => false,
    )
    if (has) return python
  }
  return undefined
}
