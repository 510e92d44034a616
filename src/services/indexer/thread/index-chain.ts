/** The indexer of one chain, with its reads from the chain and the database, and its writes through the store. */

import type { ChainClient } from '#chain/clients.ts'
import type { Settings } from '#config/settings-schema.ts'
import { contractsOf } from '#config/thread-data.ts'
import { delegatesOf } from '#domain/delegate.ts'
import { Fault } from '#domain/fault.ts'
import { MARKETS_RECONCILED_MAX } from '#domain/limits.ts'
import type { Query } from '#store/reads/queries.ts'
import { askWrite, type WriteQueueRef } from '#store/writes/ask-write.ts'
import { makeChainReader } from '../chain/chain-reader.ts'
import { type IndexerState, newIndexer } from '../indexer.ts'

/** Maximum wait for a write; writing a long range to a slow database takes a while. */
const WRITE_DEADLINE_MS = 60_000

type IndexParts = {
  readonly client: ChainClient
  readonly query: Query
  readonly store: WriteQueueRef
  readonly rangeBlocksMax: number
  readonly nowMs: () => number
}

export function indexerOn(
  chain: Settings['chains'][number],
  { client, query, store, rangeBlocksMax, nowMs }: IndexParts,
): IndexerState {
  const { chainId, confirmations, startBlock } = chain
  const { marketFactory, conditionalTokens, settlement, stablecoin } = contractsOf(chain)
  const contracts = { marketFactory, conditionalTokens, settlement, stablecoin }
  const reader = makeChainReader({
    client,
    contracts: { ...contracts, delegates: delegatesOf(settlement) },
    knownMarkets: (contracts) => query('marketsOfContracts', { chainId, contracts }),
    knownTokens: (positionIds) => query('followedTokens', { chainId, positionIds }),
    openMarkets: (limit) => query('openMarketContracts', { chainId, limit }),
  })
  return newIndexer({
    chainId,
    confirmations,
    rangeBlocksMax,
    chain: reader,
    store: {
      async claim() {
        const anchor = await reader.mark(Math.max(0, startBlock - 1))
        if (anchor === undefined) {
          throw new Fault(
            'CHAIN_UNAVAILABLE',
            `the Ethereum node does not have block ${startBlock - 1} yet, which is the last block before the start block`,
            { retryable: true },
          )
        }
        const deployment = Object.values(contracts).join(' ')
        return askWrite(
          store,
          'claimChain',
          {
            chainId,
            deployment,
            startBlock,
            anchor: anchor ?? { number: -1, hash: `0x${'0'.repeat(64)}`, atSec: 0 },
            atMs: nowMs(),
          },
          WRITE_DEADLINE_MS,
        )
      },
      write: (range) => askWrite(store, 'indexRange', range, WRITE_DEADLINE_MS),
      rewind: (rewind) => askWrite(store, 'rewindChain', rewind, WRITE_DEADLINE_MS),
      marketsDue: (nowSec) =>
        query('marketsToReconcile', { chainId, nowSec, limit: MARKETS_RECONCILED_MAX }),
    },
  })
}
