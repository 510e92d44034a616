/** Metrics of a log in a database server: duration and failures of appends. */

import { Counter, Histogram } from 'prom-client'
import type { MysqlLogWatch } from '#log/server/mysql-log.ts'
import type { ThreadContext } from '#services/kit/kit.ts'

export function mysqlLogWatch({ registry, log }: ThreadContext): MysqlLogWatch {
  const registers = [registry]
  const seconds = new Histogram({
    ...{ name: 'sibyl_log_append_seconds', registers },
    help: 'Time until the database has acknowledged a row of the log',
    buckets: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2, 10],
  })
  const events = new Histogram({
    ...{ name: 'sibyl_log_append_events', registers },
    help: 'Events of a row of the log',
    buckets: [1, 10, 50, 100, 500, 1_000, 5_000],
  })
  const bytes = new Counter({
    ...{ name: 'sibyl_log_append_bytes_total', registers },
    help: 'Bytes of the rows of the log',
  })
  const retries = new Counter({
    ...{ name: 'sibyl_log_retries_total', registers },
    help: 'Statements on the log that were sent again, here or at another server',
  })
  const fences = new Counter({
    ...{ name: 'sibyl_log_fences_lost_total', registers },
    help: 'Partitions that another exchange has taken over',
  })
  const bases = new Counter({
    ...{ name: 'sibyl_log_bases_total', registers },
    help: 'Attempts to store a base (copy of a log partition) in the database, by outcome',
    labelNames: ['outcome'],
  })
  return {
    appended(tookMs, size, count) {
      seconds.observe(tookMs / 1_000)
      events.observe(count)
      bytes.inc(size)
    },
    retried(partition, error) {
      retries.inc()
      log.warn({ partition, err: error }, 'an SQL statement of the event log failed; it is retried')
    },
    fenced(partition) {
      fences.inc()
      log.error(
        { partition },
        'another exchange has taken over this partition; the partition stays closed on this node',
      )
    },
    doubted(server, doubts) {
      for (const doubt of doubts)
        log.warn({ server }, `the settings of the server are not safe for the log: ${doubt}`)
    },
    based(partition, failed) {
      bases.inc({ outcome: failed === undefined ? 'made' : 'failed' })
      if (failed !== undefined)
        log.warn(
          { partition, why: failed },
          'a base (stored copy) of a log partition could not be made',
        )
    },
  }
}
