/** Runs the store thread. */

import { runThreads } from '#runtime/thread.ts'
import { storeThread } from '#services/projector/thread.ts'

runThreads({ store: storeThread })
