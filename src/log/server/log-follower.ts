/**
 * Keeps local copies of partitions that other nodes own. If this node takes over a partition, it has to read only the
 * newest rows. Other threads of this node read the copy as if it were the log. The follower appends nothing to the log.
 */

import { Fault } from '#domain/fault.ts'
import type { EventForm, EventLog, LogEvent } from '../event-log.ts'
import { partitionPaths } from '../log-folder.ts'
import { WHOLE } from '../partition/record.ts'
import { AckedMark, checkAcked } from './acked-mark.ts'
import { positionOf } from './mysql-base.ts'
import { asFault, type Copied, makeCopier, openHome } from './mysql-copy.ts'
import { LogRows, refused } from './mysql-rows.ts'
import { LOG_URL_SHAPE, MysqlServer, parseMysqlAddress } from './mysql-server.ts'

/** Maximum time of retries before a read of new rows counts as failed. */
const PATIENCE = { totalMs: 2_000 }
/**
 * Maximum number of rows of closed orders that one call of `forgetSome` reads. The number is small, because the call
 * follows each read of new rows, possibly many times in a second.
 */
const FORGET_STEP = 200

export type LogFollower = {
  /** Follows exactly these partitions from now on; resolves when the files of all other partitions are closed. */
  follow(partitions: readonly number[]): Promise<void>
  /**
   * Copies new rows of one partition; returns the last offset of the copy, or undefined if the partition is not
   * followed.
   */
  pull(partition: number): Promise<number | undefined>
  readonly followed: readonly number[]
  close(): Promise<void>
}

type Followed<Event extends LogEvent> = Copied & {
  /**
   * The last row that this node has read. The partition's owner may already have acknowledged this row, so the next
   * owner must have it.
   */
  readonly acked: AckedMark
  copy: EventLog<Event> | undefined
  /** Settles when the partition's newest task has ended. Each task begins when the one before has ended. */
  turn: Promise<unknown>
  isOver: boolean
}

export async function openLogFollower<Event extends LogEvent>(options: {
  readonly url: string
  readonly dataDir: string
  readonly partitions: number
  readonly form?: EventForm<Event>
  /** Small in tests. */
  readonly closedTailMax?: number
}): Promise<LogFollower> {
  const { dataDir, partitions, closedTailMax } = options
  const form = options.form ?? (WHOLE as EventForm<Event>)
  const address = parseMysqlAddress(options.url)
  if (address === undefined) {
    throw refused('LOG_URL_INVALID', LOG_URL_SHAPE)
  }
  const { id: logId } = await openHome(address, options)
  const copier = makeCopier<Event>({
    ...{ dataDir, partitions, form, logId },
    ...(closedTailMax === undefined ? {} : { closedTailMax }),
  })
  const followed = new Map<number, Followed<Event>>()
  /**
   * Settles when the newest change to the set of followed partitions has ended. Each change begins when the one before
   * has ended.
   */
  let changing: Promise<unknown> = Promise.resolve()

  async function letGo(each: Followed<Event>): Promise<void> {
    each.isOver = true
    followed.delete(each.partition)
    await each.turn.catch(() => undefined)
    await each.copy?.close()
    each.acked.close()
    await each.rows.server.close()
  }

  async function pullNow(each: Followed<Event>): Promise<number | undefined> {
    if (each.isOver) return undefined
    const { partition } = each
    const wasOpen = each.copy !== undefined
    try {
      if (each.copy === undefined) {
        await checkAcked(each, each.acked)
        each.copy = await copier.openWhole(each)
      } else if ((await copier.follow(each.copy, each)).seq < each.acked.read()!.seq) {
        await checkAcked(each, each.acked)
      }
      each.acked.write(positionOf(each.copy.state(partition).meta))
      forgetSome(each.copy, partition)
      return each.copy.lastOffset(partition)
    } catch (error) {
      // After any error, the next read opens the files again.
      await each.copy?.close()
      each.copy = undefined
      const isGone = error instanceof Fault && error.code === 'LOG_BASE_GONE'
      if (isGone && wasOpen) return pullNow(each)
      throw asFault(error)
    }
  }

  async function change(wanted: readonly number[]): Promise<void> {
    const others = [...followed.values()].filter(({ partition }) => !wanted.includes(partition))
    await Promise.all(others.map(letGo))
    for (const partition of wanted) {
      if (followed.has(partition)) continue
      const rows = new LogRows(new MysqlServer(address!), partition, PATIENCE)
      const acked = new AckedMark(partitionPaths(dataDir, partition).acked)
      const turn = Promise.resolve()
      followed.set(partition, { partition, rows, acked, copy: undefined, turn, isOver: false })
    }
  }

  return {
    follow(wanted) {
      const done = changing.then(() => change(wanted))
      changing = done.catch(() => undefined)
      return done
    },
    pull(partition) {
      const each = followed.get(partition)
      if (each === undefined) return Promise.resolve(undefined)
      const pulled = each.turn.then(() => pullNow(each))
      each.turn = pulled.catch(() => undefined)
      return pulled
    },
    get followed() {
      return [...followed.keys()]
    },
    async close() {
      await changing
      await Promise.all([...followed.values()].map(letGo))
    },
  }
}

/**
 * Forgets old closed orders, as the owner does. Their age is measured at the time of the log's newest batch. Also moves
 * the remaining closed orders into runs (sorted files). Otherwise the copy's table of closed orders could be full when
 * this node takes over the partition.
 */
function forgetSome<Event extends LogEvent>(copy: EventLog<Event>, partition: number): void {
  try {
    const nowSec = Math.floor(copy.state(partition).lastMs / 1_000)
    copy.forgetClosed(partition, nowSec, FORGET_STEP)
  } catch (error) {
    // Ignore a failed merge: the copy is unchanged, and the next `pull` retries.
    if (!(error instanceof Fault && error.code === 'LOG_MERGE_FAILED')) throw error
  }
}
