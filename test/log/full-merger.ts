/**
 * Makes a run (a sorted file of closed orders). Prints the error of this work and the number of files that it left
 * open. The parent process limits the size of files.
 */

import { readdirSync, writeSync } from 'node:fs'
import { type MergeJob, mergeClosed } from '#log/closed/closed-merge.ts'

const [job] = process.argv.slice(2)
if (job === undefined) throw new Error('a job is needed')
const openFiles = () => readdirSync('/proc/self/fd').length

const before = openFiles()
let failed = ''
try {
  mergeClosed(JSON.parse(job) as MergeJob)
} catch (error) {
  failed = (error as NodeJS.ErrnoException).code ?? String(error)
}
writeSync(1, JSON.stringify({ failed, leftOpen: openFiles() - before }))
process.exit()
