/**
 * Defines the tables of the log in a database server that speaks MySQL's protocol, and the statements on its rows. One
 * row is one batch, or a fence that marks a takeover. The statement that inserts a row names the row before it and the
 * owner's epoch. If that row is not the last row, or if another node has taken over the partition, the statement
 * inserts nothing.
 *
 *   log        part, seq (row number), epoch (owner number), first_offset, events, crc (over all rows so far), body
 *   log_homes  the log's random id and its number of partitions, in a single row
 *   log_bases  the list of files of each base: a copy of a partition's files as of a row (`mysql-base.ts`)
 *   log_files  the bytes of these files, in pieces
 */

import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { Fault } from '#domain/fault.ts'
import { chainedCrc, newFence } from './log-body.ts'
import { type MysqlServer, meaningOf } from './mysql-server.ts'

const TABLES = [
  `CREATE TABLE IF NOT EXISTS log_homes (
    name VARCHAR(16) NOT NULL PRIMARY KEY, id CHAR(36) NOT NULL, format INT NOT NULL, parts INT NOT NULL
  ) ENGINE=InnoDB DEFAULT CHARSET=ascii`,
  `CREATE TABLE IF NOT EXISTS log (
    part INT NOT NULL, seq BIGINT NOT NULL, epoch BIGINT NOT NULL, first_offset BIGINT NOT NULL,
    events INT NOT NULL, crc INT UNSIGNED NOT NULL, body LONGBLOB NOT NULL, PRIMARY KEY (part, seq)
  ) ENGINE=InnoDB`,
  `CREATE TABLE IF NOT EXISTS log_bases (
    part INT NOT NULL, seq BIGINT NOT NULL, crc INT UNSIGNED NOT NULL, files LONGTEXT NOT NULL,
    PRIMARY KEY (part, seq)
  ) ENGINE=InnoDB DEFAULT CHARSET=ascii`,
  `CREATE TABLE IF NOT EXISTS log_files (
    part INT NOT NULL, file VARCHAR(160) NOT NULL, piece INT NOT NULL, body LONGBLOB NOT NULL,
    PRIMARY KEY (part, file, piece)
  ) ENGINE=InnoDB DEFAULT CHARSET=ascii`,
] as const

const FORMAT = 1
const COLUMNS = 'seq, epoch, first_offset, events, crc, body'
const APPEND = `INSERT INTO log (part, seq, epoch, first_offset, events, crc, body)
  SELECT part, seq + 1, epoch, first_offset + events, ?, ?, ? FROM log
  WHERE part = ? AND seq = ? AND epoch = ?`
const FENCE = `INSERT INTO log (part, seq, epoch, first_offset, events, crc, body)
  SELECT part, seq + 1, epoch + 1, first_offset + events, 0, ?, ? FROM log
  WHERE part = ? AND seq = ? AND epoch = ?`

/**
 * SQL condition that is true only while the given epoch is the partition's newest. It also locks the end of the log
 * until the statement has ended, so no takeover can happen during the statement.
 */
const IS_NEWEST = `? = (SELECT epoch FROM (
  SELECT epoch FROM log WHERE part = ? ORDER BY seq DESC LIMIT 1) AS newest)`

/** Maximum number of rows per read; each row may have some megabytes. */
const ROWS_READ = 64
/** Maximum number of rows that one delete statement removes. It is small, because appends wait for the statement. */
const ROWS_DELETED = 100
/** Maximum attempts of a takeover: an attempt fails if the live owner appends during the attempt. */
const FENCE_TRIES_MAX = 50
const BACKOFF_MS = 5
const BACKOFF_MS_MAX = 500

export type Row = {
  readonly seq: number
  readonly epoch: number
  readonly first_offset: number
  readonly events: number
  readonly crc: number
  readonly body: Buffer
}

/** The last row that a partition's owner knows; the owner's next row follows it. */
export type Place = { readonly seq: number; readonly epoch: number; readonly crc: number }

type LogHome = { readonly id: string; readonly partitions: number }

/**
 * Limit on the retries of a statement. The statement is retried until its outcome is known, or until `totalMs` have
 * passed.
 */
type Patience = { readonly totalMs: number; readonly retried?: (error: unknown) => void }

/**
 * Smallest accepted value of the server's setting `max_allowed_packet`. The largest batch is far smaller, and the
 * pieces of a base have 1 MiB.
 */
const PACKET_BYTES_MIN = 16 * 1024 * 1024

