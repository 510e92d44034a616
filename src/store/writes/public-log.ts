/**
 * Storage of the public log. The leaves, tiles, size and root of a partition's tree are written in one transaction,
 * under the writer's lease. A checkpoint is stored only for a stored tree, so that no checkpoint is published before
 * its size and root are durable.
 */

import type { AbstractSqlConnection } from '@mikro-orm/mysql'
import type { SqliteConnection } from '@mikro-orm/sqlite'
import { Fault } from '#domain/fault.ts'
import type { MarketId, OrderHash } from '#domain/ids.ts'
import { type Database, transact } from '../engine/database.ts'
import { bytesOf } from '../engine/hex.ts'
import { rowsOf } from '../engine/prepared.ts'
import { type Statements, statements } from '../engine/statements.ts'

export type PublicLeaf = {
  /** Offset in the event log of the leaf's first event. */
  readonly first: number
  /** Time of the newest event up to this leaf. */
  readonly throughMs: number
  readonly entry: Uint8Array
}

export type PublicTile = {
  readonly level: number
  readonly index: number
  readonly hashes: Uint8Array
}

export type TreeGrowth = {
  readonly partition: number
  readonly logId: string
  /** Offset in the event log of the public log's first event. */
  readonly beginsAt: number
  readonly from: { readonly size: number }
  readonly to: { readonly size: number; readonly root: Uint8Array; readonly nextOffset: number }
  readonly leaves: readonly PublicLeaf[]
  readonly tiles: readonly PublicTile[]
}

export type PublishedCheckpoint = {
  readonly partition: number
  readonly size: number
  readonly root: Uint8Array
  readonly checkpoint: string
}

/**
 * Adds leaves to trees. If a stored tree already has the new leaves, it is not changed, so the call can be repeated. If
 * a stored tree matches neither its state before (`from`) nor after (`to`), another writer has changed it. Then the
 * call throws and writes nothing.
 */
export async function growTrees(
  database: Database,
  { trees }: { readonly trees: readonly TreeGrowth[] },
): Promise<boolean> {
  return transact(database, async (transaction, connection) => {
    const store = statements(database, connection, transaction)
    const insert = await blobInserter(store, connection)
    for (const tree of trees) await growTree(store, tree, insert)
    return true
  })
}

/** A function that inserts or replaces rows with one long column. */
type InsertBlobs = (sql: string, rows: readonly (number | Buffer)[][]) => Promise<void>

/**
 * Maximum number of bytes in one statement. Written as hexadecimal text, they take twice the space. This is still far
 * below the smallest default packet limit of a database server.
 */
const STATEMENT_BYTES = 1024 * 1024

/**
 * Returns a function that inserts rows with bytes. On SQLite, it binds the bytes without the ORM, because the ORM would
 * write them into the statement's text, which is slow.
 */
async function blobInserter(
  store: Statements,
  connection: AbstractSqlConnection,
): Promise<InsertBlobs> {
  if (store.isMysql) {
    return async (sql, rows) => {
      for (const part of partsOf(rows)) {
        const marks = part.map((row) => `(${row.map(() => '?').join(', ')})`)
        await store.run(`${sql} values ${marks.join(', ')}`, part.flat())
      }
    }
  }
  const file = await (connection as unknown as SqliteConnection).getNativeClient()
  return async (sql, rows) => {
    const marks = rows[0]?.map(() => '?').join(', ')
    if (marks === undefined) return
    const statement = file.prepare<(number | Buffer)[]>(`${sql} values (${marks})`)
    for (const row of rows) statement.run(...row)
  }
}

function partsOf(rows: readonly (number | Buffer)[][]): (number | Buffer)[][][] {
  const parts: (number | Buffer)[][][] = []
  let bytes = STATEMENT_BYTES
  for (const row of rows) {
    const length = row.reduce<number>(
      (sum, value) => sum + (Buffer.isBuffer(value) ? value.length : 8),
      0,
    )
    if (bytes + length > STATEMENT_BYTES) {
      parts.push([])
      bytes = 0
    }
    parts.at(-1)?.push(row)
    bytes += length
  }
  return parts
}

