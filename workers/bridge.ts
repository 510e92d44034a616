/** Runs the bridge thread of a node. */

import { runThreads } from '#runtime/thread.ts'
import { bridgeThread } from '#threads/bridge.ts'

runThreads({ bridge: bridgeThread })