/** Reads a server's settings, and describes those with which the server may lose acknowledged rows. */
export async function doubtsAbout(server: MysqlServer): Promise<string[]> {
  const found = await server.rows<{ Variable_name: string; Value: string }>(
    "SHOW VARIABLES WHERE Variable_name IN ('max_allowed_packet', 'innodb_flush_log_at_trx_commit', " +
      "'sync_binlog', 'log_bin', 'wsrep_on', 'wsrep_provider_options')",
  )
  return doubtsOf(server.name, new Map(found.map((row) => [row.Variable_name, row.Value])))
}

/**
 * Describes the settings with which a server may lose acknowledged rows. Throws if the log cannot work at all with the
 * settings.
 */
export function doubtsOf(name: string, value: ReadonlyMap<string, string>): string[] {
  const packet = Number(value.get('max_allowed_packet') ?? PACKET_BYTES_MIN)
  if (packet < PACKET_BYTES_MIN) {
    throw refused(
      'LOG_SERVER_UNFIT',
      `${name} accepts packets of at most ${packet} bytes: set max_allowed_packet to 16M or more`,
    )
  }
  const doubts: string[] = []
  if ((value.get('innodb_flush_log_at_trx_commit') ?? '1') !== '1') {
    doubts.push(
      'innodb_flush_log_at_trx_commit is not 1: a power cut can lose acknowledged commands',
    )
  }
  if (value.get('log_bin') === 'ON' && value.get('sync_binlog') === '0') {
    doubts.push('sync_binlog is 0: a replica that takes over may lack acknowledged commands')
  }
  const options = value.get('wsrep_provider_options') ?? ''
  if (value.get('wsrep_on') === 'ON' && /pc\.recovery = (yes|true|1)\b/i.test(options)) {
    doubts.push(
      'pc.recovery is on: after all nodes died, a node that lacks acknowledged commands may lead the cluster',
    )
  }
  return doubts
}

export async function makeTables(server: MysqlServer): Promise<void> {
  for (const table of TABLES) await server.change(table)
}

/** Stores the log's id and number of partitions, unless the database already has a log. */
export async function nameHome(server: MysqlServer, { id, partitions }: LogHome): Promise<void> {
  await server.change(
    "INSERT IGNORE INTO log_homes (name, id, format, parts) VALUES ('log', ?, ?, ?)",
    [id, FORMAT, partitions],
  )
}

/** Inserts the first row of a partition whose history is in a base. Throws if the database already has a log. */
export async function beginAdopted(
  rows: LogRows,
  { seq, crc, nextOffset }: { seq: number; crc: number; nextOffset: number },
): Promise<void> {
  const begun = await rows.change(
    'INSERT INTO log (part, seq, epoch, first_offset, events, crc, body) ' +
      "SELECT ?, ?, 0, ?, 0, ?, '' FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM log WHERE part = ?) " +
      'AND NOT EXISTS (SELECT 1 FROM log_homes)',
    [rows.part, seq, nextOffset, crc, rows.part],
  )
  if (begun === 1) return
  throw refused(
    'LOG_NOT_EMPTY',
    `the database at ${rows.server.name} already has a log, or a part of one: empty the database first`,
  )
}

/** Creates the tables and the first row of each partition if missing. */
export async function prepareTables(server: MysqlServer, partitions: number): Promise<LogHome> {
  await makeTables(server)
  const [left] = await server.rows<{ homes: number; rows_left: number }>(
    'SELECT (SELECT COUNT(*) FROM log_homes) AS homes, EXISTS (SELECT 1 FROM log) AS rows_left',
  )
  if (left?.homes === 0 && Number(left.rows_left) !== 0) {
    throw refused(
      'LOG_HALF_MADE',
      `a restore into the log at ${server.name} was interrupted: empty the database and begin again`,
    )
  }
  await nameHome(server, { id: randomUUID(), partitions })
  const [home] = await server.rows<{ id: string; format: number; parts: number }>(
    "SELECT id, format, parts FROM log_homes WHERE name = 'log'",
  )
  if (home === undefined || home.format !== FORMAT) {
    throw refused(
      'LOG_FORMAT_UNKNOWN',
      `the log at ${server.name} has format ${home?.format}, but this program reads only format ${FORMAT}`,
    )
  }
  if (home.parts !== partitions) {
    throw refused(
      'LOG_PARTITIONS_DIFFER',
      `the log at ${server.name} has ${home.parts} partitions and cannot be opened with ${partitions}`,
    )
  }
  for (let part = 0; part < partitions; part++) {
    await server.change(
      'INSERT IGNORE INTO log (part, seq, epoch, first_offset, events, crc, body) ' +
        "SELECT ?, 0, 0, 1, 0, 0, '' FROM log_homes WHERE NOT EXISTS (SELECT 1 FROM log WHERE part = ?)",
      [part, part],
    )
  }
  return { id: home.id, partitions }
}