async function growTree(store: Statements, growth: TreeGrowth, insert: InsertBlobs): Promise<void> {
  const { partition, logId, beginsAt, from, to, leaves, tiles } = growth
  const known = await treeIn(store, partition)
  if (known?.size === to.size && Buffer.from(to.root).equals(known.root)) return
  if ((known?.size ?? 0) !== from.size || (known !== undefined && known.logId !== logId)) {
    throw new Fault(
      'PUBLIC_LOG_CONFLICT',
      `the public log of partition ${partition} in the database must have ${from.size} entries ` +
        `of this event log, but has ${known?.size ?? 0} entries or belongs to another event log`,
      { retryable: false },
    )
  }
  await insert(
    'insert into public_entries (log_partition, leaf, first_offset, through_ms, entry)',
    leaves.map(({ first, throughMs, entry }, at) => [
      ...[partition, from.size + at, first, throughMs],
      bufferOf(entry),
    ]),
  )
  await insert(
    'replace into public_tiles (log_partition, tile_level, tile_index, hashes)',
    tiles.map(({ level, index, hashes }) => [partition, level, index, bufferOf(hashes)]),
  )
  const state = [to.nextOffset, to.size, Buffer.from(to.root)]
  if (known !== undefined) {
    await store.run(
      'update public_trees set next_offset = ?, size = ?, root = ? where log_partition = ?',
      [...state, partition],
    )
    return
  }
  // Delete cosigned checkpoints that belong to another log. They remain if an operator removed only the tree of that
  // log. They must not be shown for the new log.
  await store.run('delete from public_cosigned where log_partition = ? and checkpoint not like ?', [
    partition,
    `%/${logId}/p${partition}\n%`,
  ])
  await store.run(
    `insert into public_trees (next_offset, size, root, log_partition, log_id, begins_at, published_size, checkpoint)
      values (?, ?, ?, ?, ?, ?, 0, '')`,
    [...state, partition, logId, beginsAt],
  )
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength)
}

async function treeIn(
  store: Statements,
  partition: number,
): Promise<{ logId: string; size: number; root: Buffer } | undefined> {
  const [row] = await store.all<{ log_id: string; size: number | string; root: Buffer }>(
    'select log_id, size, root from public_trees where log_partition = ?',
    [partition],
  )
  return row && { logId: row.log_id, size: Number(row.size), root: row.root }
}

/**
 * Publishes signed checkpoints. Skips a checkpoint if it does not match the stored tree, or if a newer one is
 * published.
 */
export async function publishCheckpoints(
  database: Database,
  { checkpoints }: { readonly checkpoints: readonly PublishedCheckpoint[] },
): Promise<boolean> {
  return transact(database, async (transaction, connection) => {
    const store = statements(database, connection, transaction)
    for (const { partition, size, root, checkpoint } of checkpoints) {
      await store.run(
        `update public_trees set published_size = ?, checkpoint = ?
          where log_partition = ? and size = ? and root = ? and published_size <= ?`,
        [size, checkpoint, partition, size, Buffer.from(root), size],
      )
    }
    return true
  })
}

/** A published checkpoint, and the signature lines of its witnesses. */
export type CosignedCheckpoint = {
  readonly partition: number
  readonly size: number
  readonly checkpoint: string
  readonly lines: string
}

/**
 * Stores checkpoints with the signature lines of witnesses. A larger checkpoint replaces the stored one, and a smaller
 * one is ignored. For the same size, the new lines are added to the stored lines.
 */
export async function storeCosigned(
  database: Database,
  { checkpoints }: { readonly checkpoints: readonly CosignedCheckpoint[] },
): Promise<boolean> {
  return transact(database, async (transaction, connection) => {
    const { all, run } = statements(database, connection, transaction)
    for (const { partition, size, checkpoint, lines } of checkpoints) {
      const [known] = await all<{ size: number | string; checkpoint: string }>(
        'select size, checkpoint from public_cosigned where log_partition = ?',
        [partition],
      )
      if (known !== undefined && Number(known.size) > size) continue
      const others =
        Number(known?.size) === size ? otherLines(known!.checkpoint, checkpoint + lines) : ''
      await run('replace into public_cosigned (log_partition, size, checkpoint) values (?, ?, ?)', [
        ...[partition, size, checkpoint + others + lines],
      ])
    }
    return true
  })
}

/** Returns the signature lines of `note`, except lines of signers who have also signed `other`. */
function otherLines(note: string, other: string): string {
  const nameOf = (line: string) => line.split(' ')[1] ?? ''
  const signed = (text: string) => text.split('\n').filter((line) => line.startsWith('— '))
  const names = new Set(signed(other).map(nameOf))
  return signed(note)
    .filter((line) => !names.has(nameOf(line)))
    .map((line) => `${line}\n`)
    .join('')
}

export type PublicTree = {
  readonly partition: number
  readonly logId: string
  readonly beginsAt: number
  readonly nextOffset: number
  readonly size: number
  readonly root: Uint8Array
  readonly publishedSize: number
  /** The signed checkpoint; empty before the first one. */
  readonly checkpoint: string
  /** The newest checkpoint that a witness has cosigned; it may be older than the published checkpoint. */
  readonly cosigned?: { readonly size: number; readonly checkpoint: string }
}

type TreeRow = Record<
  'log_partition' | 'begins_at' | 'next_offset' | 'size' | 'published_size',
  number | string
> & {
  readonly log_id: string
  readonly root: Buffer
  readonly checkpoint: string
  readonly cosigned_size: number | string | null
  readonly cosigned: string | null
}

const TREE_COLUMNS =
  't.log_partition, t.log_id, t.begins_at, t.next_offset, t.size, t.root, t.published_size, t.checkpoint, ' +
  'c.size as cosigned_size, c.checkpoint as cosigned'
