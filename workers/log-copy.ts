/** Runs the log-copy thread of a node. */

import { runThreads } from '#runtime/thread.ts'
import { logCopyThread } from '#threads/log-copy.ts'

runThreads({ 'log-copy': logCopyThread })
