/** Runs the bridge thread of a node. */

import { runThreads } from '#runtime/thread.ts'
import { bridgeThread } from '#services/node/thread.ts'

runThreads({ bridge: bridgeThread })
