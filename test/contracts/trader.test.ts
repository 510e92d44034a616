import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { devnetKey } from '#devnet/accounts.ts'
import { startTestChain } from '../support/chain.ts'
import { type Order, UNIT } from './support/world.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const LOADER = pathToFileURL(join(ROOT, 'src/loader/hooks.js'))
const run = promisify(execFile)
const json = (value: unknown) =>
  JSON.stringify(value, (_key, each) => (typeof each === 'bigint' ? String(each) : each))

/** Returns the commands that the README lists for a trader whose exchange is gone, in order. */
async function commandsOfReadme(): Promise<string[]> {
  const readme = await readFile(join(ROOT, 'contracts/README.md'), 'utf8')
  const [, section = ''] = readme.split('### If the operator disappears\n')
  const [own = ''] = section.split('\n### ')
  return [...own.matchAll(/```sh\n(.*?)```/gs)].flatMap(([, code]) => code!.trim().split('\n'))
}

test('without an exchange, a trader can cancel, merge and redeem by the commands of the README', async (t) => {
  const chain = await startTestChain(t)
  const { ann, settlement, read, hashOrder } = chain
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-trader-'))
  t.after(() => rm(folder, { recursive: true }))
  const market = await chain.createMarket()
  await chain.fund(ann, { collateral: UNIT, shares: 10n * UNIT, market: market.id })
  const start = (await chain.chain.now()) - 1_000n
  const quick = ['BTC', start, 60, 100n, 'pyth'] as const
  await chain.chain.send(chain.quickOperator, chain.factory, 'createQuickMarket', quick)
  const predicted = await read(chain.factory, 'predictQuickMarket', ['BTC', start, 60])
  const [address, resolved] = predicted
  await chain.fund(ann, { shares: 4n * UNIT, market: resolved })
  const prices = [address, 100n, 101n, 'pyth'] as const
  await chain.chain.send(chain.quickOperator, chain.factory, 'resolveQuickMarket', prices)

  const { order } = await chain.buy(ann, market.id, { price: 500_000n, size: UNIT })
  await writeFile(join(folder, 'order.json'), json({ order, signature: '0x' }))
  await writeFile(join(folder, 'trader.key'), `${devnetKey(10)}\n`)
  await writeFile(join(folder, 'friend.key'), devnetKey(5))

  // The first command runs exactly as a trader runs it. Later commands load modules with the exchange's loader, so they
  // start faster.
  let flags = ''
  const shell = (command: string) => {
    const node = `node ${flags} ${ROOT}/contracts/trader.ts`
    flags = `--import=${LOADER}`
    return run('sh', ['-c', command.replace('npm run -s trader --', node)], {
      cwd: folder,
      env: {
        PATH: [join(ROOT, 'node_modules/.bin'), process.env.PATH].join(delimiter),
        RPC: chain.url,
        SETTLEMENT: settlement.address,
        MARKET: market.id,
        RESOLVED: resolved,
      },
    })
  }
  const commands = await commandsOfReadme()
  const take = async (what: RegExp) => {
    const command = commands.shift()
    assert.match(command ?? '', what)
    return (await shell(command!)).stdout
  }
  const epoch = async () => (await read(settlement, 'epochOf', [ann.address]))[1]
  const cancelledFrom = async (each: Order) =>
    (await read(settlement, 'orderState', [hashOrder(each)]))[1]

  await take(/ cancel --orders /)
  assert.notEqual(await cancelledFrom(order), 0n)

  const before = BigInt(Date.now()) << 20n
  await take(/ cancel-all --rpc/)
  const first = await epoch()
  assert.ok(first > before)

  assert.equal(await chain.balance(ann.address), UNIT)
  await take(/ merge /)
  assert.equal(await chain.balance(ann.address), UNIT + 2_500_000n)
  await take(/ redeem /)
  assert.equal(await chain.balance(ann.address), UNIT + 6_500_000n)

  // The trader has no ether: another account submits the signed cancellation.
  await chain.chain.warp(7_200)
  await chain.chain.request('hardhat_setBalance', [ann.address, '0x0'])
  await take(/ cancel-all --sign /)
  assert.equal(await epoch(), first)
  await take(/ send /)
  assert.ok((await epoch()) > first)
  assert.deepEqual(commands, [])

  await t.test(
    'a trader cancels orders by a signature with the commands of the README',
    async () => {
      const other = await chain.buy(ann, market.id, { price: 400_000n, size: UNIT })
      await writeFile(join(folder, 'order.json'), json([other.order]))
      const options = '--rpc $RPC --settlement $SETTLEMENT --key-file trader.key'
      await shell(`npm run -s trader -- cancel --sign --orders order.json ${options} > signed.json`)
      await shell(
        'npm run -s trader -- send --transaction signed.json --rpc $RPC --key-file friend.key',
      )
      assert.notEqual(await cancelledFrom(other.order), 0n)
    },
  )

  await t.test(
    'the trader program reports a missing option, a revert or an unknown command in one line',
    async () => {
      const failure = async (command: string): Promise<string> => {
        const error = await shell(command).then(
          () => assert.fail('it did not fail'),
          (thrown: unknown) => thrown as { stderr: string },
        )
        return error.stderr
      }
      assert.match(await failure('npm run -s trader -- merge'), /^trader: --key-file is missing/)
      const options = '--rpc $RPC --settlement $SETTLEMENT --key-file friend.key'
      const merge = `npm run -s trader -- merge --market $MARKET --amount 1 ${options}`
      assert.match(await failure(merge), /^trader: .*revert/)
      assert.match(await failure(`npm run -s trader -- dance ${options}`), /^trader: there is no/)
      assert.match((await shell('npm run -s trader -- --help')).stdout, /cancel-all/)
    },
  )
})
