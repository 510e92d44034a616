/** A thread that retries requests to an unreachable chain for a very long time, until it is stopped. */

import assert from 'node:assert/strict'
import { parentPort, workerData } from 'node:worker_threads'
import { makeChainClient } from '#chain/clients.ts'

const port = parentPort
assert(port !== null)
const { viem } = makeChainClient({
  chainId: 1,
  rpcUrls: [workerData as string],
  budgetMs: 3_600_000,
  pauseMs: 3_600_000,
  onError: () => port.postMessage('failed'),
})
port.once('message', () => port.close())
void viem.getBlockNumber()
