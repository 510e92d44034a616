import assert from 'node:assert/strict'
import { test } from 'node:test'
import Sqlite from 'better-sqlite3'
import { createClient } from '#client/client.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { devnet } from '#config/devnet.ts'
import { devnetKey } from '#devnet/accounts.ts'
import { eventually } from '../support/eventually.ts'
import { startExchange } from '../support/exchange.ts'
import { marketNumbered, seedMarkets } from '../support/seeded-markets.ts'

const CHAIN_ID = 31_338

test('the exchange refuses new orders while the database cannot be written, because trades could not settle', async (t) => {
  const market = marketNumbered(1, { chainId: CHAIN_ID })
  const [local] = devnet.chains ?? []
  const chain = { ...local, chainId: CHAIN_ID, rpcUrls: ['http://127.0.0.1:1'] }
  const exchange = await startExchange(t, {
    environment: {
      SIBYL_CHAINS: JSON.stringify([chain]),
      SIBYL_SETTLEMENT_KEY: devnetKey(0),
      SIBYL_SETTLEMENT_MAX_LAG_SECONDS: '2',
      SIBYL_DEMO_MARKETS: 'false',
    },
    prepare: (dataDir) => seedMarkets(dataDir, [{ market }]),
  })
  const trader = createClient({ url: exchange.url, signer: devnetKey(10), retries: 0 })
  const terms = {
    marketId: market.id,
    outcome: 'YES',
    side: 'buy',
    price: '0.4',
    size: '1',
  } as const
  const place = () => trader.orders.place({ ...terms, ttlSeconds: 3_600 })
  type Ready = { readonly checks: Readonly<Record<string, { readonly ok: boolean }>> }
  const ready = async () => {
    const { checks } = (await (await fetch(`${exchange.url}/readyz`)).json()) as Ready
    return checks['market-0']?.ok
  }
  const first = await eventually(place)
  await eventually(async () => assert.equal((await trader.orders.list()).length, 1))

  const database = new Sqlite(`${exchange.dataDir}/sibyl.db`)
  t.after(() => database.close())
  database.exec('begin immediate')
  await place()
  await eventually(async () => {
    await assert.rejects(place(), (error) => {
      return error instanceof SibylError && error.code === 'SETTLEMENT_BEHIND'
    })
  })
  await eventually(async () => assert.equal(await ready(), false))
  const { status } = await trader.orders.cancel({ ...terms, orderHash: first.orderHash })
  assert.equal(status, 'cancelled')

  database.exec('rollback')
  await eventually(place)
  await eventually(async () => assert.equal(await ready(), true))
})
