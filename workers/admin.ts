/** Runs the admin thread of a node without a front. */

import { runThreads } from '#runtime/thread.ts'
import { adminThread } from '#services/node/admin-thread.ts'

runThreads({ admin: adminThread })
