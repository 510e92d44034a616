/** Runs a market thread. */

import { runThreads } from '#runtime/thread.ts'
import { marketThread } from '#services/market/thread.ts'

runThreads({ market: marketThread })
