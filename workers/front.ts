/** Runs a front thread. */

import { runThreads } from '#runtime/thread.ts'
import { frontThread } from '#services/front/thread.ts'

runThreads({ front: frontThread })
