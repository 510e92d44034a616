/** What speaks to chains and providers, one of them or several: each waits most of the time. */

import { runThreads } from '#runtime/thread.ts'
import { indexerThread } from '#threads/indexer.ts'
import { pricesThread } from '#threads/prices.ts'
import { relayerThread } from '#threads/relayer.ts'
import { resolutionThread } from '#threads/resolution.ts'
import { settlementThread } from '#threads/settlement.ts'

runThreads({
  indexer: indexerThread,
  prices: pricesThread,
  relayer: relayerThread,
  resolution: resolutionThread,
  settlement: settlementThread,
})
