/**
 * Takes a position over from the chain. The chain is asked at the block that the database has
 * reached, and the answer is written only where it still holds there, so that no movement is counted
 * twice; a user whose tokens moved meanwhile is asked about again.
 */

import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { MarketFinder } from '#live/market-finder.ts'
import type { Clock } from '#runtime/clock.ts'
import type { MarketName, Position, Synced } from './positions.ts'

/** How often a position that keeps moving is asked about. */
const ATTEMPTS_MAX = 5

export type ChainBalances = (
  holder: Address,
  marketId: MarketId,
  blockNumber: number,
) => Promise<readonly [yes: bigint, no: bigint]>

type PositionDesk = (
  market: MarketName,
  user: Address,
  deadlineAtMs: number,
) => Promise<Synced | Rejection>

export function makePositionDesk(parts: {
  /** By chain id, the chains that can be asked. */
  readonly chains: ReadonlyMap<number, ChainBalances>
  readonly find: MarketFinder
  readonly marketsByContract: (contractAddress: Address) => Promise<readonly { id: MarketId }[]>
  readonly indexedBlock: (chainId: number) => Promise<number | undefined>
  readonly position: (marketId: MarketId, user: Address) => Promise<Position | undefined>
  readonly write: (sync: {
    chainId: number
    marketId: MarketId
    holder: Address
    blockNumber: number
    yesShares: string
    noShares: string
  }) => Promise<'synced' | 'moved'>
  readonly clock: Pick<Clock, 'nowMs'>
}): PositionDesk {
  const { chains, clock } = parts

  async function marketOf(name: MarketName): Promise<MarketId | Rejection> {
    if ('marketId' in name) return name.marketId
    const [market] = await parts.marketsByContract(name.contractAddress)
    return market?.id ?? reject('MARKET_NOT_FOUND', 'marketId')
  }

  return async (name, user, deadlineAtMs) => {
    if (chains.size === 0) return reject('CHAIN_UNAVAILABLE')
    const marketId = await marketOf(name)
    if (isRejection(marketId)) return marketId
    const found = await parts.find(marketId)
    if (isRejection(found)) return found
    const { chainId } = found.market
    const balances = chains.get(chainId)
    if (balances === undefined) return reject('CHAIN_UNAVAILABLE')
    for (let attempt = 1; attempt <= ATTEMPTS_MAX && clock.nowMs() < deadlineAtMs; attempt++) {
      const blockNumber = await parts.indexedBlock(chainId)
      if (blockNumber === undefined) return reject('CHAIN_UNAVAILABLE')
      const shares = await balances(user, marketId, blockNumber).catch(unreachable)
      if (isRejection(shares)) return shares
      const written = await parts.write({
        chainId,
        marketId,
        holder: user,
        blockNumber,
        yesShares: String(shares[0]),
        noShares: String(shares[1]),
      })
      if (written === 'moved') continue
      const position = await parts.position(marketId, user)
      return { position, blockNumber, atMs: clock.nowMs() }
    }
    return reject('OVERLOADED')
  }
}

function unreachable(error: unknown): Rejection {
  if (error instanceof Fault) return reject('CHAIN_UNAVAILABLE')
  throw error
}
