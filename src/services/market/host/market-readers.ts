/**
 * Sends events to the fronts that follow a market thread. A front marks a partition as idle if none of the
 * front's clients uses a market of the partition. For an idle partition, the front receives only events that
 * open and close markets; for any other partition, it receives every event. For a new front, no partition is
 * idle.
 */

import type { MarketId } from '#domain/ids.ts'
import { isMarketFact, type MarketEvent } from '#domain/market-event.ts'
import type { MarketView } from '#protocol/market.ts'
import type { DozeProtocol, MarketFollowerProtocol } from '#protocol/market-followers.ts'
import type { Channel } from '#runtime/channel.ts'
import type { PartitionAppended } from './market-batch.ts'

type Reader = Pick<Channel<MarketFollowerProtocol>, 'tell'>

/** Result of a commit: rows appended per partition, and all events. */
type Committed = {
  readonly appended: readonly Pick<PartitionAppended, 'partition' | 'rows'>[]
  readonly said: readonly MarketEvent[]
}

/** Approximate sizes in bytes within a message: of an id, of a log row without its event, and of a price level. */
const ID_BYTES = 128
const ROW_BYTES = 64
const LEVEL_BYTES = 24
const MARKET_BYTES = 1_024

type DozeHandlers = {
  readonly [K in keyof DozeProtocol]: (
    message: DozeProtocol[K]['takes'],
  ) => DozeProtocol[K]['answers']
}

const RECEIVED = { received: true } as const

export class MarketReaders<R extends Reader = Reader> {
  /** Idle partitions of each reader. */
  readonly #readers = new Map<R, Set<number>>()
  readonly #partitionOf: (marketId: MarketId) => number
  readonly #owned: readonly number[]

  constructor(owned: readonly number[], partitionOf: (marketId: MarketId) => number) {
    this.#owned = owned
    this.#partitionOf = partitionOf
  }

  add(reader: R): void {
    this.#readers.set(reader, new Set())
  }

  delete(reader: R): void {
    this.#readers.delete(reader)
  }

  [Symbol.iterator](): Iterator<R> {
    return this.#readers.keys()
  }

  /** Returns the handlers of a reader’s messages about the partitions that the reader follows. */
  handlersOf(reader: R): DozeHandlers {
    return {
      Doze: ({ partitions }) => {
        const dozing = this.#readers.get(reader)
        for (const each of partitions) if (this.#owned.includes(each)) dozing?.add(each)
        return RECEIVED
      },
      Wake: ({ partitions }) => {
        const dozing = this.#readers.get(reader)
        for (const each of partitions) dozing?.delete(each)
        return RECEIVED
      },
    }
  }

  committed({ appended, said }: Committed): void {
    const all = appended.flatMap(({ rows }) => rows)
    const bytes = bytesOf(all)
    for (const [reader, dozing] of this.#readers) {
      if (dozing.size === 0) {
        reader.tell('MarketEvents', { rows: all }, bytes)
        continue
      }
      const rows = appended.flatMap((each) => (dozing.has(each.partition) ? [] : each.rows))
      if (rows.length > 0) reader.tell('MarketEvents', { rows }, bytesOf(rows))
      if (appended.some(({ partition }) => dozing.has(partition))) {
        this.#tellFacts(reader, dozing, said)
      }
    }
  }

  reloaded(views: readonly MarketView[]): void {
    const bytes = bytesOfViews(views)
    for (const reader of this) reader.tell('MarketsReloaded', { views }, bytes)
  }

  gone(marketIds: readonly MarketId[]): void {
    if (marketIds.length === 0) return
    const bytes = ID_BYTES * marketIds.length
    for (const reader of this) reader.tell('MarketsGone', { marketIds }, bytes)
  }

  #tellFacts(reader: R, dozing: ReadonlySet<number>, said: readonly MarketEvent[]): void {
    const events = said
      .filter(isMarketFact)
      .filter(({ marketId }) => dozing.has(this.#partitionOf(marketId)))
    if (events.length > 0) reader.tell('MarketFacts', { events }, MARKET_BYTES * events.length)
  }
}

function bytesOf(rows: readonly Uint8Array[]): number {
  let bytes = ROW_BYTES * rows.length
  for (const row of rows) bytes += row.byteLength
  return bytes
}

function bytesOfViews(views: readonly MarketView[]): number {
  let levels = 0
  for (const { bids, asks } of views) for (const side of [...bids, ...asks]) levels += side.length
  return LEVEL_BYTES * levels + MARKET_BYTES * views.length
}
