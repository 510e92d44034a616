/** Runs the store thread. */

import { runThreads } from '#runtime/thread.ts'
import { storeThread } from '#threads/store.ts'

runThreads({ store: storeThread })
