/** Searches the chain's log for the transaction that resolved a market. */

import { hexAddress } from '#chain/call.ts'
import { asked, type ChainClient } from '#chain/clients.ts'
import { makeLogSearch } from '#chain/log-search.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import type { Address } from '#domain/ids.ts'

/** Returns the transaction that resolved a market; undefined if the node returns no log of the resolution. */
export async function resolvedBy(
  client: ChainClient,
  market: Address,
  startBlock: number,
): Promise<string | undefined> {
  const { viem } = client
  const head = Number(await asked(viem.getBlockNumber()))
  let txHash: string | undefined
  const ask = async (fromBlock: number, toBlock: number): Promise<boolean> => {
    const found = await asked(
      viem.getContractEvents({
        address: hexAddress(market),
        abi: marketAbi,
        eventName: 'MarketResolved',
        fromBlock: BigInt(fromBlock),
        toBlock: BigInt(toBlock),
      }),
    )
    txHash = found.at(-1)?.transactionHash
    return txHash !== undefined
  }
  await makeLogSearch()({ head, startBlock, ask })
  return txHash
}
