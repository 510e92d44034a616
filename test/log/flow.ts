/** Makes batches of log events from a seed. Returns a log's content as text, so that tests can compare logs. */

import type { Address, MarketId, OrderHash, TradeId } from '#domain/ids.ts'
import { tradeId } from '#domain/ids.ts'
import { ORDER_CLOSE_REASONS } from '#domain/market-event.ts'
import type { Price, Shares } from '#domain/money.ts'
import { TRADE_STATUSES } from '#domain/trade.ts'
import type { ClosedOrder, EventLog, LogBatch, LogEvent, TradeState } from '#log/event-log.ts'
import { type Random, randomFrom } from '../support/random.ts'

export type Noted = LogEvent & { readonly type: 'Noted'; readonly note: string }

export type Flow = {
  readonly batches: readonly LogBatch<Noted>[]
  readonly hashes: readonly OrderHash[]
  readonly tradeIds: readonly TradeId[]
  readonly markets: readonly MarketId[]
}

export function marketNamed(random: Random): MarketId {
  return random.hex(32) as MarketId
}

export function closedOrder(
  random: Random,
  marketId: MarketId,
  forgetAfterSec = 2_000,
): ClosedOrder {
  return {
    orderHash: random.hex(32) as OrderHash,
    marketId,
    trader: random.hex(20) as Address,
    side: random.chance(0.5) ? 0 : 1,
    outcome: random.chance(0.5) ? 0 : 1,
    price: random.int(1, 999_999) as Price,
    size: random.int(1, Number.MAX_SAFE_INTEGER) as Shares,
    reason: random.pick(ORDER_CLOSE_REASONS),
    matches: random.int(0, 10_000),
    placedAtMs: 1_790_000_000_000 + random.int(0, 1_000_000),
    expiresAtSec: random.chance(0.1) ? Number.MAX_SAFE_INTEGER : forgetAfterSec + 60,
    forgetAfterSec,
  }
}

/** Returns a function that makes notes of a market: `note(3)` is the third. */
export function notes(marketId: MarketId, text = 'note'): (seq: number) => Noted {
  return (seq) => ({ type: 'Noted', marketId, seq, note: `${text} ${seq}: ¿sí? 有 \n "so"` })
}

/** Makes batches of events with closed orders, trade statuses and metadata. The last batch has only one event. */
export function flowOf(seed: number, count: number): Flow {
  const random = randomFrom(seed)
  const markets = [marketNamed(random), marketNamed(random)]
  const seqs = new Map(markets.map((market) => [market, 0]))
  const hashes: OrderHash[] = []
  const tradeIds: TradeId[] = []
  const batches: LogBatch<Noted>[] = []
  for (let number = 1; number <= count; number++) {
    const small = number === count
    const closed: ClosedOrder[] = []
    const trades: TradeState[] = []
    const events = Array.from({ length: small ? 1 : random.int(1, 6) }, () => {
      const marketId = random.pick(markets)
      const seq = (seqs.get(marketId) ?? 0) + 1
      seqs.set(marketId, seq)
      if (!small) closed.push(closedOrder(random, marketId))
      if (!small && random.chance(0.5)) {
        trades.push({
          tradeId: tradeId(marketId, seq, 0),
          status: random.pick(TRADE_STATUSES),
          txHash: random.hex(32),
          atMs: 1_790_000_000_000 + number,
        })
      }
      return notes(marketId)(seq)
    })
    hashes.push(...closed.map((order) => order.orderHash))
    tradeIds.push(...trades.map((trade) => trade.tradeId))
    batches.push({
      events,
      nowMs: 1_790_000_000_000 + number,
      closed,
      trades,
      meta: { number: `${number}` },
    })
  }
  return { batches, hashes, tradeIds, markets }
}

/** Returns everything that the partition answers, except the log's random id. */
export function contentOf(log: EventLog<Noted>, partition: number, flow: Flow): string {
  const { firstOffset } = log.state(partition)
  return JSON.stringify({
    state: log.state(partition),
    records: log.read(partition, firstOffset, 100_000),
    closed: log.closedOrders(partition, flow.hashes),
    trades: log.tradeStatuses(partition, flow.tradeIds),
    floor: log.truncationFloor(partition),
    snapshots: flow.markets.map((market) => {
      const snapshot = log.readSnapshot(partition, market)
      if (snapshot === undefined) return null
      const chunks = Array.from(snapshot.chunks, (chunk) => chunk.toString('hex'))
      return { meta: snapshot.meta, chunks }
    }),
  })
}
