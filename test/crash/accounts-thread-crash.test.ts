/**
 * Kills the accounts thread right after its start, under the real supervisor. The simulator also kills it under load,
 * and `scenario/cluster.test.ts` kills its node.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { writeChainRecord } from '#devnet/chain-record.ts'
import { type MarketId, toAddress } from '#domain/ids.ts'
import { threadSpecs } from '../../src/boot/thread-specs.ts'
import { openTestChain } from '../support/chain.ts'
import { eventually } from '../support/eventually.ts'
import { TEST_PARTITIONS } from '../support/partitions.ts'
import { marketNumbered, seedMarkets } from '../support/seeded-markets.ts'
import { startSupervised } from './supervised-threads.ts'

test('after a crash of the accounts thread, the exchange is not ready until orders in flight have ended', async (t) => {
  const chain = await openTestChain({ seed: true, chainId: 31_338 })
  t.after(() => chain.close())
  const { chainId } = chain.settings
  const [first] = chain.demoMarkets
  assert(first !== undefined)
  const { url, supervisor } = await startSupervised(t, {
    environment: {
      SIBYL_CHAINS: JSON.stringify([{ ...chain.settings, rpcUrls: [chain.url] }]),
      SIBYL_RISK_FUNDS: 'reserve',
      SIBYL_DEVNET: 'false',
      SIBYL_DEMO_MARKETS: 'false',
      SIBYL_LIMITS: 'false',
      SIBYL_INDEXER_POLL_MS: '100',
      SIBYL_LOG_PARTITIONS: String(TEST_PARTITIONS),
      // After a restart, the accounts thread waits for twice this deadline before it reserves funds again.
      SIBYL_REQUEST_DEADLINE_MS: '120000',
    },
    async prepare(dataDir) {
      const { genesis, contracts } = chain
      writeChainRecord(dataDir, { [chainId]: { genesis, url: chain.url, contracts } })
      const market = marketNumbered(1, {
        id: first.id as string as MarketId,
        contractAddress: toAddress(first.address),
        expiration: Number(first.expiration),
        chainId,
      })
      await seedMarkets(dataDir, [{ market }])
    },
    specs: (settings, common) => threadSpecs(settings, 8, common),
  })
  await supervisor.kill('accounts-0')
  await eventually(() => {
    const { deaths, why } = supervisor.health()['accounts-0'] ?? {}
    assert.deepEqual(
      [deaths, why],
      [
        1,
        'the exchange has restarted and waits for orders that were accepted before the restart: retry shortly',
      ],
    )
  })
  assert.equal((await fetch(`${url}/readyz`)).status, 503)
})
