/**
 * Uploads the log of a data folder into a database that has no log, as the base (the stored files) of each partition. A
 * restored log, or a log that was kept in files until now, can then continue in the database server.
 */

import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { copyPartition } from '../copy-log.ts'
import { partitionPaths, readIdentity } from '../log-folder.ts'
import { openSqliteLog } from '../partition/sqlite-log.ts'
import { POSITION, positionText, uploadBase } from './mysql-base.ts'
import { beginAdopted, LogRows, makeTables, nameHome, refused } from './mysql-rows.ts'
import { MysqlServer, parseMysqlAddress } from './mysql-server.ts'

const PATIENCE = { totalMs: 60_000 }

/** Creates the tables of a log if missing. Returns true if the database does not contain any part of a log. */
export async function hasNoLog(url: string): Promise<boolean> {
  const server = serverOf(url)
  try {
    await makeTables(server)
    return (await server.rows('SELECT part FROM log LIMIT 1')).length === 0
  } finally {
    await server.close()
  }
}

function serverOf(url: string): MysqlServer {
  const address = parseMysqlAddress(url)
  if (address !== undefined) return new MysqlServer(address)
  throw refused('LOG_URL_INVALID', 'SIBYL_LOG_URL: must be the URL of a database, mysql://…')
}

export async function adoptLog(dataDir: string, url: string): Promise<void> {
  const { id: logId, partitions } = readIdentity(dataDir)
  const server = serverOf(url)
  const draft = join(dataDir, 'base.new')
  try {
    await makeTables(server)
    for (let partition = 0; partition < partitions; partition++) {
      const own = { dataDir, partitions, own: [partition], checkpointThread: false }
      const log = openSqliteLog(own)
      const { lastOffset, lastMs } = log.state(partition)
      // Row 1 marks the end of the base: it stores the offset after the last event of the base. An empty partition has
      // row 0 instead.
      const place = { seq: 1, crc: crc32(`${logId} ${partition} ${lastOffset}`) }
      const meta = { [POSITION]: positionText(place) }
      await log.append(partition, { events: [], nowMs: lastMs, meta })
      await log.close()
      const rows = new LogRows(server, partition, PATIENCE)
      await beginAdopted(rows, { ...place, nextOffset: lastOffset + 1 })
      mkdirSync(join(draft, 'log'), { recursive: true })
      copyPartition({ logId, partition }, dataDir, draft)
      await uploadBase(rows, partitionPaths(draft, partition), { ...place, epoch: 0 })
    }
    // The log exists only after this statement; an interrupted upload does not count as a log.
    await nameHome(server, { id: logId, partitions })
  } finally {
    await server.close()
    rmSync(draft, { recursive: true, force: true })
  }
}