/**
 * Returns the partitions to which an owner with a higher epoch has written. Rows that the current owner appends
 * meanwhile do not count, because their epoch is not higher.
 */
export async function partsTakenOver(
  server: MysqlServer,
  places: readonly (Place & { readonly part: number })[],
  timeoutMs: number,
): Promise<number[]> {
  if (places.length === 0) return []
  const where = places.map(() => '(part = ? AND seq > ? AND epoch > ?)').join(' OR ')
  const values = places.flatMap(({ part, seq, epoch }) => [part, seq, epoch])
  const found = await untilKnown(
    server,
    { totalMs: timeoutMs, what: 'the owners of the log' },
    () =>
      server.rows<{ part: number }>(
        `SELECT DISTINCT part FROM log WHERE ${where}`,
        values,
        timeoutMs,
      ),
    'LOG_READ_FAILED',
  )
  return found.map(({ part }) => part)
}

export class LogRows {
  readonly part: number
  readonly #server: MysqlServer
  readonly #patience: Patience

  constructor(server: MysqlServer, part: number, patience: Patience) {
    this.part = part
    this.#server = server
    this.#patience = patience
  }

  get server(): MysqlServer {
    return this.#server
  }

  async last(): Promise<Row> {
    const [row] = await this.#ask<Row>(
      `SELECT ${COLUMNS} FROM log WHERE part = ? ORDER BY seq DESC LIMIT 1`,
      [this.part],
    )
    if (row === undefined) throw lost(this.part, this.#server.name, 'the log has no row at all')
    return row
  }

  /** Returns the number (`seq`) of the oldest remaining row. */
  async firstSeq(): Promise<number> {
    const [row] = await this.#ask<{ seq: number | null }>(
      'SELECT MIN(seq) AS seq FROM log WHERE part = ?',
      [this.part],
    )
    return Number(row?.seq ?? 0)
  }

  async at(seq: number): Promise<Row | undefined> {
    const [row] = await this.#ask<Row>(`SELECT ${COLUMNS} FROM log WHERE part = ? AND seq = ?`, [
      this.part,
      seq,
    ])
    return row
  }

  /** Returns up to `ROWS_READ` rows after row `seq`, in order; none at the end of the log. */
  async after(seq: number): Promise<Row[]> {
    return this.#ask<Row>(
      `SELECT ${COLUMNS} FROM log WHERE part = ? AND seq > ? ORDER BY seq LIMIT ${ROWS_READ}`,
      [this.part, seq],
    )
  }

  async append(place: Place, events: number, body: Buffer): Promise<'landed' | 'fenced'> {
    const crc = chainedCrc(place.crc, body)
    const values = [events, crc, body, this.part, place.seq, place.epoch]
    return this.#until(async () => {
      const changed = await this.#server.change(APPEND, values).catch(asNoRow)
      return changed === 1 ? 'landed' : this.#whose(place, body)
    }, 'LOG_APPEND_FAILED')
  }

  /** Takes over the partition as its new owner. After that, no row of the previous owner can be inserted. */
  async takeOver(): Promise<Place> {
    for (let tries = 1; tries <= FENCE_TRIES_MAX; tries++) {
      const before = await this.last()
      const body = newFence()
      const crc = chainedCrc(before.crc, body)
      const values = [crc, body, this.part, before.seq, before.epoch]
      const taken = await this.#until(async () => {
        await this.#server.change(FENCE, values).catch(asNoRow)
        const last = await this.last()
        return last.body.equals(body) ? last : undefined
      }, 'LOG_TAKE_OVER_FAILED')
      if (taken !== undefined) return { seq: taken.seq, epoch: taken.epoch, crc }
    }
    throw outrun(this.part)
  }

  /**
   * Takes the partition again for its owner, with the next epoch. After that, no late row of the previous epoch can be
   * inserted. Returns undefined if another owner has taken over the partition.
   *
   * `fence` is the row that marks the takeover. The caller passes the same `fence` until a call succeeds. An earlier
   * call may have inserted the fence and failed. In that case, the next call finds the fence as the last row and
   * succeeds.
   */
  async retake(epoch: number, fence: Buffer): Promise<Place | undefined> {
    for (let tries = 1; tries <= FENCE_TRIES_MAX; tries++) {
      const last = await this.last()
      if (last.body.equals(fence)) return { seq: last.seq, epoch: last.epoch, crc: last.crc }
      if (last.epoch !== epoch) return undefined
      const values = [chainedCrc(last.crc, fence), fence, this.part, last.seq, epoch]
      await this.#until(
        () => this.#server.change(FENCE, values).catch(asNoRow),
        'LOG_TAKE_OVER_FAILED',
      )
    }
    throw outrun(this.part)
  }

  /** Runs a statement, and repeats it until its outcome is known. The statement must be safe to repeat. */
  async change(sql: string, values: readonly unknown[]): Promise<number> {
    return this.#until(() => this.#server.change(sql, values), 'LOG_WRITE_FAILED')
  }

  /**
   * Runs a statement that changes rows only while the given epoch is the partition's newest. `sql` must end with
   * `WHERE` or `AND`, because the condition on the epoch is appended to it.
   */
  async changeAs(epoch: number, sql: string, values: readonly unknown[]): Promise<number> {
    return this.change(`${sql} ${IS_NEWEST}`, [...values, epoch, this.part])
  }

  /** Deletes rows of the table named in `where`, in steps, as long as `epoch` is the partition's newest. */
  async deleteAs(epoch: number, where: string, values: readonly unknown[]): Promise<void> {
    const sql = `DELETE FROM ${where} AND ${IS_NEWEST} LIMIT ${ROWS_DELETED}`
    const all = [...values, epoch, this.part]
    while ((await this.change(sql, all)) === ROWS_DELETED);
  }

  async rows<Found>(sql: string, values: readonly unknown[]): Promise<Found[]> {
    return this.#ask<Found>(sql, values)
  }

  /**
   * Finds out why an append inserted no row. Returns `landed` if an earlier attempt has already inserted the row after
   * `place`, and `fenced` if another owner has written a row since. Throws if the database has lost the row at `place`.
   */
  async #whose(place: Place, body: Buffer): Promise<'landed' | 'fenced'> {
    const seq = place.seq + 1
    const there = await this.at(seq)
    if (there !== undefined) {
      return there.epoch === place.epoch && there.body.equals(body) ? 'landed' : 'fenced'
    }
    const last = await this.last()
    if (last.epoch > place.epoch) return 'fenced'
    throw lost(
      this.part,
      this.#server.name,
      `the log ends with row ${last.seq} of owner ${last.epoch}, but row ${place.seq} of owner ` +
        `${place.epoch} was acknowledged`,
    )
  }

  #ask<Found>(sql: string, values: readonly unknown[]): Promise<Found[]> {
    return this.#until(() => this.#server.rows<Found>(sql, values), 'LOG_READ_FAILED')
  }

  #until<Result>(work: () => Promise<Result>, code: string): Promise<Result> {
    const patience = { ...this.#patience, what: `partition ${this.part}` }
    return untilKnown(this.#server, patience, work, code)
  }
}

