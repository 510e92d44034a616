/**
 * Writes open markets to the log of a database that was filled directly. Each market gets an open order in the log, and
 * all its trades are already in the database. So an exchange that starts on this log and database treats the markets as
 * trading, not as ended.
 */

import { partitionOf } from '#config/topology.ts'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import { CATEGORIES, type Market } from '#domain/market.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import { SELL, YES } from '#domain/order.ts'
import { PACKED } from '#log/packed-event.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { type Database, sqlConnection } from '#store/engine/database.ts'
import { claimLog } from '#store/projection/checkpoints.ts'
import { TEST_PARTITIONS } from '../test/support/partitions.ts'

const SIZE = 1_000_000 as Shares
const EVENTS_PER_APPEND = 1_000

/** Returns the market with this number, with the names that `seedTrades` uses. */
function marketNumbered(number: number, chainId: number): Market {
  const address = (of: number) => `0x${of.toString(16).padStart(40, '0')}` as Address
  return {
    id: `0x${number.toString(16).padStart(64, '0')}` as MarketId,
    ...{ question: 'Will it?', description: '', chainId, quick: false },
    category: CATEGORIES[number % CATEGORIES.length]!,
    ...{ contractAddress: address(number), maker: address(1) },
    ...{ expiration: 2_000_000_000, createdAt: 1_700_000_000 + number },
  }
}

export async function openBusyMarkets(
  database: Database,
  dataDir: string,
  numbers: readonly number[],
): Promise<void> {
  const partitions = TEST_PARTITIONS
  const own = Array.from({ length: partitions }, (_, partition) => partition)
  const log = openSqliteLog<MarketEvent>({ form: PACKED, dataDir, partitions, own })
  const nowMs = Date.now()
  const batches = new Map<number, MarketEvent[]>(own.map((partition) => [partition, []]))
  for (const number of numbers) {
    const market = marketNumbered(number, 31_337)
    const head = { marketId: market.id, atMs: nowMs }
    const partition = partitionOf(market.id, { partitions, marketThreads: 1, pins: {} })
    const events = batches.get(partition)!
    events.push(
      { ...head, type: 'MarketOpened', seq: 1, market },
      {
        ...head,
        ...{ type: 'OrderRested', seq: 2, side: SELL, outcome: YES, price: 990_000 as Price },
        ...{ orderHash: market.id as string as OrderHash, trader: market.maker, size: SIZE },
        ...{ added: SIZE, remaining: SIZE, matches: 0 },
        ...{ expiresAtSec: 2_000_000_000, placedAtMs: nowMs },
      },
    )
    if (events.length < EVENTS_PER_APPEND) continue
    await log.append(partition, { events, nowMs })
    batches.set(partition, [])
  }
  for (const [partition, events] of batches) {
    if (events.length > 0) await log.append(partition, { events, nowMs })
  }
  await claimLog(database, { logId: log.id, partitions })
  for (const partition of own) {
    const at = log.lastOffset(partition)
    await sqlConnection(database).execute(
      'update checkpoints set log_offset = ? where log_partition = ?',
      [at, partition],
    )
  }
  await log.close()
}
