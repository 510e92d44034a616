/**
 * Syncs a position on request. The exchange reads the holder's shares at the newest block of the chain, and uses them
 * until the indexer has passed that block.
 */

import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { MarketFinder } from '#live/market-finder.ts'
import type { Clock } from '#runtime/clock.ts'
import type { Synced } from './positions.ts'
import type { MarketName, Position } from './user-pages.ts'

/** Returns a holder's shares of a market at the newest block, with that block's number and hash. */
export type ChainBalances = (
  holder: Address,
  marketId: MarketId,
) => Promise<{
  readonly blockNumber: number
  readonly blockHash: string
  readonly shares: readonly [yes: bigint, no: bigint]
}>

type SyncService = (market: MarketName, user: Address) => Promise<Synced | Rejection>

export function makeSyncService(ports: {
  /** Chains that can be read, by chain id. */
  readonly chains: ReadonlyMap<number, ChainBalances>
  readonly find: MarketFinder
  readonly marketsByContract: (
    contractAddress: Address,
  ) => Promise<readonly { id: MarketId; chainId: number }[]>
  /** Stores the synced position. Returns the position that the exchange shows from now on, and the position's block. */
  readonly write: (sync: {
    chainId: number
    marketId: MarketId
    holder: Address
    blockNumber: number
    blockHash: string
    yesShares: string
    noShares: string
    atMs: number
  }) => Promise<Omit<Position, 'marketId'> & { blockNumber: number; blockHash: string }>
  readonly clock: Pick<Clock, 'nowMs'>
}): SyncService {
  const { chains, clock } = ports

  async function marketOf(name: MarketName): Promise<MarketId | Rejection> {
    if ('marketId' in name) return name.marketId
    const all = await ports.marketsByContract(name.contractAddress)
    const market = all.find(({ chainId }) => chainId === (name.chainId ?? chainId))
    return market?.id ?? reject('MARKET_NOT_FOUND', 'marketId')
  }

  return async (name, holder) => {
    if (chains.size === 0) return reject('CHAIN_UNAVAILABLE')
    const marketId = await marketOf(name)
    if (isRejection(marketId)) return marketId
    const found = await ports.find(marketId)
    if (isRejection(found)) return found
    const { chainId } = found.market
    const balances = chains.get(chainId)
    if (balances === undefined) return reject('CHAIN_UNAVAILABLE')
    const read = await balances(holder, marketId).catch(unreachable)
    if (isRejection(read)) return read
    const atMs = clock.nowMs()
    const { blockNumber, blockHash, ...position } = await ports.write({
      chainId,
      marketId,
      holder,
      blockNumber: read.blockNumber,
      blockHash: read.blockHash,
      yesShares: String(read.shares[0]),
      noShares: String(read.shares[1]),
      atMs,
    })
    const isEmpty = position.yesShares === 0n && position.noShares === 0n
    return {
      position: isEmpty ? undefined : { marketId, ...position },
      blockNumber,
      blockHash,
      atMs,
    }
  }
}

function unreachable(error: unknown): Rejection {
  if (error instanceof Fault) return reject('CHAIN_UNAVAILABLE')
  throw error
}
