/**
 * A small thread beside the writer that uploads bases (stored copies of the files) of its partitions into the database.
 */

import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parentPort, workerData } from 'node:worker_threads'
import { copyPartition } from '../copy-log.ts'
import { partitionPaths } from '../log-folder.ts'
import type { BaseAnswer, BaseRequest, BaseThreadData } from './base-jobs.ts'
import { positionIn, uploadBase } from './mysql-base.ts'
import { LogRows } from './mysql-rows.ts'
import { MysqlServer } from './mysql-server.ts'

/** Maximum time for retries: longer than for appends, because no other work waits for a base. */
const PATIENCE = { totalMs: 60_000 }

const { dataDir, logId, address } = workerData as BaseThreadData
const server = new MysqlServer(address)

async function answerTo({ partition, epoch }: BaseRequest): Promise<BaseAnswer> {
  const draft = join(dataDir, `base.new-${partition}`)
  try {
    mkdirSync(join(draft, 'log'), { recursive: true })
    copyPartition({ logId, partition }, dataDir, draft)
    const paths = partitionPaths(draft, partition)
    const at = { ...positionIn(paths), epoch }
    await uploadBase(new LogRows(server, partition, PATIENCE), paths, at)
    return { partition, seq: at.seq }
  } catch (error) {
    // Do not throw, but report the failure: the rows of the log still exist, and the next upload of a base may succeed.
    return { partition, failed: error instanceof Error ? error.message : String(error) }
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

let last: Promise<unknown> = Promise.resolve()
parentPort?.on('message', (request: BaseRequest) => {
  last = last.then(async () => parentPort?.postMessage(await answerTo(request)))
})
