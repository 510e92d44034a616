/**
 * Uploads the bases of the writer's partitions into the database. A base is a stored copy of a partition's files. The
 * uploads run in a small thread beside the writer.
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

/** Maximum time for retries of one statement. It is longer than for appends, because no other work waits for a base. */
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
    // Report the failure instead of throwing it. The log still has all rows, and the next upload of a base may succeed.
    return { partition, failed: error instanceof Error ? error.message : String(error) }
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}

let last: Promise<unknown> = Promise.resolve()
parentPort?.on('message', (request: BaseRequest) => {
  last = last.then(async () => parentPort?.postMessage(await answerTo(request)))
})
