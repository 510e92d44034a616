/**
 * Keeps the trading volumes by which events (groups of markets) are sorted. The projector reports markets whose trades
 * changed. Every few seconds, the volumes of these markets' events are summed again, outside of the projector's
 * transactions. After a restart, all events are summed once.
 */

import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { EVENT_VOLUMES_WAITING_MAX } from '#domain/limits.ts'
import type { ProjectionBatch } from '#store/projection/rows.ts'

type EventVolumesPorts = {
  readonly sum: (marketIds: readonly MarketId[]) => Promise<void>
  readonly sumAll: () => Promise<void>
  readonly failed: (why: string) => void
}

type EventVolumes = {
  /**
   * Reports a batch that is in the database now. For its markets with changed trades, the next refresh sums the volumes
   * of their events again.
   */
  written(batch: Pick<ProjectionBatch, 'trades' | 'tradeChanges'>): void
  /** Sums the volumes of the reported markets' events; does nothing while an earlier call runs. */
  refresh(): Promise<void>
}

export function makeEventVolumes({ sum, sumAll, failed }: EventVolumesPorts): EventVolumes {
  const waiting = new Set<MarketId>()
  /** True if the next refresh must sum all events: at the start, and if too many markets were reported. */
  let all = true
  let busy = false

  return {
    written({ trades, tradeChanges }) {
      for (const { marketId } of trades) waiting.add(marketId)
      for (const { tradeId } of tradeChanges) waiting.add(tradeId.slice(0, 66) as MarketId)
      if (waiting.size <= EVENT_VOLUMES_WAITING_MAX) return
      all = true
      waiting.clear()
    },
    async refresh() {
      if (busy || (!all && waiting.size === 0)) return
      busy = true
      const [isAll, some] = [all, [...waiting]]
      all = false
      waiting.clear()
      try {
        await (isAll ? sumAll() : sum(some))
      } catch (error) {
        if (!(error instanceof Fault)) throw error
        failed(error.message)
        all ||= isAll
        for (const id of some) waiting.add(id)
      } finally {
        busy = false
      }
    },
  }
}
