/**
 * Handles one batch of commands of a market thread: groups commands by market, looks up the known orders and trades in
 * the partitions, and appends the events.
 */

import assert from 'node:assert/strict'
import { type MarketId, type OrderHash, parseTradeId, type TradeId } from '#domain/ids.ts'
import { EXPIRATIONS_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { Appended, ClosedOrder, LogBatch, TradeState } from '#log/event-log.ts'
import type { PlacedOrder } from '#protocol/market.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { Message } from '#runtime/actor.ts'
import type { Recall } from '../state.ts'
import { planExpiry } from './due-markets.ts'
import type { Hosted, MarketThread } from './market-host.ts'

/** Returns the market of a command; undefined if the command is for the thread. */
export function marketIdOf(command: Message<MarketThreadProtocol>): MarketId | undefined {
  if (command.type === 'PlaceOrder') return command.message.order.marketId
  if (command.type === 'OpenMarket') return command.message.market.id
  return 'marketId' in command.message ? command.message.marketId : undefined
}

/** Minimum number of commands in a batch for which grouping them is worthwhile. */
const GROUPED_MIN = 32

/**
 * Groups commands by market and keeps their order within a market. The order between markets does not matter. After the
 * first command of a group, the market's book is in the CPU cache and several times as fast as in main memory.
 */
export function byMarket<Command extends Message<MarketThreadProtocol>>(
  batch: readonly Command[],
): readonly Command[] {
  if (batch.length < GROUPED_MIN) return batch
  const groups = new Map<MarketId | undefined, Command[]>()
  for (const command of batch) {
    const marketId = marketIdOf(command)
    const group = groups.get(marketId)
    if (group === undefined) groups.set(marketId, [command])
    else group.push(command)
  }
  return groups.size === 1 ? batch : [...groups.values()].flat()
}

/** Looks up the orders and trades of a batch in the partitions, once per batch. */
export function prepare(
  thread: MarketThread,
  batch: readonly Message<MarketThreadProtocol>[],
): void {
  const { log } = thread.options
  const { closed, trades } = thread.recall
  closed.clear()
  trades.clear()
  thread.crowded.clear()
  thread.expirationsLeft = EXPIRATIONS_MAX
  const hashes = new Map<number, OrderHash[]>()
  const tradeIds = new Map<number, TradeId[]>()
  for (const command of batch) {
    switch (command.type) {
      case 'PlaceOrder':
        gatherPlaced(thread, hashes, command.message)
        break
      case 'PlaceOrders':
        for (const placed of command.message.orders) gatherPlaced(thread, hashes, placed)
        break
      case 'CancelOrder':
      case 'RecallOrder':
        gather(thread, hashes, command.message.marketId, command.message.orderHash)
        break
      case 'CancelOrders': {
        const { marketId, trader, group } = command.message
        const state = thread.markets.get(marketId)?.state
        const filled = state?.pending.ordersOf(trader) ?? []
        const orderHashes =
          group === undefined ? command.message.orderHashes : state?.tagged.ordersOf(trader, group)
        const wanted = orderHashes === undefined ? undefined : new Set(orderHashes)
        for (const orderHash of filled) {
          if (wanted?.has(orderHash) !== false) gather(thread, hashes, marketId, orderHash)
        }
        break
      }
      case 'ReportTrade': {
        const { marketId, report } = command.message
        if (parseTradeId(report.tradeId)?.marketId !== marketId) break
        gather(thread, tradeIds, marketId, report.tradeId)
        gather(thread, hashes, marketId, report.buy.orderHash)
        gather(thread, hashes, marketId, report.sell.orderHash)
        break
      }
      default:
        break
    }
  }
  for (const [partition, wanted] of hashes) {
    if (log.closedOrderRoom(partition) <= 0) thread.crowded.add(partition)
    for (const found of log.closedOrders(partition, wanted)) {
      if (found !== undefined) closed.set(found.orderHash, found)
    }
  }
  for (const [partition, wanted] of tradeIds) {
    for (const found of log.tradeStatuses(partition, wanted)) {
      if (found !== undefined) trades.set(found.tradeId, found)
    }
  }
}

function gather<Id>(
  thread: MarketThread,
  into: Map<number, Id[]>,
  marketId: MarketId,
  id: Id,
): void {
  const partition = thread.markets.get(marketId)?.partition
  if (partition === undefined) return
  const ids = into.get(partition)
  if (ids === undefined) into.set(partition, [id])
  else ids.push(id)
}

function gatherPlaced(
  thread: MarketThread,
  into: Map<number, OrderHash[]>,
  { order, replaces }: PlacedOrder,
): void {
  gather(thread, into, order.marketId, order.orderHash)
  if (replaces !== undefined) gather(thread, into, order.marketId, replaces)
}

type PartitionBatch = {
  events: MarketEvent[]
  closed: Map<OrderHash, ClosedOrder>
  reopened: Set<OrderHash>
  trades: Map<TradeId, TradeState>
}

export type PartitionAppended = Appended & { readonly partition: number }

/** Makes the events of a batch durable with one append per partition. */
export function commit(
  thread: MarketThread,
  events: readonly MarketEvent[],
  nowMs: number,
): Promise<PartitionAppended[]> {
  const batches = new Map<number, PartitionBatch>()
  let hosted: Hosted | undefined
  for (const event of events) {
    // Finds the market again only when the id changes: events of one market are consecutive and share one id string.
    if (hosted?.state.market.id !== event.marketId) {
      if (hosted !== undefined) planExpiry(thread.expiring, hosted)
      hosted = thread.markets.get(event.marketId)
    }
    assert(
      hosted !== undefined,
      `market ${event.marketId} has an event, but this thread does not have the market`,
    )
    let batch = batches.get(hosted.partition)
    if (batch === undefined) {
      batch = { events: [], closed: new Map(), reopened: new Set(), trades: new Map() }
      batches.set(hosted.partition, batch)
    }
    batch.events.push(event)
    remember(thread.recall, batch, event)
    thread.options.cancelQuota?.note(event, nowMs)
    hosted.eventsSinceSnapshot++
    if (hosted.eventsSinceSnapshot >= thread.options.snapshotEvery) thread.due.add(event.marketId)
  }
  if (hosted !== undefined) planExpiry(thread.expiring, hosted)
  thread.committing = true
  const appends = [...batches].map(([partition, batch]) => {
    const append: LogBatch<MarketEvent> = {
      events: batch.events,
      nowMs,
      wantsRows: true,
      closed: [...batch.closed.values()],
      reopened: [...batch.reopened],
      trades: [...batch.trades.values()],
    }
    return thread.options.log.append(partition, append)
  })
  const partitions = [...batches.keys()]
  // Waits for all appends, because they fail independently.
  return Promise.allSettled(appends).then((outcomes) => {
    thread.committing = false
    return outcomes.map((outcome, at) => {
      if (outcome.status === 'rejected') throw outcome.reason
      return { ...outcome.value, partition: partitions[at]! }
    })
  })
}

/**
 * Adds ended orders and statuses of trades to the partition’s batch, because they are stored separately from
 * the events. All commands of the batch are handled, so the state of each order and trade is final.
 */
function remember(recall: Recall, batch: PartitionBatch, event: MarketEvent): void {
  switch (event.type) {
    case 'OrderClosed': {
      const closed = recall.closed.get(event.orderHash)
      if (closed !== undefined) batch.closed.set(event.orderHash, closed)
      break
    }
    case 'OrderRested':
      if (event.returned && !recall.closed.has(event.orderHash)) {
        batch.reopened.add(event.orderHash)
      }
      break
    case 'TradeSubmitted':
    case 'TradeConfirmed':
    case 'TradeFailed':
    case 'TradeReverted': {
      const trade = recall.trades.get(event.tradeId)
      assert(trade !== undefined, `the market does not have the reported trade ${event.tradeId}`)
      batch.trades.set(event.tradeId, trade)
      break
    }
    default:
      break
  }
}
