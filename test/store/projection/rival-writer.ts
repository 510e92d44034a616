/** A second writer on its own thread: projects the batches that it receives and returns the results. */

import { once } from 'node:events'
import { parentPort, workerData } from 'node:worker_threads'
import { closeDatabase } from '#store/engine/database.ts'
import { openDatabase } from '#store/open-database.ts'
import { project } from '#store/projection/project.ts'
import type { ProjectionBatch } from '#store/projection/rows.ts'

const database = await openDatabase((workerData as { url: string }).url)
const asked = once(parentPort!, 'message')
parentPort!.postMessage('ready')
const answers: string[] = []
for (const batch of (await asked)[0] as ProjectionBatch[]) {
  answers.push((await project(database, batch)).written)
}
await closeDatabase(database)
parentPort!.postMessage(answers)
