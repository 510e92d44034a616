/**
 * Reads the log in a thread that does not write it, such as the projector's thread. The reader opens the files
 * read-only, and keeps no read transaction between calls. So it never blocks the writer or the writer's checkpoints.
 */

import { statSync } from 'node:fs'
import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import type { EventForm, LogEvent, LogReader, RowReader } from './event-log.ts'
import { partitionPaths, readIdentity } from './log-folder.ts'
import { BatchReader } from './partition/batches.ts'
import { readMark } from './partition/durable-mark.ts'
import { UPCASTERS, type Upcasters, WHOLE } from './partition/record.ts'
import { sqliteFault } from './partition/sqlite-fault.ts'

const BUSY_MS_MAX = 5_000

type OpenFile<Event extends LogEvent> = {
  /**
   * Inode of the database file. If the inode has changed, a new file has replaced the old one, and the reader opens the
   * new file. This happens only to a local copy of a log whose original is in a database server.
   */
  readonly inode: number
  readonly db: Database.Database
  readonly reader: BatchReader<Event>
}

export function openLogReader<Event extends LogEvent>(
  dataDir: string,
  options: { readonly upcasters?: Upcasters; readonly form?: EventForm<Event> } = {},
): LogReader<Event> & RowReader {
  const identity = readIdentity(dataDir)
  const form = options.form ?? (WHOLE as EventForm<Event>)
  const files = new Map<number, OpenFile<Event>>()

  const open = (partition: number): OpenFile<Event> => {
    const paths = partitionPaths(dataDir, partition)
    const known = files.get(partition)
    const inode = statSync(paths.database, { throwIfNoEntry: false })?.ino ?? 0
    if (known !== undefined && known.inode === inode) return known
    known?.db.close()
    files.delete(partition)
    // Read the mark (the last durable offset) before the database. The log may grow between the two reads, but never
    // shrinks. So a log that ends before the mark has lost events.
    const mark = readMark(paths.mark)
    const db = new Database(paths.database, {
      readonly: true,
      fileMustExist: true,
      timeout: BUSY_MS_MAX,
    })
    try {
      const home = { logId: identity.id, partition }
      const upcasters = options.upcasters ?? UPCASTERS
      const reader = new BatchReader(db, paths.database, home, { upcasters, form })
      if (reader.lastOffset() < mark) {
        throw new Fault(
          'LOG_LOST',
          `${paths.database} ends before its durable offset ${mark}: acknowledged commands are ` +
            'missing; restore all files of the partition from the same backup',
          { retryable: false },
        )
      }
      const file = { inode, db, reader }
      files.set(partition, file)
      return file
    } catch (error) {
      db.close()
      throw error
    }
  }
  const reading = <Result>(partition: number, read: (reader: BatchReader<Event>) => Result) => {
    try {
      return read(open(partition).reader)
    } catch (error) {
      throw sqliteFault('LOG_READ_FAILED', partitionPaths(dataDir, partition).database, error)
    }
  }
  return {
    id: identity.id,
    partitions: identity.partitions,
    read: (partition, fromOffset, limit) =>
      reading(partition, (reader) => reader.read(fromOffset, limit)),
    readRows: (partition, fromOffset, limit) =>
      reading(partition, (reader) => reader.readRows(fromOffset, limit)),
    firstOffset: (partition) => reading(partition, (reader) => reader.firstOffset()),
    lastOffset: (partition) => reading(partition, (reader) => reader.lastOffset()),
    close: async () => {
      for (const { db } of files.values()) db.close()
      files.clear()
    },
  }
}