/**
 * Repeats a statement until its outcome is known, or throws after `totalMs`. If a server fails, the next
 * attempt uses the next server of the list.
 */
export async function untilKnown<Result>(
  server: MysqlServer,
  { totalMs, retried, what }: Patience & { readonly what: string },
  work: () => Promise<Result>,
  code: string,
): Promise<Result> {
  const endMs = performance.now() + totalMs
  for (let waitMs = BACKOFF_MS; ; waitMs = Math.min(BACKOFF_MS_MAX, waitMs * 2)) {
    try {
      return await work()
    } catch (error) {
      if (error instanceof Fault) throw error
      const meaning = meaningOf(error)
      const why = error instanceof Error ? error.message : String(error)
      const message = `${server.name}, ${what}: ${why}`
      if (meaning === 'refused') throw new Fault(code, message, { retryable: true, cause: error })
      retried?.(error)
      if (performance.now() + waitMs > endMs) {
        throw new Fault(code, message, { retryable: true, cause: error })
      }
      if (meaning !== 'again') server.moveOn()
      await pause(waitMs)
    }
  }
}

function outrun(part: number): Fault {
  return new Fault(
    'LOG_TAKE_OVER_FAILED',
    `partition ${part} could not be taken over, because its owner kept writing`,
    { retryable: true },
  )
}

/**
 * Returns 0 inserted rows if the error is a duplicate key, so that the caller reads the existing row. Throws other
 * errors.
 */
function asNoRow(error: unknown): number {
  if (meaningOf(error) === 'taken') return 0
  throw error
}

export function lost(part: number, server: string, why: string): Fault {
  return refused(
    'LOG_LOST',
    `the log of partition ${part} at ${server} has lost acknowledged commands: ${why}. Do not continue ` +
      'with this database: bring back the server that has the missing commands, or restore the database from a backup',
  )
}

export function refused(code: string, message: string): Fault {
  return new Fault(code, message, { retryable: false })
}
