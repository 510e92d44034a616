/** Which transaction resolved a market, as the chain's own log tells it. */

import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import type { Address } from '#domain/ids.ts'
import { hexAddress } from './call.ts'
import { asked, type ChainClient } from './clients.ts'

export async function resolvedBy(
  client: ChainClient,
  market: Address,
  startBlock: number,
): Promise<string | undefined> {
  const found = await asked(
    client.viem.getContractEvents({
      address: hexAddress(market),
      abi: marketAbi,
      eventName: 'MarketResolved',
      fromBlock: BigInt(startBlock),
      toBlock: 'latest',
    }),
  )
  return found.at(-1)?.transactionHash
}
