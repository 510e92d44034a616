/** Runs the admin thread of a node without a front. */

import { runThreads } from '#runtime/thread.ts'
import { adminThread } from '#threads/admin.ts'

runThreads({ admin: adminThread })
