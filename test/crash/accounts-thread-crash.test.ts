import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { writeChainRecord } from '#devnet/chain-record.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { threadSpecs } from '../../src/boot/thread-specs.ts'
import { openTestChain } from '../support/chain.ts'
import { eventually } from '../support/eventually.ts'
import { TEST_PARTITIONS } from '../support/partitions.ts'
import { randomFrom } from '../support/random.ts'
import { marketNumbered, seedMarkets } from '../support/seeded-markets.ts'
import { startSupervised, untilReady } from './supervised-threads.ts'

const TRADERS = [10, 11, 12]
const ORDERS = 40
const LANES = 8

/** An exchange of one market that reserves. After a kill of its accounts nothing is granted for two deadlines. */
async function started(t: TestContext, deadlineMs: number) {
  const chain = await openTestChain({ seed: true, chainId: 31_338 })
  t.after(() => chain.close())
  const { chainId } = chain.settings
  const [first] = chain.demoMarkets
  assert(first !== undefined)
  const marketId = first.id as string as MarketId
  const { url, supervisor } = await startSupervised(t, {
    environment: {
      SIBYL_CHAINS: JSON.stringify([{ ...chain.settings, rpcUrls: [chain.url] }]),
      SIBYL_RISK_FUNDS: 'reserve',
      SIBYL_DEVNET: 'false',
      SIBYL_DEMO_MARKETS: 'false',
      SIBYL_LIMITS: 'false',
      SIBYL_INDEXER_POLL_MS: '100',
      SIBYL_LOG_PARTITIONS: String(TEST_PARTITIONS),
      SIBYL_REQUEST_DEADLINE_MS: String(deadlineMs),
    },
    async prepare(dataDir) {
      const { genesis, contracts } = chain
      writeChainRecord(dataDir, { [chainId]: { genesis, url: chain.url, contracts } })
      const market = marketNumbered(1, {
        id: marketId,
        contractAddress: toAddress(first.address),
        expiration: Number(first.expiration),
        chainId,
      })
      await seedMarkets(dataDir, [{ market }])
    },
    specs: (settings, common) => threadSpecs(settings, 8, common),
  })
  return { url, supervisor, chainId, marketId }
}

test('an accounts thread that dies under load forgets no reservation and grants no funds twice', async (t) => {
  const { url, supervisor, chainId, marketId } = await started(t, 2_000)
  const random = randomFrom(Number(process.env.TEST_SEED ?? 4_712))
  const clients = TRADERS.map((trader) =>
    createClient({ url, signer: devnetKey(trader), retries: 0, timeoutMs: 120_000 }),
  )
  const cashOf = async (client: (typeof clients)[number]) => {
    const [cash] = (await client.funds({ chainId })).tokens
    assert(cash?.token === 'stablecoin')
    return cash
  }
  const had = await eventually(() => Promise.all(clients.map(cashOf)))
  const heard = new Map<string, number>()
  const killAt = random.int(5, ORDERS / 2)
  let left = ORDERS
  let answers = 0
  /** Each order is a sixth of all that a trader has: most of them cannot be granted. */
  const lane = async (): Promise<void> => {
    while (left-- > 0) {
      const which = random.int(0, TRADERS.length - 1)
      const size = Number(had[which]!.held) / 6 / 250_000
      const word = await clients[which]!.orders.place({
        ...{ marketId, outcome: 'YES', side: 'buy', price: '0.25', ttlSeconds: 3_600 },
        size: String(Math.floor(size)),
      }).then(
        () => 'accepted',
        (error: unknown) => {
          assert(error instanceof SibylError)
          assert([422, 503].includes(error.status ?? 0), `${error.code}: ${error.message}`)
          return error.code
        },
      )
      heard.set(word, (heard.get(word) ?? 0) + 1)
      if (++answers === killAt) await supervisor.kill('accounts-0')
    }
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  t.diagnostic(`${JSON.stringify(Object.fromEntries(heard))}, seed ${random.seed}`)
  assert.equal(supervisor.health()['accounts-0']?.deaths, 1)
  await untilReady(url)

  for (const [index, client] of clients.entries()) {
    const open = await client.orders.list()
    // Each order needs its cost and at most 10,000 units for fills.
    const need = open.reduce((sum, order) => sum + (order.price * order.size) / 1e6 + 10_000, 0)
    await eventually(async () => {
      const cash = await cashOf(client)
      assert.deepEqual(
        [cash.held, cash.reservedForOrders, cash.reservedForTrades],
        [had[index]!.held, String(need), '0'],
      )
    })
    assert(need <= Number(had[index]!.held), 'no more is open than there is')
    // Free funds are granted again, and no more than that.
    const free = BigInt((await cashOf(client)).free) - 10_000n
    const order = (value: bigint) => ({
      ...{ marketId, outcome: 'YES' as const, side: 'buy' as const, ttlSeconds: 3_600 },
      ...{ price: '0.25', size: String(Number(value) / 250_000) },
    })
    await eventually(async () => {
      await assert.rejects(client.orders.place(order(free + 250_000n)), {
        code: 'INSUFFICIENT_FUNDS',
      })
    })
    await client.orders.place(order(free))
  }
})

test('an accounts thread that dies right after the start also waits for orders in flight', async (t) => {
  const { url, supervisor } = await started(t, 120_000)
  await supervisor.kill('accounts-0')
  await eventually(() => {
    const { deaths, why } = supervisor.health()['accounts-0'] ?? {}
    assert.deepEqual(
      [deaths, why],
      [1, 'orders accepted before a restart may still arrive: retry shortly'],
    )
  })
  assert.equal((await fetch(`${url}/readyz`)).status, 503)
})
