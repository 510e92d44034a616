/**
 * Timers of a market thread: they expire orders, tidy the log between batches, and log when the database or settlement
 * is behind.
 */

import type { DiskRoom } from '#log/partition/disk-room.ts'
import type { Clock } from '#runtime/clock.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import { marketsToExpire } from '../host/due-markets.ts'
import { hasHousework, housekeep, takeGone, takeTrouble, tidy } from '../host/housekeeping.ts'
import type { MarketThread } from '../host/market-host.ts'
import { watchProjection } from '../host/projection-lag.ts'
import type { SettlementWatch } from '../host/settlement-watch.ts'
import type { RiskRules } from '../state.ts'
import type { Commands } from './commands.ts'
import type { Links } from './links.ts'
import type { SessionOrders } from './session-orders.ts'

/**
 * Intervals of two timers. One timer expires orders. The other removes data that can leave the log or memory, and
 * retries unavailable partitions.
 */
const EXPIRE_EVERY_MS = 250
const TIDY_EVERY_MS = 1_000
/**
 * Number of `TIDY_EVERY_MS` intervals between two attempts to open an unavailable partition while the disk is
 * full.
 */
const RELOAD_FULL_TURNS = 10
/** Pause between two steps of housekeeping, so that the thread spends most of its time on commands. */
const HOUSEKEEPING_PAUSE_MS = 2

export const DISK_FULL = 'the disk is nearly full: only cancels are accepted'

type Upkeep = {
  /** Starts the housekeeping, unless it is already running or there is nothing to do. */
  wake(): void
  start(): void
}

type UpkeepPorts = {
  readonly clock: Clock
  readonly room: DiskRoom
  readonly pauses: RiskRules['pauses']
  readonly settlement: SettlementWatch
  readonly commands: Pick<Commands, 'hear'>
  readonly links: Pick<Links, 'readers'>
  readonly sessions: SessionOrders
  /** Reloads a partition from the events that are durable. */
  readonly reload: (partition: number) => void
  readonly isStopped: () => boolean
}

export function makeUpkeep(thread: MarketThread, kit: ThreadContext, ports: UpkeepPorts): Upkeep {
  const { clock, room, commands, settlement } = ports
  const { log, timers } = kit
  let keepingHouse = false
  let expiring = false
  let turns = 0

  function keepHouse(): void {
    keepingHouse = !ports.isStopped() && housekeep(thread)
    if (keepingHouse) timers.after(HOUSEKEEPING_PAUSE_MS, keepHouse)
  }

  function wake(): void {
    if (keepingHouse || !hasHousework(thread)) return
    keepingHouse = true
    timers.soon(keepHouse)
  }

  /** Sends `Expire` to each market that has expired orders. Repeats this until no expired orders are left. */
  function expire(): void {
    if (ports.isStopped() || expiring) return
    const marketIds = marketsToExpire(thread, clock.nowMs())
    let waiting = marketIds.length
    expiring = waiting > 0
    const reply = () => {
      if (--waiting > 0) return
      expiring = false
      timers.soon(expire)
    }
    for (const marketId of marketIds) commands.hear('Expire', { marketId }, 1, { reply })
  }

  function reloadAway(): void {
    // While the disk is full, retry less often: retries do not free disk space.
    if (room.isFull && ++turns % RELOAD_FULL_TURNS !== 0) return
    for (const partition of thread.away.keys()) ports.reload(partition)
  }

  /**
   * Logs when the database falls behind or catches up, when settlement is unavailable, and when housekeeping has
   * failed. If settlement of a chain becomes unavailable, makes the chain's markets accept only cancels.
   */
  function logTroubles(): void {
    for (const { behind, ...news } of watchProjection(thread, clock.nowMs())) {
      log.error(news, behind ? 'the database is behind the log' : 'the database caught up')
    }
    for (const chainId of settlement.look(clock.nowMs())) {
      log.error(
        { chainId },
        'settlement is unavailable: the markets of its chain accept cancels only',
      )
      commands.hear('SettlementLag', { chainId, behind: true }, 0, undefined)
    }
    const trouble = takeTrouble(thread)
    if (trouble !== '') log.warn({ why: trouble }, 'a market snapshot or a log truncation failed')
  }

  function tidyTurn(): void {
    if (room.look()) {
      if (room.isFull) log.error({}, DISK_FULL)
      else log.warn({}, 'there is room on the disk again')
    }
    reloadAway()
    ports.sessions.look()
    tidy(thread)
    ports.pauses?.sweep(clock.nowMs())
    ports.links.readers.gone(takeGone(thread))
    logTroubles()
    wake()
  }

  return {
    wake,
    start() {
      kit.every(EXPIRE_EVERY_MS, () => {
        expire()
        wake()
      })
      kit.every(TIDY_EVERY_MS, tidyTurn)
    },
  }
}
