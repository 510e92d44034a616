/** A small thread beside the writer that puts bases of its partitions into the database. */

import { parentPort, workerData } from 'node:worker_threads'
import type { BaseAnswer, BaseRequest, BaseThreadData } from './base-jobs.ts'
import { draftPaths, partitionPaths } from './log-folder.ts'
import { checkStaged, dropStaged, stageBase, uploadBase } from './mysql-base.ts'
import { LogRows } from './mysql-rows.ts'
import { MysqlServer } from './mysql-server.ts'

/** Nothing waits for a base. */
const PATIENCE = { totalMs: 60_000 }

const { dataDir, logId, address } = workerData as BaseThreadData
const server = new MysqlServer(address)

async function answerTo({ partition }: BaseRequest): Promise<BaseAnswer> {
  const home = { logId, partition }
  const draft = draftPaths(dataDir, partition)
  try {
    const at = stageBase(partitionPaths(dataDir, partition), draft)
    checkStaged(home, draft)
    await uploadBase(new LogRows(server, partition, PATIENCE), draft, at)
    return { partition, seq: at.seq }
  } catch (error) {
    // Nothing is lost: the rows are all there, and the next one may succeed.
    return { partition, failed: error instanceof Error ? error.message : String(error) }
  } finally {
    dropStaged(draft)
  }
}

let last: Promise<unknown> = Promise.resolve()
parentPort?.on('message', (request: BaseRequest) => {
  last = last.then(async () => parentPort?.postMessage(await answerTo(request)))
})
