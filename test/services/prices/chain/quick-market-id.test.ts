import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readerOf } from '#chain/call.ts'
import { makeChainClient } from '#chain/clients.ts'
import { marketFactoryAbi } from '#contracts/artifacts/MarketFactory.abi.ts'
import { toAddress } from '#domain/ids.ts'
import { predictQuickMarket } from '#services/prices/chain/quick-market-id.ts'
import { startTestChain } from '../../../support/chain.ts'

test('the exchange computes for each quick market the address and id that the factory contract predicts', async (t) => {
  const chain = await startTestChain(t)
  const factory = toAddress(chain.contracts.marketFactory)
  const client = makeChainClient({ chainId: chain.settings.chainId, rpcUrls: [chain.url] })
  for (const terms of [
    { asset: 'BTC', startSec: 1_800_000_000, intervalSec: 900 },
    { asset: 'A'.repeat(32), startSec: 0, intervalSec: 86_400 },
    { asset: 'ETH', startSec: 2 ** 40, intervalSec: 1 },
  ]) {
    const read = readerOf(client, factory, marketFactoryAbi)
    const args = [terms.asset, BigInt(terms.startSec), terms.intervalSec] as const
    const [market, marketId] = await read('predictQuickMarket', args)
    const contractAddress = toAddress(market)
    assert.deepEqual(predictQuickMarket(factory, terms), { marketId, contractAddress })
  }
})
