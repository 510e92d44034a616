/** Runs a front thread. */

import { runThreads } from '#runtime/thread.ts'
import { frontThread } from '#threads/front.ts'

runThreads({ front: frontThread })
