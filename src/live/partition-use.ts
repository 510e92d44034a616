/**
 * Tracks the partitions that clients of this front use: by a stream subscription, a session order, a read of the board,
 * or a trade. The front follows used partitions. Unused partitions become idle, and become active again at the next
 * use.
 */

import type { MarketId } from '#domain/ids.ts'
import type { BoardLoad } from './board-load.ts'

export type NeededMarkets = 'all' | Iterable<MarketId>

export type PartitionUse = {
  /** Makes the market's partition active; resolves when the board is current. Undefined if it is current already. */
  need(marketId: MarketId): Promise<void> | undefined
  /**
   * Returns whether all of these markets are followed. If not, their idle partitions become active, and `woken` is
   * called when these partitions are loaded.
   */
  needThese(markets: NeededMarkets): boolean
  /** Makes partitions idle that were unused for at least `dozeMs`. A timer calls this four times per `dozeMs`. */
  rest(): void
}

export function makePartitionUse(ports: {
  /** For each partition, the `BoardLoad` that loads its markets onto the board. */
  readonly loads: readonly Pick<BoardLoad, 'wake' | 'doze'>[]
  readonly partitionOf: (marketId: MarketId) => number
  /**
   * Returns whether a market is on the board. Markets of idle partitions are on the board too, because the market
   * thread also reports new markets of idle partitions.
   */
  readonly isShown: (marketId: MarketId) => boolean
  /** Returns the markets that clients watch, and the markets with orders that end with a client's session. */
  readonly watched: () => NeededMarkets
  readonly dozeMs: number
  readonly nowMs: () => number
}): PartitionUse {
  const { loads, partitionOf, isShown, dozeMs, nowMs } = ports
  // At the start there are no clients, so all partitions are idle.
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
