/** Runs every command on a devnet, in the order in which a trader uses them. */

import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Orderbook } from '#client/answers.ts'
import { createClient } from '#client/client.ts'
import type { OrderSubmission } from '#client/order-submission.ts'
import { signerAddress } from '#client/sign-order.ts'
import { DEMO_MAKER, devnetAccount, devnetKey } from '#devnet/accounts.ts'
import type { Event, EventDetail } from '#protocol/shapes/events.ts'
import type { Market } from '#protocol/shapes/markets.ts'
import type { OpenOrder } from '#protocol/shapes/orders.ts'
import { eventually } from '../support/eventually.ts'
import type { Exchange } from '../support/exchange.ts'
import { callSibyl, type Said } from './call-sibyl.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const BIN = join(ROOT, 'src/cli/sibyl.js')
const run = promisify(execFile)

export async function tryCommands(t: TestContext, exchange: Exchange): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-cli-'))
  t.after(() => rm(folder, { recursive: true }))
  const annFile = join(folder, 'ann.key')
  await writeFile(annFile, `${devnetKey(14)}\n`)
  const keys = { SIBYL_URL: exchange.url, SIBYL_KEYS_DIR: join(folder, 'keys') }
  const said: string[] = []

  async function call(args: readonly string[], env = {}): Promise<Said> {
    const answer = await callSibyl(args, { ...keys, ...env })
    said.push(answer.out, answer.err)
    return answer
  }
  async function succeed(...args: string[]): Promise<string> {
    const { code, out, err } = await call(args)
    assert.deepEqual([code, err], [0, ''], args.join(' '))
    return out
  }
  const json = async <T>(...args: string[]) => JSON.parse(await succeed(...args, '--json')) as T
  async function fail(...args: string[]): Promise<string> {
    const { code, out, err } = await call(args)
    assert.deepEqual([code, out], [1, ''], args.join(' '))
    assert.match(err, /^sibyl: [^\n]+\n$/)
    return err
  }

  const { id: made, matching } = await json<{ id: string; matching: string }>(
    ...['market', 'create', '--question', 'Is it a test?', '--matching', 'complementary'],
  )
  assert.equal(matching, 'complementary')
  const [rain] = await json<Market[]>('markets', 'rain')
  assert.ok(rain !== undefined)
  const id = rain.id
  const short = id.slice(0, 12)

  await t.test(
    'the commands list and search markets, and find a market by its id, short id or slug',
    async () => {
      const ids = (await json<Market[]>('markets')).map((each) => each.id)
      assert.ok(ids.includes(made) && ids.includes(id))
      assert.equal((await json<Market[]>('markets', 'a test'))[0]?.id, made)
      assert.equal((await json<Market[]>('markets', '--limit', '2')).length, 2)
      assert.match(await succeed('markets', 'rain'), new RegExp(`^MARKET .*\n${short} .*rain`))
      for (const name of [id, short, 'rain in']) {
        assert.equal((await json<Orderbook>('book', name)).marketId, id)
      }
      assert.match(await fail('book', 'Will'), /'Will' matches several markets: 0x/)
      assert.match(await fail('book', 'nonsense'), /there is no market 'nonsense'/)
      assert.match(await fail('book', `0x${'1'.repeat(64)}`), /MARKET_NOT_FOUND/)
    },
  )

  await t.test('the event commands create, extend, list and show events', async () => {
    const about = ['--slug', 'who-wins', '--title', 'Who wins?', '--tags', 'a,b', '--exclusive']
    await succeed('event', 'create', ...about, 'Does Ann win?', 'Does Bob win?')
    const rule = ['--matching', 'complementary']
    await succeed('event', 'add', 'who-wins', ...rule, 'Does Cleo win?')
    const event = await json<EventDetail>('event', 'show', 'who-wins')
    const questions = ['Does Ann win?', 'Does Bob win?', 'Does Cleo win?']
    assert.deepEqual(
      event.markets.map((market) => [market.question, market.event?.slug, market.matching]),
      questions.map((question, at) => [
        ...[question, 'who-wins', at === 2 ? 'complementary' : 'same-outcome'],
      ]),
    )
    assert.deepEqual([event.tags, event.exclusive, event.marketCount], [['a', 'b'], true, 3])
    const [first] = event.markets
    // No trader has shares of a new market, so both orders are bids, which need only dollars. A bid of 0.60 for NO
    // equals an ask of 0.40 for YES.
    const size = ['--size', '10', '--account', '10']
    await succeed('order', 'buy', first!.id, 'YES', ...size, '--price', '0.30')
    await succeed('order', 'buy', first!.id, 'NO', ...size, '--price', '0.60')
    const priced = await eventually(async () => {
      const shown = await json<EventDetail>('event', 'show', 'who-wins')
      assert.equal(shown.prices?.unpriced, 2)
      return shown
    })
    assert.deepEqual([priced.prices?.yesSum, priced.prices?.gap], [350_000, 0])
    // In the complementary market, a book with implied levels shows a bid for NO as an ask for YES.
    const cleo = event.markets[2]!.id
    await succeed('order', 'buy', cleo, 'NO', ...size, '--price', '0.60')
    assert.deepEqual((await json<Orderbook>('book', cleo)).asks, [])
    const { asks } = await json<Orderbook>('book', cleo, '--implied')
    assert.deepEqual(asks, [{ price: 400_000, size: 10_000_000, implied: 10_000_000 }])
    assert.match(
      await succeed('book', cleo, '--implied'),
      /SHARES +BID +ASK +SHARES +IMPLIED\n +0\.40 +10\.00 +10\.00\n/,
    )
    const watched = ['watch', 'book', cleo, '--count', '1']
    assert.match(await succeed(...watched), /ask none\n$/)
    assert.match(await succeed(...watched, '--implied'), /ask 0\.40 × 10\.00\n$/)
    await succeed('cancel', '--all', '--account', '10')
    const listed = await json<Event[]>('events', 'who wins', '--sort', 'newest')
    assert.deepEqual(
      listed.map(({ slug }) => slug),
      ['who-wins', 'pythian-foot-race'],
    )
    assert.match(await succeed('events', '--tag', 'b'), /who-wins +3/)
    // Another event already has this slug with different metadata, so a new event cannot use the slug.
    const taken = ['--slug', 'who-wins', '--title', 'Mine now']
    assert.match(await fail('event', 'create', ...taken, 'Do I win?'), /another event has the slug/)
    assert.equal((await json<EventDetail>('event', 'show', 'who-wins')).title, 'Who wins?')
    const wrong = await call(['event', 'create', '--slug', 'Who', '--title', 'x', 'y'])
    assert.deepEqual([wrong.code, wrong.out], [2, ''])
    assert.match(wrong.err, /^sibyl: --slug must be 1 to 64 characters/)
  })

  await t.test('the order commands place, show and cancel orders', async () => {
    const terms = ['--size', '10', '--price', '0.42', '--key-file', annFile]
    const sell = await json<{ orderHash: string }>('order', 'sell', short, 'yes', ...terms)
    const { asks } = await json<Orderbook>('book', short, 'YES')
    assert.deepEqual(asks, [{ price: 420_000, size: 10_000_000 }])
    assert.match(await succeed('book', short), /SHARES +BID +ASK +SHARES\n +0\.42 +10\.00\n/)
    const bob = ['--size', '4', '--price', '0.5', '--account', '15']
    assert.match(await succeed('order', 'buy', short, 'YES', ...bob), /1 order matched at once/)
    const [open] = await json<OpenOrder[]>('orders', '--key-file', annFile)
    assert.deepEqual([open?.orderHash, open?.remainingSize], [sell.orderHash, 6_000_000])
    const hash = sell.orderHash.slice(0, 12)
    assert.match(await succeed('orders', short, '--key-file', annFile), new RegExp(`^.*\n${hash} `))
    assert.match(await succeed('cancel', hash, '--key-file', annFile), /^1 order cancelled\n$/)
    assert.match(await fail('cancel', hash, '--key-file', annFile), /no open order of this trader/)
    assert.match(await succeed('orders', '--key-file', annFile), /no open orders/)
  })

  await t.test(
    'a refusal by the exchange is printed as one line that names the refused field',
    async () => {
      const terms = ['--size', '1', '--account', '15']
      const dear = ['order', 'buy', short, 'YES', ...terms, '--price']
      assert.match(await fail(...dear, '1.5'), /PRICE_OUT_OF_RANGE, field order\.price/)
      assert.match(await fail(...dear, '0.5', '--time-in-force', 'FOK'), /ORDER_NOT_FILLED/)
      assert.match(await succeed(...dear, '0.5', '--validate'), /^valid: 0x/)
      const signed = JSON.parse(await succeed(...dear, '0.5', '--sign')) as OrderSubmission
      assert.equal((await createClient({ url: exchange.url }).orders.validate(signed)).valid, true)
      assert.equal(await succeed('orders', '--account', '15'), 'no open orders\n')
      assert.match(await fail(...dear, '0.5', '--account', '15', '--chain-id', '5'), /31337/)
      const { code, err } = await call(['orders'])
      assert.equal(code, 2)
      assert.match(err, /SIBYL_TRADER_KEY; on this local chain, you can also give --account 10/)
    },
  )

  await t.test('commands read a private key from the environment or from a file', async () => {
    for (const key of [devnetKey(14), annFile]) {
      const { code, out } = await call(['orders', '--json'], { SIBYL_TRADER_KEY: key })
      assert.deepEqual([code, out], [0, '[]\n'])
    }
    const { code, err } = await call(['orders'], { SIBYL_TRADER_KEY: `${devnetKey(14)}0` })
    assert.equal(code, 1)
    assert.match(err, /SIBYL_TRADER_KEY: the given text cannot be read/)
    assert.equal((await call(['orders', '--key-file', annFile, '--account', '10'])).code, 2)
    const wrong = join(folder, 'wrong.key')
    await writeFile(wrong, `${devnetKey(14)}0`)
    assert.match(await fail('orders', '--key-file', wrong), /does not contain a private key/)
  })

  await t.test('the positions command shows a trader’s positions after a trade', async () => {
    const address = devnetAccount(15).address
    await eventually(async () => {
      const held = await json<{ positions: { marketId: string; yesShares: number }[] }>(
        ...['positions', address],
      )
      const here = held.positions.find(({ marketId }) => marketId === id)
      assert.equal(here?.yesShares, 100_004_000_000)
    })
    assert.match(await succeed('positions', '--account', '15'), /Delphi.*realised profit 0\.00/s)
  })

  await t.test('the watch commands print each change of books, trades and orders', async (t) => {
    const stop = new AbortController()
    t.after(() => stop.abort())
    const lines: string[] = []
    const env = { ...keys }
    const received = (text: string) => void lines.push(text)
    const watching = ['book', 'trades'].map((what) =>
      callSibyl(['watch', what, short, '--json'], env, { signal: stop.signal, received }),
    )
    const mine = callSibyl(['watch', 'orders', '--account', '16'], env, {
      ...{ signal: stop.signal, received },
    })
    await eventually(() => assert.ok(lines.length >= 3, lines.join('')))
    const terms = ['--size', '3', '--account', '16']
    await succeed('order', 'sell', short, 'YES', ...terms, '--price', '0.60')
    await succeed('order', 'buy', short, 'YES', ...terms.with(-1, '17'), '--price', '0.60')
    await eventually(() => {
      const all = lines.join('')
      assert.match(all, /"type":"book\.delta"/)
      assert.match(all, /"type":"trade",/)
      assert.match(all, /^0x\w+ {2}accepted {2}sell YES at 0\.60, 3\.00 open$/m)
      assert.match(all, /^0x\w+ {2}filled /m)
    })
    stop.abort()
    for (const { code, err } of await Promise.all([...watching, mine])) {
      assert.deepEqual([code, err], [0, ''])
    }
    assert.match(await succeed('watch', 'book', short, '--count', '1'), /^seq \d+ {2}bid /)
    assert.match(await succeed('watch', 'trades', short, '--count', '1'), /trades so far\n$/)
  })

  await t.test(
    'an API key is created, used, listed and revoked by commands, and its secret is never printed',
    async () => {
      const made = await json<{ id: string; file: string }>('keys', 'create', '--account', '19')
      const { privateKey } = JSON.parse(await readFile(made.file, 'utf8')) as { privateKey: string }
      assert.equal((await stat(made.file)).mode & 0o777, 0o600)
      assert.match(await succeed('keys', 'list'), new RegExp(`^KEY .*\n${made.id} `))
      const terms = ['--size', '1', '--price', '0.01', '--account', '19']
      for (const outcome of ['YES', 'NO']) await succeed('order', 'buy', short, outcome, ...terms)
      const all = ['cancel', '--all', '--account', '19']
      assert.match(await succeed(...all, '--market', short), /^2 orders cancelled\n$/)
      assert.match(await succeed('keys', 'revoke', made.id, '--account', '19'), /is revoked/)
      assert.deepEqual(await readdir(keys.SIBYL_KEYS_DIR), [])
      await succeed('order', 'buy', short, 'YES', ...terms)
      assert.match(await succeed(...all), /^1 order cancelled\n$/, 'one by one without a key')
      assert.ok(!said.join('').includes(privateKey))
      await writeFile(join(folder, 'closed'), '')
      await chmod(join(folder, 'closed'), 0o400)
      const blocked = { SIBYL_KEYS_DIR: join(folder, 'closed', 'keys') }
      const { code, err } = await call(['keys', 'create', '--account', '19'], blocked)
      assert.deepEqual([code, /cannot be written/.test(err)], [1, true])
    },
  )

  await t.test('a delegate is created, trades within its limits, and is revoked', async () => {
    const key = `0x${'d1'.repeat(32)}` as const
    const keyFile = join(folder, 'delegate.key')
    await writeFile(keyFile, key)
    const delegate = await signerAddress(key)
    const owner = ['--account', '11']
    const asDelegate = ['--key-file', keyFile, '--for', devnetAccount(11).address]
    const order = (market: string, size: string) => [
      ...['order', 'buy', market, 'YES', '--size', size, '--price', '0.02', ...asDelegate],
    ]
    assert.equal(await succeed('delegate', 'list', ...owner), 'no delegates\n')
    assert.match(await fail(...order(short, '100')), /INVALID_SIGNATURE, field signature/)
    const limits = ['--days', '7', '--max-size', '100', '--max-notional', '3', '--market', short]
    await succeed('delegate', 'create', delegate, ...limits, ...owner)
    const row = new RegExp(`^KEY .*\n${delegate} +active +20\\S+ .* 100\\.00 +3\\.00 +${short}\n$`)
    await eventually(async () => assert.match(await succeed('delegate', 'list', ...owner), row))
    const { orderHash } = await json<{ orderHash: string }>(...order(short, '100'))
    const [open, ...more] = await json<OpenOrder[]>('orders', ...owner)
    assert.deepEqual([open?.orderHash, more], [orderHash, []])
    assert.match(await fail(...order(short, '101')), /DELEGATE_LIMIT, field order\.size/)
    assert.match(
      await fail(...order(short, '51')),
      /limit of 3000000 millionths of the stablecoin \(DELEGATE_LIMIT, field order\.size\)/,
    )
    assert.match(await fail(...order(made, '50')), /DELEGATE_LIMIT, field order\.marketId/)
    assert.match(await succeed('cancel', orderHash, ...asDelegate), /^1 order cancelled\n$/)
    // The cancelled order counts towards the delegate's limit until the database has recorded the cancel.
    await eventually(() => succeed(...order(short, '99')))
    await succeed('delegate', 'revoke', delegate, ...owner)
    await eventually(async () =>
      assert.deepEqual(await json<OpenOrder[]>('orders', ...owner), [], 'its order has left'),
    )
    assert.match(await succeed('delegate', 'list', ...owner), / revoked /)
    assert.match(await fail(...order(short, '98')), /INVALID_SIGNATURE, field signature/)
  })

  await t.test(
    'commands label, replace and protect orders, and cancel them by group and by a dead-man switch',
    async () => {
      const owner = ['--account', '19']
      const order = (price: string, ...more: string[]) => [
        ...['order', 'buy', short, 'YES', '--size', '50', '--price', price, ...owner, ...more],
      ]
      const openOrders = async () =>
        (await json<OpenOrder[]>('orders', ...owner)).map(({ price, label, group }) => [
          ...[price, label, group],
        ])
      const asked = ['--label', 'first', '--group', 'quotes', '--book-within', '60000']
      const window = ['--group-window', '60000', '--group-fills', '2', '--group-shares', '4.5']
      const timeMs = async () => (await createClient({ url: exchange.url }).time()).serverTimeMs
      const before = await timeMs()
      const { bookByMs = 0, protection } = JSON.parse(
        await succeed(...order('0.02', ...asked, ...window, '--sign')),
      ) as OrderSubmission
      assert.ok(bookByMs >= before + 60_000 && bookByMs <= (await timeMs()) + 60_000)
      assert.deepEqual(protection, { windowMs: 60_000, fillsMax: 2, sharesMax: 4_500_000 })
      const placed = await json<{ orderHash: string }>(...order('0.02', ...asked, ...window))
      const replaces = ['--replaces', placed.orderHash]
      await succeed(...order('0.03', '--group', 'quotes', ...replaces))
      assert.deepEqual(await openOrders(), [[30_000, undefined, 'quotes']])
      assert.match(await fail(...order('0.04', ...replaces)), /ORDER_CLOSED, field replaces/)
      await succeed(...order('0.04', ...replaces, '--replace-always'))
      const all = ['cancel', '--all', ...owner, '--group']
      assert.match(await succeed(...all, 'quotes'), /^1 order cancelled\n$/)
      assert.deepEqual(await openOrders(), [[40_000, undefined, undefined]])
      const { code, err } = await call(order('0.02', '--group-fills', '2'))
      assert.deepEqual([code, /need --group-window/.test(err)], [2, true])
      assert.match(await fail('deadman', '60', ...owner), /needs an API key/)
      await succeed('keys', 'create', ...owner)
      assert.match(await succeed('deadman', '60', ...owner), /^orders are cancelled at 20\S+\n$/)
      assert.equal(await succeed('deadman', '0', ...owner), 'off\n')
      await succeed('deadman', '1', ...owner)
      await eventually(async () => assert.deepEqual(await openOrders(), []))
    },
  )

  await t.test(
    'the demo maker and the trader of the first example trade are different accounts',
    async () => {
      assert.match(await succeed('maker', '--rounds', '1'), /^\d+ orders in \d+ markets\n$/)
      const terms = ['--size', '1', '--price', '0.99', '--account', '10']
      const { orderHash, matches } = await json<{ orderHash: string; matches: number }>(
        ...['order', 'buy', 'rain', 'YES', ...terms],
      )
      assert.equal(matches, 1)
      const [trade] = await createClient({ url: exchange.url }).trades(id)
      const traders = [trade?.buyer, trade?.seller]
      assert.deepEqual(
        traders,
        [10, DEMO_MAKER].map((each) => devnetAccount(each).address),
        orderHash,
      )
      const stop = new AbortController()
      const received = () => stop.abort()
      const stopped = await callSibyl(['maker'], keys, { signal: stop.signal, received })
      assert.match(stopped.out, /stopped; \d+ orders cancelled\n$/)
    },
  )

  await t.test(
    'a trader without ether can approve the exchange, and can redeem when the market is resolved',
    async () => {
      const approved = await json<{ txHashes: string[] }>('approve', '--account', '18')
      assert.equal(approved.txHashes.length, 2)
      assert.match(await succeed('approve', '--own-gas', '--account', '18'), /has already approved/)
      const client = createClient({ url: exchange.url, signer: devnetKey(18) })
      await client.chain.split(made, '5')
      assert.match(await fail('redeem', made, '--account', '18'), /not resolved yet/)
      assert.match(await succeed('redeem', '--all', '--account', '18'), /nothing to redeem/)
      const market = await client.market(made)
      const { serverTime } = await client.config({ fresh: true })
      assert.match(
        await succeed('warp', '--seconds', String(market.expiration - serverTime + 60)),
        /^it is 20.*Z now\n$/,
      )
      await client.resolution.waitFor(made, 'expired')
      await client.resolution.propose({ market, outcome: 'NO' })
      await client.resolution.waitFor(made, 'proposed')
      await json('warp', '--seconds', '7201')
      await client.resolution.settle({ market, winningOutcome: 'NO' })
      await client.resolution.waitFor(made, 'resolved')
      const before = (await client.chain.balances()).stablecoin
      await eventually(async () => {
        const { markets } = await json<{ markets: string[] }>('redeem', '--all', '--account', '18')
        assert.deepEqual(markets, [made])
      })
      await eventually(async () => {
        assert.equal((await client.chain.balances()).stablecoin, before + 5_000_000n)
      })
    },
  )

  await t.test(
    'a sibyl command exits with code 0 if its output pipe closes or at SIGINT, and refuses an old Node version in one line',
    async () => {
      const env = { ...process.env, ...keys }
      const { stdout } = await run(process.execPath, [BIN, 'markets', '--all', '--json'], { env })
      assert.deepEqual(JSON.parse(stdout), await json<Market[]>('markets', '--all'))
      const wrong = await run(process.execPath, [BIN, 'marketz'], { env }).catch(
        (error: { code: number; stderr: string }) => error,
      )
      assert.ok('code' in wrong && wrong.code === 2)
      const piped = `"${process.execPath}" "${BIN}" markets --json; echo "code $?" >&2`
      const closed = await run('sh', ['-c', `(${piped}) | true`], { env })
      assert.equal(closed.stderr, 'code 0\n')
      const old =
        "data:text/javascript,Object.defineProperty(process.versions,'node',{value:'20.1.0'})"
      const refused = await run(process.execPath, ['--import', old, BIN, '--help'], { env }).catch(
        (error: { code: number; stderr: string }) => error,
      )
      assert.match(
        refused.stderr,
        /^sibyl: this needs Node 22\.15 or newer and runs on 20\.1\.0[^\n]*\n$/,
      )
      const watching = spawn(process.execPath, [BIN, 'watch', 'trades', id], { env })
      await new Promise((resolve) => watching.stdout.once('data', resolve))
      watching.kill('SIGINT')
      assert.equal(await new Promise((resolve) => watching.once('exit', resolve)), 0)
    },
  )

  assert.ok(!said.join('').includes(devnetKey(14).slice(2)), 'no key was ever shown')
}
