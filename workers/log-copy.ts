/** Runs the log-copy thread of a node. */

import { runThreads } from '#runtime/thread.ts'
import { logCopyThread } from '#services/node/log-copy-thread.ts'

runThreads({ 'log-copy': logCopyThread })
