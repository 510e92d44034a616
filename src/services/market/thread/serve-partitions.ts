/**
 * Serves partitions of a market thread. Each batch of commands is one append to the log, and its events are published
 * once they are durable.
 */

import { COMMIT_COMMANDS_MAX, COMMIT_EVENTS_MAX } from '#domain/limits.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { reject } from '#domain/rejection.ts'
import type { EventLog } from '#log/event-log.ts'
import { type DiskRoom, isDiskFull } from '#log/partition/disk-room.ts'
import type { MarketThreadProtocol } from '#protocol/market-host.ts'
import type { Message } from '#runtime/actor.ts'
import type { Clock } from '#runtime/clock.ts'
import { type Served, serve } from '#runtime/serve.ts'
import type { ThreadContext } from '#services/kit/kit.ts'
import {
  byMarket,
  commit,
  marketIdOf,
  type PartitionAppended,
  prepare,
} from '../host/market-batch.ts'
import { type MarketThread, marketThread as marketBehaviour } from '../host/market-host.ts'
import type { marketMeters } from '../metrics.ts'
import { type Commands, FULL } from './commands.ts'
import type { Links } from './links.ts'
import { partitionsTaken } from './market-log.ts'
import type { OrderTraces } from './trade-traces.ts'

/**
 * Commands whose answers cover every market of the thread. They are refused while a partition is unavailable, because
 * the answers would be incomplete.
 */
const OF_ALL_MARKETS = new Set([
  ...['OpenOrdersPage', 'MarketsOf', 'CountOrders', 'PendingMarkets', 'Confirm'],
])

const AWAY = {
  answer: reject(
    'OVERLOADED',
    undefined,
    'the exchange cannot store orders and cancels now: retry shortly',
  ),
}
const UNCONFIRMED = reject(
  'OUTCOME_UNKNOWN',
  undefined,
  'this server could not confirm that it still runs the market, and another server may be running it now: send the ' +
    'same request again',
)

type ServePorts = {
  readonly thread: MarketThread
  readonly events: EventLog<MarketEvent>
  readonly room: DiskRoom
  readonly clock: Clock
  readonly kit: Pick<ThreadContext, 'log' | 'loop' | 'monotonicMs' | 'timers'>
  readonly meters: ReturnType<typeof marketMeters>
  readonly mailboxMax: number
  readonly commands: Pick<Commands, 'partitionOf'>
  readonly links: Pick<Links, 'readers' | 'tellAppended'>
  /** Traces of sampled orders; undefined if traces are off. */
  readonly traces: OrderTraces | undefined
  /** Reloads a partition from the events that are durable. */
  readonly reload: (partition: number) => void
  /** Called when a batch has been published. */
  readonly published: () => void
}

/** Serves these partitions with one host (one command queue and commit loop), so that each commit covers them all. */
export function servePartitions(group: readonly number[], ports: ServePorts): Served {
  const { thread, events, clock, meters, commands, links } = ports
  const { log, monotonicMs } = ports.kit
  const here = { state: thread }
  /** Partitions of the current commit. */
  let touched: readonly number[] = []
  /** Rows that the newest commit appended. */
  let appended: readonly PartitionAppended[] = []

  function isAway(command: Message<MarketThreadProtocol>): boolean {
    if (thread.away.size === 0) return false
    const marketId = marketIdOf(command)
    if (marketId === undefined) return OF_ALL_MARKETS.has(command.type)
    return thread.away.has(commands.partitionOf(marketId))
  }

  function partitionsOfEvents(said: readonly MarketEvent[]): number[] {
    const found = new Set<number>()
    for (const { marketId } of said) found.add(commands.partitionOf(marketId))
    return [...found]
  }

  /**
   * Returns true if the log confirms that this thread still owns all its partitions. Reloads each partition that
   * another owner has taken. Called after a batch in which some commands emitted no events. Nothing is appended for
   * such a command, so the log's fence does not reject it. Without this check, its answer, such as “order not found”,
   * could come from outdated state.
   */
  async function confirm(): Promise<boolean> {
    const taken = await partitionsTaken(events, ports.kit)
    for (const partition of taken ?? []) ports.reload(partition)
    return taken?.length === 0
  }

  return serve<MarketThread, MarketThreadProtocol, MarketEvent>({
    behaviour: marketBehaviour,
    select: (command) => (isAway(command) ? AWAY : here),
    clock,
    loop: ports.kit.loop,
    mailboxMax: ports.mailboxMax,
    batchMax: COMMIT_COMMANDS_MAX,
    eventsMax: COMMIT_EVENTS_MAX,
    full: FULL,
    prepare: (batch) => {
      ports.traces?.placed(batch)
      prepare(thread, batch)
    },
    arrange: byMarket,
    commit: (said) => {
      const begunMs = monotonicMs()
      touched = group.length === 1 ? group : partitionsOfEvents(said)
      return commit(thread, said, said.at(-1)?.atMs ?? clock.nowMs()).then((done) => {
        appended = done
        meters.committed(monotonicMs() - begunMs)
      })
    },
    ...(events.takenOver === undefined ? {} : { confirm, unconfirmed: UNCONFIRMED }),
    recover: (error) => {
      const failed = { err: error, partitions: touched }
      log.error(failed, 'an append failed; reloading the state from the log')
      if (isDiskFull(error)) ports.room.spend()
      // The append failed, so the batch's events were not published. Reload every partition of the batch, so that its
      // followers receive the current state.
      for (const partition of touched) ports.reload(partition)
      return reject('OUTCOME_UNKNOWN')
    },
    say: (said) => {
      links.readers.committed({ appended, said })
      const offsets = touched.map((each) => [each, events.lastOffset(each)] as const)
      const traces = ports.traces?.tradesIn(said)
      links.tellAppended(traces === undefined ? { offsets } : { offsets, traces })
      ports.published()
    },
    observe: meters.handled,
  })
}
