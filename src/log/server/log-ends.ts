/**
 * Reads the last offsets of a log in a database server. Threads that read a local copy compare these offsets
 * with the last offsets of the copy. The comparison shows whether the copy contains all events that the log
 * had when its offsets were read.
 */

import { asFault } from './mysql-copy.ts'
import { refused } from './mysql-rows.ts'
import { LOG_URL_SHAPE, MysqlServer, meaningOf, parseMysqlAddress } from './mysql-server.ts'

export type LogEnds = {
  /** Returns the last offset of each partition, read from the server after the call began. */
  read(): Promise<ReadonlyMap<number, number>>
  close(): Promise<void>
}

const ENDS = `SELECT log.part AS part, first_offset + events - 1 AS last FROM log
  JOIN (SELECT part, MAX(seq) AS seq FROM log GROUP BY part) AS newest
  ON newest.part = log.part AND newest.seq = log.seq`

export function openLogEnds(url: string): LogEnds {
  const address = parseMysqlAddress(url)
  if (address === undefined) {
    throw refused('LOG_URL_INVALID', LOG_URL_SHAPE)
  }
  const server = new MysqlServer(address)
  return {
    async read() {
      try {
        const rows = await server.rows<{ part: number; last: number }>(ENDS)
        return new Map(rows.map(({ part, last }) => [part, Number(last)]))
      } catch (error) {
        if (meaningOf(error) !== 'again') server.moveOn()
        throw asFault(error)
      }
    },
    close: () => server.close(),
  }
}
