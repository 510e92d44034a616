import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { httpBatch } from '#devnet/batch-sender.ts'
import { probeChain } from '#devnet/chain-process.ts'
import { readChainRecord } from '#devnet/chain-record.ts'
import { DEMO_EVENT, DEMO_WORDS } from '#devnet/demo-words.ts'
import { callSibyl, type Said } from '../cli/call-sibyl.ts'
import { assertMetricsExported } from '../support/alarms.ts'
import { chainRefusal } from '../support/chain-refusal.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const execute = promisify(execFile)
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>
}

/** Runs a command in this process; `commands.test.ts` starts each of the npm scripts. */
function command(name: string, ...args: string[]): Promise<Said> {
  const [, words = ''] = scripts[name]?.split('src/cli/main.ts') ?? []
  return callSibyl([...words.trim().split(' '), ...args])
}

async function succeed(name: string, ...args: string[]): Promise<string> {
  const { code, out, err } = await command(name, ...args)
  assert.equal(code, 0, err)
  return out
}

/** Output of a failing command. */
async function refusal(name: string, ...args: string[]): Promise<string> {
  const { code, err } = await command(name, ...args)
  // A missing option has the exit code 2, and any other error 1.
  assert.equal(code, err.includes('is missing') ? 2 : 1)
  assert.match(err, /^sibyl: [^\n]+\n$/)
  return err
}

