/** Runs a market thread. */

import { runThreads } from '#runtime/thread.ts'
import { marketThread } from '#threads/market.ts'

runThreads({ market: marketThread })
