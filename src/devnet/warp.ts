/** Moves the clock of the local chain, and waits until the exchange's clock shows the new time. */

import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '#client/client.ts'
import { DEVNET_CHAIN_ID } from './accounts.ts'
import { httpBatch } from './batch-sender.ts'
import { CommandError } from './command.ts'

/** Timeout, in milliseconds, for the exchange's clock to show the new time. */
const FOLLOW_MS = 10_000
const POLL_MS = 20

/** Moves the chain's clock by the given seconds; returns the chain's new time in Unix seconds. */
export async function warpDevnet(client: Client, bySec: number): Promise<number> {
  const { chains } = await client.config()
  const { rpcUrl } = chains.find(({ chainId }) => chainId === DEVNET_CHAIN_ID) ?? {}
  if (rpcUrl === undefined) {
    throw new CommandError(
      'this exchange has no local chain; npm start starts an exchange with a local chain',
    )
  }
  const { serverTime: before } = await client.config({ fresh: true })
  const [, , block] = await httpBatch(rpcUrl)([
    { method: 'evm_increaseTime', params: [bySec] },
    { method: 'evm_mine', params: [] },
    { method: 'eth_getBlockByNumber', params: ['latest', false] },
  ]).catch((error: unknown) => {
    throw new CommandError(`the chain at ${rpcUrl} does not answer: ${String(error)}`)
  })
  const giveUpMs = Date.now() + FOLLOW_MS
  for (;;) {
    const { serverTime } = await client.config({ fresh: true })
    if (serverTime >= before + bySec) break
    if (Date.now() > giveUpMs) {
      throw new CommandError(
        "the chain's time was advanced, but the exchange still reports an earlier time",
      )
    }
    await sleep(POLL_MS)
  }
  return Number((block as { timestamp: string }).timestamp)
}
