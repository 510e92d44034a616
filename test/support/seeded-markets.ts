/**
 * Markets that are in an exchange's log before it starts: on other chains than the demo markets, expired, resolved, or
 * chosen by the test.
 */

import { demoMarkets } from '#config/demo-markets.ts'
import { partitionOf } from '#config/topology.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { CloseReason, Market } from '#domain/market.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { openSqliteLog } from '#log/partition/sqlite-log.ts'
import { TEST_PARTITIONS } from './partitions.ts'

export type SeededMarket = { readonly market: Market; readonly closed?: CloseReason }

const DAY_SEC = 86_400

export function marketNumbered(number: number, fields: Partial<Market> = {}): Market {
  const nowSec = Math.floor(Date.now() / 1_000)
  const digits = number.toString(16).padStart(2, '0')
  return {
    id: `0x${digits.repeat(32)}` as MarketId,
    question: `Will market ${number} be remembered?`,
    description: 'YES if it is.',
    category: 'protocol',
    contractAddress: `0x${digits.repeat(20)}` as Address,
    maker: `0x${'ee'.repeat(20)}` as Address,
    expiration: nowSec + DAY_SEC,
    chainId: 31_337,
    createdAt: nowSec - DAY_SEC,
    quick: false,
    ...fields,
  }
}

/** Writes the markets into a log that no exchange has opened yet. */
export async function seedMarkets(dataDir: string, seeded: readonly SeededMarket[]): Promise<void> {
  const partitions = TEST_PARTITIONS
  const own = Array.from({ length: partitions }, (_, partition) => partition)
  const log = openSqliteLog<MarketEvent>({ dataDir, partitions, own })
  const atMs = Date.now()
  for (const { market, closed } of seeded) {
    const head = { marketId: market.id, atMs }
    const events: MarketEvent[] = [{ ...head, type: 'MarketOpened', seq: 1, market }]
    if (closed !== undefined) {
      events.push({ ...head, type: 'MarketClosed', seq: 2, reason: closed })
    }
    const partition = partitionOf(market.id, { partitions, marketThreads: 1, pins: {} })
    await log.append(partition, { events, nowMs: atMs })
  }
  await log.close()
}

/** Returns the ids of the devnet's demo markets, which never change. */
export function demoMarketIds(): MarketId[] {
  return demoMarkets(31_337, `0x${'0'.repeat(40)}` as Address, 0).map(({ id }) => id)
}