test('a devnet starts with demo markets, keeps them after a kill, and stops its chain when it stops', async (t) => {
  const exchange = await startExchange(t, { devnet: true })
  const ann = createClient({ url: exchange.url, signer: devnetKey(10) })
  const chainNow = () => {
    const chain = readChainRecord(exchange.dataDir)?.[31_337]
    assert.ok(chain !== undefined)
    return chain
  }
  const chain = chainNow()
  const clockOf = async () => {
    const { serverTime } = await ann.config({ fresh: true })
    const [block] = await httpBatch(chain.url)([
      { method: 'eth_getBlockByNumber', params: ['pending', false] },
    ])
    return { serverTime, chainTime: Number((block as { timestamp: string }).timestamp) }
  }
  const demo = await eventually(async () => {
    const listed = await ann.markets()
    assert.equal(listed.length, DEMO_WORDS.length + DEMO_EVENT.questions.length)
    return listed
  })

  await t.test('the exchange of a devnet lists the markets on its chain', () => {
    const questions = [...DEMO_WORDS.map(({ question }) => question), ...DEMO_EVENT.questions]
    assert.deepEqual(demo.map(({ question }) => question).sort(), questions.sort())
    assert.deepEqual(new Set(demo.map(({ chainId }) => chainId)), new Set([31_337]))
  })

  await t.test(
    'the demo event lists its markets, and each of these markets names the event',
    async () => {
      const event = await ann.event(DEMO_EVENT.info.slug)
      assert.deepEqual(
        event.markets.map(({ question }) => question),
        DEMO_EVENT.questions,
      )
      const complementary = event.markets.filter(({ matching }) => matching === 'complementary')
      assert.deepEqual(
        complementary.map(({ question }) => question),
        [DEMO_EVENT.complementary],
      )
      assert.equal(event.prices?.unpriced, DEMO_EVENT.questions.length)
      const named = demo.filter((market) => market.event?.slug === event.slug)
      assert.equal(named.length, DEMO_EVENT.questions.length)
    },
  )

  await t.test(
    'the trade command that the devnet prints at its start can be copied and run',
    async () => {
      const [, code] =
        /^npx node --input-type=module -e "\n(.*?)^"$/ms.exec(exchange.output()) ?? []
      assert.ok(code !== undefined, 'the banner has a trade to copy')
      assert.ok(code.includes(devnetKey(10)), 'and the key of a demo trader')
      const { stdout } = await execute(
        process.execPath,
        [...process.execArgv, '--input-type=module', '-e', code],
        {
          cwd: ROOT,
        },
      )
      assert.match(stdout, /price: 420000,\s+size: 4000000/)
    },
  )

  await t.test(
    'the command that moves time moves the chain and the exchange together',
    async () => {
      const order = { marketId: demo[0]!.id, side: 'buy', outcome: 'NO', price: '0.01' } as const
      const { orderHash } = await ann.orders.place({ ...order, size: '1', ttlSeconds: 1_800 })
      const beforeMs = Date.now()
      const before = await clockOf()
      const said = await succeed('devnet:warp', '--seconds', '3600', '--url', exchange.url)
      assert.match(said, /^it is 20\d\d-.*Z now\n$/)
      const after = await clockOf()
      const passedSec = Math.ceil((Date.now() - beforeMs) / 1_000)
      for (const clock of ['serverTime', 'chainTime'] as const) {
        const movedSec = after[clock] - before[clock]
        assert.ok(
          movedSec >= 3_600 && movedSec <= 3_601 + passedSec,
          `${clock} moved by ${movedSec}`,
        )
      }
      await eventually(async () => {
        const open = await ann.orders.list()
        assert.ok(!open.some((each) => each.orderHash === orderHash), 'it has expired')
      })
      // A new client reads the exchange's time, which is ahead now, so its order is accepted.
      const here = createClient({ url: exchange.url, signer: devnetKey(10) })
      await here.orders.place({ ...order, size: '1', ttlSeconds: 1_800 })
      assert.match(await refusal('devnet:warp', '--url', exchange.url), /--seconds is missing/)
      assert.match(
        await refusal('devnet:warp', '--seconds', '1', '--url', 'http://127.0.0.1:1'),
        /--url/,
      )
    },
  )

  await t.test('a command of the devnet creates a market', async () => {
    const words = ['--question', 'Will this work?', '--category', 'protocol', '--seconds', '3600']
    const said = await succeed('market:create', ...words, '--url', exchange.url)
    const [, id] = /^market +(0x[0-9a-f]{64})$/m.exec(said) ?? []
    const market = (await ann.markets()).find((each) => each.id === id)
    assert.deepEqual([market?.question, market?.category], ['Will this work?', 'protocol'])
    const empty = ['--question', '', '--url', exchange.url]
    assert.match(await refusal('market:create', ...empty), /InvalidText/)
  })

  await t.test('the demo maker quotes both outcomes of every market', async () => {
    const said = await succeed('demo:maker', '--rounds', '1', '--url', exchange.url)
    // The markets are the demo markets, the market that this test created, and the open quick markets.
    assert.match(said, /^\d+ orders in \d+ markets$/m)
    for (const { id } of await ann.markets()) {
      for (const outcome of ['YES', 'NO'] as const) {
        const { bids, asks } = await ann.orderbook(id, outcome)
        assert.ok(bids.length > 0 && asks.length > 0, `${outcome} of ${id}`)
        assert.ok(bids[0]!.price < asks[0]!.price)
      }
    }
    assert.match(await succeed('demo:maker', '--help'), /--url <url>/)
  })

  await t.test('the demo maker never empties a book, and trades in every round', async () => {
    const [market] = await ann.markets()
    const stream = ann.stream()
    const empty: number[] = []
    let changes = 0
    const { book, ready } = stream.book({ marketId: market!.id, outcome: 'YES' }, () => {
      changes++
      if (book.bids(1).length === 0 || book.asks(1).length === 0) empty.push(changes)
    })
    await ready
    const before = (await Promise.all((await ann.markets()).map(({ id }) => ann.trades(id)))).flat()
    await succeed('demo:maker', '--rounds', '2', '--seconds', '1', '--url', exchange.url)
    const after = (await Promise.all((await ann.markets()).map(({ id }) => ann.trades(id)))).flat()
    assert.ok(after.length >= before.length + 2, 'one trade in each round')
    await eventually(() => assert.ok(changes > 4))
    assert.deepEqual(empty, [])
    stream.close()
  })

  await t.test(
    'a devnet that is killed under load has the same chain, markets and books afterwards',
    async () => {
      const accepted = new Set<string>()
      const bob = createClient({ url: exchange.url, signer: devnetKey(11), retries: 0 })
      const order = { marketId: demo[1]!.id, side: 'sell', outcome: 'YES' } as const
      let killed = false
      const load = Array.from({ length: 4 }, async () => {
        for (let size = 1; !killed; size++) {
          const intent = { ...order, price: '0.97', size: String(size), ttlSeconds: 3_600 }
          await bob.orders.place(intent).then(
            ({ orderHash }) => accepted.add(orderHash),
            (error: unknown) => assert.ok(error instanceof SibylError),
          )
        }
      })
      let marketsBefore: string[]
      try {
        await eventually(() => assert.ok(accepted.size >= 20))
        marketsBefore = (await ann.markets()).map(({ id }) => id).sort()
        await exchange.kill()
      } finally {
        // Ends the load after a failure, too. Otherwise the load would keep the process alive.
        killed = true
      }
      await Promise.all(load)
      const timeBefore = Date.now()
      await exchange.start()

      assert.deepEqual(chainNow(), chain, 'the chain of before')
      const found = await probeChain(chain.url)
      assert.equal(found.found === 'chain' && found.identity.genesis, chain.genesis)
      const again = createClient({ url: exchange.url, signer: devnetKey(11) })
      assert.deepEqual((await again.markets()).map(({ id }) => id).sort(), marketsBefore)
      const open = new Set((await again.orders.list()).map(({ orderHash }) => orderHash))
      for (const hash of accepted) assert.ok(open.has(hash), `${hash} was accepted`)
      const { bids, asks } = await again.orderbook(demo[2]!.id, 'NO')
      assert.ok(bids.length > 0 && asks.length > 0, 'what the maker quoted is still there')
      const { serverTime } = await again.config()
      assert.ok(serverTime >= timeBefore / 1_000 + 3_599, 'its time is still ahead')
    },
  )

  await t.test('a second devnet cannot use the same port or the same data', async () => {
    const { port } = new URL(chain.url)
    const taken = await chainRefusal({ SIBYL_DEVNET_PORT: port })
    assert.match(
      taken,
      new RegExp(`^port ${port} is used by the local chain of .*SIBYL_DEVNET_PORT`),
    )
    assert.ok(taken.includes(exchange.dataDir))
    const rival = { SIBYL_DATA_DIR: exchange.dataDir }
    assert.match(await chainRefusal(rival), /is in use/)
    const unchained = { ...rival, SIBYL_DEVNET: 'false' }
    assert.match(await chainRefusal(unchained), /open for writing in another process/)
    assert.equal((await fetch(`${exchange.url}/readyz`)).status, 200)
  })

  await t.test(
    'stopping the devnet stops its chain, and the next start creates a new chain',
    async () => {
      await exchange.stop()
      assert.equal((await probeChain(chain.url)).found, 'nothing')
      await exchange.start({ SIBYL_RISK_FUNDS: 'reserve', SIBYL_AUTO_SETTLE: 'true' })
      assert.notEqual(chainNow().genesis, chain.genesis)
      const [aside] = readdirSync(exchange.dataDir).filter((name) => name.startsWith('aside-'))
      assert.ok(aside !== undefined)
      assert.ok(existsSync(join(exchange.dataDir, aside, 'log', 'log.json')))
      assert.match(exchange.output(), /the data of another chain was moved to/)
      const fresh = createClient({ url: exchange.url, signer: devnetKey(11) })
      assert.deepEqual(await fresh.orders.list(), [])
    },
  )

  await t.test(
    'the alarms and the dashboard use only metrics that the exchange exports',
    async () => {
      await assertMetricsExported(exchange.url)
      await exchange.stop()
    },
  )
})
