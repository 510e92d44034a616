/**
 * The folder of the log: `log/` in the data folder. It has `log.json`, and for each partition a database, a mark (the
 * last durable offset) and a lock. After the first open, each partition also has a folder for snapshots. The folder is
 * created whole or not at all, and its number of partitions never changes. Each partition has one writer at a time on
 * the machine.
 */

import { randomUUID } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { Fault } from '#domain/fault.ts'
import { createMark } from './partition/durable-mark.ts'
import type { RowHome } from './partition/record.ts'
import { createTables, FILE_FORMAT } from './partition/schema.ts'

/**
 * Maximum number of partitions. More partitions would not make one machine faster, because each partition is a file
 * with its own commits.
 */
const PARTITIONS_MAX = 256

/**
 * Page size of the files. With SQLite's default of 4096, a large batch would need more system calls, and a small one
 * would not be faster.
 */
const PAGE_BYTES = 8_192

type LogIdentity = {
  readonly format: number
  readonly id: string
  readonly partitions: number
}

export type PartitionPaths = {
  readonly database: string
  readonly wal: string
  readonly mark: string
  /** For a log in a database server: file that describes the last row that the server acknowledged. */
  readonly acked: string
  readonly lock: string
  /** Folder with one file per snapshot. */
  readonly snapshots: string
  /** Folder with one file per run of closed orders. */
  readonly runs: string
}

export function partitionPaths(dataDir: string, partition: number): PartitionPaths {
  return pathsIn(join(dataDir, 'log'), partition)
}

function pathsIn(folder: string, partition: number): PartitionPaths {
  const base = join(folder, `partition-${partition}`)
  return {
    database: `${base}.db`,
    wal: `${base}.db-wal`,
    mark: `${base}.mark`,
    acked: `${base}.acked`,
    lock: `${base}.lock`,
    snapshots: `${base}.snapshots`,
    runs: `${base}.closed`,
  }
}

/** Creates the log if the data folder has none. Throws if an existing log has another number of partitions. */
export function createLog(
  dataDir: string,
  partitions: number,
  options: { pageBytes?: number; id?: string; renews?: boolean } = {},
): LogIdentity {
  if (!Number.isInteger(partitions) || partitions < 1 || partitions > PARTITIONS_MAX) {
    throw refused('LOG_PARTITIONS_DIFFER', `a log must have 1 to ${PARTITIONS_MAX} partitions`)
  }
  const folder = join(dataDir, 'log')
  if (!existsSync(folder)) {
    const { id = randomUUID(), pageBytes = PAGE_BYTES } = options
    createFolder(dataDir, folder, { id, partitions, pageBytes })
  }
  if (options.renews === true) renewMissing(dataDir)
  const identity = readIdentity(dataDir)
  if (identity.partitions !== partitions) {
    throw refused(
      'LOG_PARTITIONS_DIFFER',
      `${folder} was created with ${identity.partitions} partitions and cannot be opened with ` +
        `${partitions}: markets would read their history from the wrong file`,
    )
  }
  return identity
}

export function readIdentity(dataDir: string): LogIdentity {
  const folder = join(dataDir, 'log')
  const path = join(folder, 'log.json')
  let identity: LogIdentity
  try {
    identity = JSON.parse(readFileSync(path, 'utf8')) as LogIdentity
  } catch (error) {
    throw refused('LOG_FOLDER_DAMAGED', `${path} is missing or cannot be read`, error)
  }
  const { format, id, partitions } = identity
  if (format !== FILE_FORMAT) {
    throw refused(
      'LOG_FORMAT_UNKNOWN',
      `${path} has format ${format}, and this version of the exchange reads ${FILE_FORMAT} only: start the ` +
        `${format > FILE_FORMAT ? 'newer' : 'older'} version that wrote it, or restore a backup that this version can read`,
    )
  }
  if (typeof id !== 'string' || !Number.isInteger(partitions)) {
    throw refused(
      'LOG_FOLDER_DAMAGED',
      `${path} does not describe a log: its id or number of partitions is missing`,
    )
  }
  for (let partition = 0; partition < partitions; partition++) {
    const { database, mark } = pathsIn(folder, partition)
    for (const file of [database, mark]) {
      if (!existsSync(file)) {
        throw refused(
          'LOG_PARTITION_MISSING',
          `${file} is missing, so the log is incomplete: restore the log from a backup`,
        )
      }
    }
  }
  return identity
}

