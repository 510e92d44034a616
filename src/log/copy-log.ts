/**
 * Copies the log of an exchange that may be running. Reads the database of each partition in one transaction. Also
 * copies the newest snapshot of each market, and the runs (sorted files of closed orders) that the database lists. If
 * the exchange removes one of these files during the copy, the partition is copied again. Checks each copy by opening
 * and reading it as an exchange would.
 */

import { constants, copyFileSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import type { MarketId } from '#domain/ids.ts'
import { partitionArchive, readSegmentMeta, segmentsIn } from './archive/archive-format.ts'
import type { RunMeta } from './closed/closed-run.ts'
import { type PartitionPaths, partitionPaths, readIdentity } from './log-folder.ts'
import { createMark } from './partition/durable-mark.ts'
import { openPartitionFile } from './partition/partition-file.ts'
import { type RowHome, UPCASTERS, WHOLE } from './partition/record.ts'
import { type FileState, parseState, STATE_SELECT } from './partition/schema.ts'
import { sqliteFault } from './partition/sqlite-fault.ts'
import { type Named, nameOf, parseName } from './snapshots/snapshot-format.ts'

/** Maximum number of attempts to copy a partition whose files change during the copy. */
const ATTEMPTS_MAX = 8
/**
 * Options for opening a copy to check it. They keep the filters of the runs (sorted files of closed orders) out of
 * memory.
 */
const NO_FILTERS = { filterBytesMax: 0, runOrdersMax: Number.MAX_SAFE_INTEGER }

export type CopiedPartition = {
  readonly partition: number
  readonly firstOffset: number
  readonly lastOffset: number
}

/** Copies the log into the data folder `into`, which must not have a log yet. */
export function copyLog(
  dataDir: string,
  into: string,
): { readonly logId: string; readonly partitions: readonly CopiedPartition[] } {
  const { id: logId, partitions } = readIdentity(dataDir)
  const folder = join(into, 'log')
  mkdirSync(folder, { recursive: true })
  const copied = Array.from({ length: partitions }, (_, partition) =>
    copyPartition({ logId, partition }, dataDir, into),
  )
  copyFileSync(join(dataDir, 'log', 'log.json'), join(folder, 'log.json'))
  return { logId, partitions: copied }
}

/** Copies one partition into the data folder `into`. The folder `log/` in `into` must exist. */
export function copyPartition(home: RowHome, dataDir: string, into: string): CopiedPartition {
  const from = partitionPaths(dataDir, home.partition)
  const to = partitionPaths(into, home.partition)
  for (let attempt = 1; ; attempt++) {
    try {
      const { firstOffset, lastOffset } = copyOnce(from, to)
      checkCopy(home, to)
      return { partition: home.partition, firstOffset, lastOffset }
    } catch (error) {
      const fault = sqliteFault('LOG_COPY_FAILED', from.database, error)
      // Retry after a fault, because the exchange may have changed the files meanwhile; any other error is a bug.
      const mayHelp = fault instanceof Fault && attempt < ATTEMPTS_MAX
      if (!mayHelp) throw fault
      for (const path of [to.database, to.mark, to.snapshots, to.runs]) {
        rmSync(path, { recursive: true, force: true })
      }
    }
  }
}

function copyOnce(from: PartitionPaths, to: PartitionPaths): FileState {
  const source = new Database(from.database, { readonly: true, fileMustExist: true })
  try {
    source.exec('BEGIN')
    // This read begins the transaction. Until its end, the transaction sees the tables unchanged. Copy the files before
    // the tables, because the exchange may delete a file at any time.
    const state = parseState(source.prepare(STATE_SELECT).get(), from.database)
    for (const name of snapshotsAt(from.snapshots, state.lastOffset)) {
      copyInto(to.snapshots, join(from.snapshots, name), name)
    }
    for (const name of runsIn(source)) copyInto(to.runs, join(from.runs, name), name)
    copyTables(source, to.database)
    createMark(to.mark, state.lastOffset)
    return state
  } finally {
    source.close()
  }
}

/** Returns the names of the partition's run files; none for a log of an older version, which has no table of runs. */
function runsIn(source: Database.Database): string[] {
  const table = source.prepare("SELECT name FROM sqlite_master WHERE name = 'closed_runs'").get()
  if (table === undefined) return []
  const runs = source.prepare('SELECT json FROM closed_runs').pluck().all() as string[]
  return runs.map((json) => (JSON.parse(json) as RunMeta).name)
}

/**
 * Returns the names of the snapshots to copy: for each market, the newest one whose offset is not after `lastOffset`.
 */
function snapshotsAt(folder: string, lastOffset: number): string[] {
  if (!existsSync(folder)) return []
  const newest = new Map<MarketId, Named>()
  for (const name of readdirSync(folder)) {
    const named = parseName(name)
    if (named === undefined || named.atOffset > lastOffset) continue
    const other = newest.get(named.marketId)
    if (other === undefined || other.atOffset < named.atOffset) newest.set(named.marketId, named)
  }
  return [...newest.values()].map(nameOf)
}

function copyInto(folder: string, path: string, name: string): void {
  mkdirSync(folder, { recursive: true })
  copyFileSync(path, join(folder, name), constants.COPYFILE_FICLONE)
}

function copyTables(source: Database.Database, path: string): void {
  const target = new Database(path)
  try {
    target.pragma(`page_size = ${Number(source.pragma('page_size', { simple: true }))}`)
    // This copy needs no journal: an interrupted copy is deleted and made again.
    target.pragma('journal_mode = OFF')
    target.pragma('synchronous = OFF')
    const tables = source
      .prepare("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY rowid")
      .all() as { name: string; sql: string }[]
    for (const { name, sql } of tables) {
      target.exec(sql)
      const rows = source.prepare(`SELECT * FROM ${name}`).raw()
      const insert = target.prepare(`INSERT INTO ${name} VALUES (${rows.columns().map(() => '?')})`)
      target.transaction(() => {
        for (const row of rows.iterate() as Iterable<unknown[]>) insert.run(row)
      })()
    }
  } finally {
    target.close()
  }
}

/** Opens the copy, and also reads the parts that opening does not check. */
function checkCopy(home: RowHome, paths: PartitionPaths): void {
  const file = openPartitionFile({
    ...{ home, paths, upcasters: UPCASTERS, form: WHOLE, runs: NO_FILTERS, acceptLoss: false },
  })
  try {
    for (const { marketId } of file.snapshots.all()) {
      for (const _ of file.snapshots.read(marketId)?.chunks ?? []);
    }
    file.closed.runs.check()
    // Leaves write-ahead mode, so that the copy is a single file until an exchange writes to it again.
    file.db.pragma('journal_mode = DELETE')
  } finally {
    file.closed.runs.close()
    file.db.close()
  }
}

/** Copies the archive's segments that end at or before the last offset of the copied log; returns how many. */
export function copyArchive(
  from: string,
  into: string,
  { logId, partitions }: ReturnType<typeof copyLog>,
): number {
  let copied = 0
  for (const { partition, lastOffset } of partitions) {
    const home = { logId, partition }
    for (const segment of segmentsIn(partitionArchive(from, home))) {
      if (segment.last > lastOffset) continue
      const folder = partitionArchive(into, home)
      const name = segment.path.slice(dirname(segment.path).length + 1)
      try {
        copyInto(folder, segment.path, name)
      } catch (error) {
        // Skip this segment. The exchange has just deleted it to keep the archive within its maximum size.
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') continue
        throw sqliteFault('LOG_COPY_FAILED', segment.path, error)
      }
      readSegmentMeta({ ...segment, path: join(folder, name) }, home)
      copied++
    }
  }
  return copied
}
