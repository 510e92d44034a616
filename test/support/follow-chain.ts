/** Runs the indexer’s actor in the test’s own thread, with an Ethereum node and a database. */

import assert from 'node:assert/strict'
import { makeChainClient } from '#chain/clients.ts'
import { delegatesOf } from '#domain/delegate.ts'
import type { Address } from '#domain/ids.ts'
import { systemClock } from '#runtime/clock.ts'
import { serve } from '#runtime/serve.ts'
import { makeChainReader } from '#services/indexer/chain/chain-reader.ts'
import {
  type IndexerEvent,
  type IndexerProtocol,
  type IndexerState,
  indexer,
  newIndexer,
} from '#services/indexer/indexer.ts'
import { claimChain } from '#store/chain-index/cursor.ts'
import { indexRange } from '#store/chain-index/index-range.ts'
import { rewindChain } from '#store/chain-index/rewind-chain.ts'
import type { Database } from '#store/engine/database.ts'
import {
  followedTokens,
  marketsOfContracts,
  openMarketContracts,
} from '#store/reads/chain-known.ts'
import { marketsToReconcile } from '#store/reads/chain-markets.ts'

export type Follower = {
  readonly state: IndexerState
  readonly said: IndexerEvent[]
  /** Ends the actor between two steps, like a kill: pending work is not awaited. */
  stop(): void
}

export type FollowOptions = {
  readonly database: Database
  readonly url: string
  /** Further addresses of the same chain. */
  readonly others?: readonly string[]
  readonly chainId: number
  readonly contracts: {
    readonly marketFactory: Address
    readonly conditionalTokens: Address
    readonly settlement: Address
    readonly stablecoin: Address
  }
  readonly confirmations?: number
  readonly rangeBlocksMax?: number
}

export function followChain(options: FollowOptions): Follower {
  const { database, chainId, contracts, confirmations = 0, rangeBlocksMax = 100 } = options
  const reader = makeChainReader({
    client: makeChainClient({
      chainId,
      rpcUrls: [options.url, ...(options.others ?? [])],
      timeoutMs: 1_000,
      rounds: 2,
      pauseMs: 1,
    }),
    contracts: { ...contracts, delegates: delegatesOf(contracts.settlement) },
    knownMarkets: (addresses) => marketsOfContracts(database, { chainId, contracts: addresses }),
    knownTokens: (positionIds) => followedTokens(database, { chainId, positionIds }),
    openMarkets: (limit) => openMarketContracts(database, { chainId, limit }),
  })
  let stopped = false
  /** A dead thread writes nothing more. */
  const alive =
    <Args extends readonly unknown[], R>(work: (...args: Args) => Promise<R>) =>
    (...args: Args): Promise<R> =>
      stopped ? new Promise(() => {}) : work(...args)
  const state = newIndexer({
    chainId,
    confirmations,
    rangeBlocksMax,
    chain: reader,
    store: {
      claim: alive(async () => {
        const anchor = await reader.mark(0)
        assert(anchor !== undefined)
        return claimChain(database, { chainId, deployment: 'one', startBlock: 0, anchor, atMs: 1 })
      }),
      write: alive((range) => indexRange(database, range)),
      rewind: alive((rewind) => rewindChain(database, rewind)),
      marketsDue: alive((nowSec) => marketsToReconcile(database, { chainId, nowSec, limit: 100 })),
    },
  })
  const said: IndexerEvent[] = []
  const served = serve<IndexerState, IndexerProtocol, IndexerEvent>({
    behaviour: indexer,
    select: () => ({ state }),
    clock: systemClock,
    mailboxMax: 1_000,
    batchMax: 1_000,
    full: undefined,
    say: (events) => said.push(...events),
  })
  const timer = setInterval(() => served.hear('Tick', {}, 0, undefined), 5)
  return {
    state,
    said,
    stop() {
      stopped = true
      clearInterval(timer)
    },
  }
}
