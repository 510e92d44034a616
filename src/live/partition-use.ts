/**
 * Which partitions of the log somebody on this front needs: who follows a market on the stream, has an order
 * held, reads what is on the board, or trades. These are followed; all others doze, and are woken when they are needed.
 */

import type { MarketId } from '#domain/ids.ts'
import type { BoardLoad } from './board-load.ts'

export type NeededMarkets = 'all' | Iterable<MarketId>

export type PartitionUse = {
  /** Undefined where the market is followed; else resolves when it is on the board as it is. */
  need(marketId: MarketId): Promise<void> | undefined
  /** Whether all of these are followed; those that are not will be, and their load tells when (`woken`). */
  needThese(markets: NeededMarkets): boolean
  /** Lets doze what was not needed for so long. To be called now and then. */
  rest(): void
}

export function makePartitionUse(ports: {
  /** By partition: what brings its markets onto the board. */
  readonly loads: readonly Pick<BoardLoad, 'wake' | 'doze'>[]
  readonly partitionOf: (marketId: MarketId) => number
  /** Whether a market is on the board; none that is not exists in a partition that dozes. */
  readonly isShown: (marketId: MarketId) => boolean
  /** What somebody watches now, or has orders in that go with a session. */
  readonly watched: () => NeededMarkets
  readonly dozeMs: number
  readonly nowMs: () => number
}): PartitionUse {
  const { loads, partitionOf, isShown, dozeMs, nowMs } = ports
  // Nobody is there yet, so all of them doze.
  const neededAtMs = loads.map(() => Number.NEGATIVE_INFINITY)

  function needPartition(partition: number): Promise<void> | undefined {
    neededAtMs[partition] = nowMs()
    return loads[partition]?.wake(partition)
  }

  function need(marketId: MarketId): Promise<void> | undefined {
    return isShown(marketId) ? needPartition(partitionOf(marketId)) : undefined
  }

  function partitionsOf(markets: NeededMarkets): Iterable<number> {
    if (markets === 'all') return loads.keys()
    const partitions = new Set<number>()
    for (const marketId of markets) {
      if (isShown(marketId)) partitions.add(partitionOf(marketId))
      if (partitions.size === loads.length) break
    }
    return partitions
  }

  function rest(): void {
    const now = nowMs()
    for (const partition of partitionsOf(ports.watched())) neededAtMs[partition] = now
    const resting = new Map<Pick<BoardLoad, 'doze'>, number[]>()
    for (const [partition, load] of loads.entries()) {
      if (now - neededAtMs[partition]! < dozeMs) continue
      const those = resting.get(load) ?? []
      resting.set(load, those)
      those.push(partition)
    }
    for (const [load, partitions] of resting) load.doze(partitions)
  }

  rest()
  return {
    need,
    needThese(markets) {
      let followed = true
      for (const partition of partitionsOf(markets)) {
        if (needPartition(partition) !== undefined) followed = false
      }
      return followed
    },
    rest,
  }
}