/**
 * Creates missing partitions as empty ones. Call this only if the folder is a copy of a log in a database
 * server.
 */
function renewMissing(dataDir: string): void {
  const path = join(dataDir, 'log', 'log.json')
  const { id, partitions } = JSON.parse(readFileSync(path, 'utf8')) as LogIdentity
  for (let partition = 0; partition < partitions; partition++) {
    const paths = partitionPaths(dataDir, partition)
    if (existsSync(paths.database) && existsSync(paths.mark)) continue
    renewPartition(paths, { logId: id, partition })
  }
}

/** Creates the folder under a temporary name, and renames it when it is complete. */
function createFolder(
  dataDir: string,
  folder: string,
  { id, partitions, pageBytes }: { id: string; partitions: number; pageBytes: number },
): void {
  const draft = join(dataDir, `log.new-${randomUUID()}`)
  mkdirSync(draft, { recursive: true })
  try {
    for (let partition = 0; partition < partitions; partition++) {
      createPartition(pathsIn(draft, partition), { logId: id, partition }, pageBytes)
    }
    const identity: LogIdentity = { format: FILE_FORMAT, id, partitions }
    writeFileSync(join(draft, 'log.json'), `${JSON.stringify(identity)}\n`, { flush: true })
    syncFolder(draft)
    renameSync(draft, folder)
    syncFolder(dataDir)
  } catch (error) {
    rmSync(draft, { recursive: true, force: true })
    // Use the folder if another thread has created it first.
    if (!existsSync(join(folder, 'log.json'))) {
      throw new Fault('LOG_CREATE_FAILED', `cannot create ${folder}`, {
        retryable: true,
        cause: error,
      })
    }
  }
}

function createPartition(paths: PartitionPaths, home: RowHome, pageBytes: number): void {
  const db = new Database(paths.database)
  db.pragma(`page_size = ${pageBytes}`)
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  createTables(db, home.logId, home.partition)
  db.close()
  createMark(paths.mark)
}

/** Deletes the files of a partition. Call this only if the folder is a copy of a log in a database server. */
export function removePartition(paths: PartitionPaths): void {
  for (const file of [paths.database, paths.wal, `${paths.database}-shm`, paths.mark]) {
    rmSync(file, { force: true })
  }
  for (const folder of [paths.snapshots, paths.runs]) {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Replaces a partition by an empty one. Call this only if the folder is a copy of a log in a database server. */
export function renewPartition(paths: PartitionPaths, home: RowHome): void {
  removePartition(paths)
  createPartition(paths, home, PAGE_BYTES)
}

export function syncFolder(path: string): void {
  const file = openSync(path, 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

export type Lock = { release(): void }

/**
 * Locks a file through SQLite. The operating system releases the lock when the process dies. The lock also works
 * between threads of one process.
 */
export function lockPartition(paths: PartitionPaths): Lock {
  const db = new Database(paths.lock, { timeout: 0 })
  try {
    db.exec('BEGIN EXCLUSIVE')
  } catch (error) {
    db.close()
    throw new Fault(
      'LOG_LOCKED',
      `${paths.database} is open for writing in another process or thread`,
      {
        retryable: true,
        cause: error,
      },
    )
  }
  return { release: () => db.close() }
}

function refused(code: string, message: string, cause?: unknown): Fault {
  return new Fault(code, message, { retryable: false, cause })
}
