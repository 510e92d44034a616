/** Reads from the chain how often each trade settled, by the id of the trade on the chain. */

import { type Hex, parseAbiItem } from 'viem'
import type { ChainClient } from '#chain/clients.ts'
import type { Address } from '#domain/ids.ts'

const TRADE_SETTLED = parseAbiItem(
  'event TradeSettled(bytes32 indexed tradeId, address indexed buyer, address indexed seller, bytes32 marketId, bytes32 buyHash, bytes32 sellHash, uint8 outcome, uint64 price, uint64 size, uint256 cost)',
)

/** Number of blocks per query. An answer is limited to 10 MiB, and a block may have some hundred trades. */
const BLOCKS_PER_READ = 100n

export async function settledTimes(
  { viem }: ChainClient,
  settlement: Address,
  startBlock = 0,
): Promise<Map<string, number>> {
  const times = new Map<string, number>()
  const newest = await viem.getBlockNumber({ cacheTime: 0 })
  for (let from = BigInt(startBlock); from <= newest; from += BLOCKS_PER_READ) {
    const to = from + BLOCKS_PER_READ - 1n
    const logs = await viem.getLogs({
      address: settlement as string as Hex,
      event: TRADE_SETTLED,
      fromBlock: from,
      toBlock: to < newest ? to : newest,
    })
    for (const { args } of logs) {
      const key = args.tradeId as string
      times.set(key, (times.get(key) ?? 0) + 1)
    }
  }
  return times
}
