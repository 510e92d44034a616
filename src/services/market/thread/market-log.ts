/** Opens the log of a market thread as the settings require: in files, or in a server with copies in files. */

import type { Settings } from '#config/settings-schema.ts'
import { archiveDirOf, isNode } from '#config/thread-data.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { EventLog } from '#log/event-log.ts'
import { PACKED } from '#log/packed-event.ts'
import { openSqliteLog, type SqliteLogOptions } from '#log/partition/sqlite-log.ts'
import { type MysqlLogWatch, openMysqlLog } from '#log/server/mysql-log.ts'
import { inTime } from '#runtime/in-time.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import { mysqlLogWatch } from '../mysql-log-metrics.ts'

/** Maximum wait for the confirmation that this thread still owns its partitions. */
const CONFIRM_MS_MAX = 1_000

type LogPlace = {
  readonly partitions: number
  /** Partitions that this thread serves. */
  readonly own: readonly number[]
  readonly isDiskFull: () => boolean
}

export async function openMarketLog(
  settings: Settings,
  kit: ThreadContext,
  { partitions, own, isDiskFull }: LogPlace,
): Promise<EventLog<MarketEvent>> {
  const place = {
    ...{ form: PACKED, dataDir: settings.data.dir, partitions, own },
    ...archiveOf(settings, isDiskFull),
  }
  const { url } = settings.eventLog
  if (url === '') return openSqliteLog(place)
  return openMysqlLog({ ...place, url, watch: watchLog(settings, kit) })
}

/**
 * Returns the partitions that another owner has taken; undefined if the log fails or does not answer within a second.
 */
export async function partitionsTaken(
  events: Pick<EventLog<MarketEvent>, 'takenOver'>,
  { log, timers }: Pick<ThreadContext, 'log' | 'timers'>,
): Promise<readonly number[] | undefined> {
  const asked = (events.takenOver?.() ?? Promise.resolve([])).catch((error: unknown) => {
    if (!(error instanceof Fault)) throw error
    return error
  })
  const taken = await inTime(asked, CONFIRM_MS_MAX, timers.after)
  if (taken !== undefined && !(taken instanceof Fault)) return taken
  log.warn(
    { why: taken?.message ?? 'the log did not answer in time' },
    'the log could not confirm that this thread still owns its partitions',
  )
  return undefined
}

/** Returns the archive for records that leave the log; returns no archive if the settings turn archiving off. */
function archiveOf(settings: Settings, isFull: () => boolean): Pick<SqliteLogOptions, 'archive'> {
  const { archive, archiveMiBMax } = settings.eventLog
  if (!archive) return {}
  const bytesMax = archiveMiBMax * 1024 * 1024
  return { archive: { dir: archiveDirOf(settings), bytesMax, isFull } }
}

/**
 * Returns an observer of the log. On a cluster node, the observer ends this thread if another node takes over one of
 * the thread's partitions.
 */
function watchLog(settings: Settings, kit: ThreadContext): MysqlLogWatch {
  const watch = mysqlLogWatch(kit)
  if (!isNode(settings)) return watch
  return {
    ...watch,
    fenced(partition) {
      watch.fenced(partition)
      kit.crash(new Error(`partition ${partition} of the log was taken over by another node`))
    },
  }
}
