/**
 * Runs one or several threads that use chains or price providers. Several of them can share a worker, because each
 * waits most of the time.
 */

import { runThreads } from '#runtime/thread.ts'
import { indexerThread as indexer } from '#services/indexer/thread.ts'
import { pricesThread as prices } from '#services/prices/thread.ts'
import { relayerThread as relayer } from '#services/relayer/thread.ts'
import { resolutionThread as resolution } from '#services/resolution/thread.ts'
import { settlementThread as settlement } from '#services/settlement/thread.ts'

runThreads({ indexer, prices, relayer, resolution, settlement })
