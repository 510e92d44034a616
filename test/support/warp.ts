/** Moves the time of a devnet's chain. The exchange follows the time of the chain. */

import assert from 'node:assert/strict'
import type { Client } from '#client/client.ts'
import { httpBatch } from '#devnet/batch-sender.ts'
import { eventually } from './eventually.ts'

/** Moves the time forward by this many seconds; resolves when the exchange's time has followed. */
export async function warp(client: Client, seconds: number): Promise<void> {
  const { chains, serverTime } = await client.config({ fresh: true })
  const rpcUrl = chains[0]?.rpcUrl
  assert.ok(rpcUrl !== undefined)
  await httpBatch(rpcUrl)([
    { method: 'evm_increaseTime', params: [seconds] },
    { method: 'evm_mine', params: [] },
  ])
  await eventually(async () => {
    const now = (await client.config({ fresh: true })).serverTime
    assert.ok(now >= serverTime + seconds, 'the exchange follows')
  })
}