/**
 * Ignores a cosigned checkpoint that is larger than the published tree. Such a checkpoint is older than a rebuild that
 * made the tree smaller.
 */
const COSIGNED_JOIN =
  'left join public_cosigned c on c.log_partition = t.log_partition and c.size <= t.published_size'

/** Returns the trees of all partitions, or only the tree of `partition`. */
export async function publicTrees(
  database: Database,
  { partition }: { readonly partition?: number },
): Promise<PublicTree[]> {
  const where = partition === undefined ? '' : ' where t.log_partition = ?'
  const rows = await rowsOf<TreeRow>(
    database,
    `select ${TREE_COLUMNS} from public_trees t ${COSIGNED_JOIN}${where} order by t.log_partition`,
    partition === undefined ? [] : [partition],
  )
  return rows.map((row) => ({
    partition: Number(row.log_partition),
    logId: row.log_id,
    beginsAt: Number(row.begins_at),
    nextOffset: Number(row.next_offset),
    size: Number(row.size),
    root: row.root,
    publishedSize: Number(row.published_size),
    checkpoint: row.checkpoint,
    ...(row.cosigned === null
      ? {}
      : { cosigned: { size: Number(row.cosigned_size), checkpoint: row.cosigned } }),
  }))
}

/** Returns the stored tiles at these positions. */
export async function publicTiles(
  database: Database,
  {
    partition,
    places,
  }: {
    readonly partition: number
    readonly places: readonly { readonly level: number; readonly index: number }[]
  },
): Promise<PublicTile[]> {
  const tiles: PublicTile[] = []
  for (const { level, index } of places) {
    const [row] = await rowsOf<{ hashes: Buffer }>(
      database,
      'select hashes from public_tiles where log_partition = ? and tile_level = ? and tile_index = ?',
      [partition, level, index],
    )
    if (row !== undefined) tiles.push({ level, index, hashes: row.hashes })
  }
  return tiles
}

/** Returns the entries from a leaf on. */
export async function publicEntries(
  database: Database,
  {
    partition,
    from,
    count,
  }: { readonly partition: number; readonly from: number; readonly count: number },
): Promise<Uint8Array[]> {
  const rows = await rowsOf<{ entry: Buffer }>(
    database,
    'select entry from public_entries where log_partition = ? and leaf >= ? and leaf < ? order by leaf',
    [partition, from, from + count],
  )
  return rows.map(({ entry }) => entry)
}

/**
 * Returns the time of the newest event in the first `size` leaves of a log; 0 if the log does not have these
 * leaves.
 */
export async function publicThroughMs(
  database: Database,
  { partition, size }: { readonly partition: number; readonly size: number },
): Promise<number> {
  const [row] = await rowsOf<{ through_ms: number | string }>(
    database,
    'select through_ms from public_entries where log_partition = ? and leaf = ?',
    [partition, size - 1],
  )
  return Number(row?.through_ms ?? 0)
}

/** Partition and time of an event. */
type EventPlace = { readonly partition: number; readonly atMs: number }

/**
 * Returns the partition of an order and the time of its placement. The search for the order's first event in the log
 * starts there. Returns undefined if the database does not have the order.
 */
export async function orderPlace(
  database: Database,
  { orderHash }: { readonly orderHash: OrderHash },
): Promise<EventPlace | undefined> {
  const [row] = await rowsOf<{ log_partition: number; placed_at_ms: number | string }>(
    database,
    'select log_partition, placed_at_ms from orders where order_hash = ?',
    [bytesOf(orderHash)],
  )
  return row && { partition: Number(row.log_partition), atMs: Number(row.placed_at_ms) }
}

/**
 * Returns the partition and the time of a trade. The search in the log for the match that made the trade starts there.
 * Returns undefined if the database does not have the trade.
 */
export async function tradePlace(
  database: Database,
  {
    marketId,
    seq,
    fill,
  }: { readonly marketId: MarketId; readonly seq: number; readonly fill: number },
): Promise<EventPlace | undefined> {
  const [row] = await rowsOf<{ log_partition: number; matched_at_ms: number | string }>(
    database,
    `select m.log_partition, t.matched_at_ms from trades t join markets m on m.market_id = t.market_id
      where t.market_id = ? and t.seq = ? and t.fill_index = ?`,
    [bytesOf(marketId), seq, fill],
  )
  return row && { partition: Number(row.log_partition), atMs: Number(row.matched_at_ms) }
}

/** Returns the first leaf with events at this time or later; undefined if there is none. */
export async function publicLeafAt(
  database: Database,
  { partition, atMs }: { readonly partition: number; readonly atMs: number },
): Promise<number | undefined> {
  const [row] = await rowsOf<{ leaf: number | string }>(
    database,
    `select leaf from public_entries where log_partition = ? and through_ms >= ?
      order by through_ms, leaf limit 1`,
    [partition, atMs],
  )
  return row === undefined ? undefined : Number(row.leaf)
}
