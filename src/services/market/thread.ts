/**
 * A market thread: its partitions of the log, their markets and timers. With a log in files, each partition is served
 * separately: a batch is one append to one file, and a batch's callers do not wait for other partitions.
 */

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { isNode, type ThreadData, topologyOf } from '#config/thread-data.ts'
import { partitionsOf } from '#config/topology.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import type { EventLog } from '#log/event-log.ts'
import { type DiskRoom, openDiskRoom } from '#log/partition/disk-room.ts'
import type { Thread } from '#runtime/thread.ts'
import { makeThreadContext } from '#services/kit/kit.ts'
import { realWorld, type World } from '#services/kit/world.ts'
import { openMarketLog } from './thread/market-log.ts'
import { type RunningMarkets, startMarkets } from './thread/start-markets.ts'

/** Disk space that each market thread reserves, so that it can still log cancels when the disk is full. */
const RESERVE_BYTES = 4 * 1024 * 1024

type MarketWorld = World & {
  readonly openLog: typeof openMarketLog
  readonly openDiskRoom: typeof openDiskRoom
}

const REAL: MarketWorld = { ...realWorld, openLog: openMarketLog, openDiskRoom }

export function marketThread(data: ThreadData, world: MarketWorld = REAL): Thread {
  const { index, settings } = data
  const { partitions } = topologyOf(settings)
  const own = partitionsOf(index, topologyOf(settings))
  const kit = makeThreadContext(data, world)
  let events: EventLog<MarketEvent> | undefined
  let running: RunningMarkets | undefined
  let draining: Promise<void> | undefined

  return {
    async start() {
      let room: DiskRoom | undefined
      const isDiskFull = () => room?.isFull === true
      events = await world.openLog(settings, kit, { partitions, own, isDiskFull })
      room = world.openDiskRoom({
        folder: join(settings.data.dir, 'log'),
        name: `reserve-${index}`,
        reserveBytes: RESERVE_BYTES,
        freeBytesMin: settings.data.freeMiBMin * 1024 * 1024,
      })
      running = startMarkets(data, kit, { events, room })
    },
    connect(peer, port) {
      assert(running !== undefined, 'a thread was linked before its start')
      running.connect(peer, port)
    },
    health: () => running?.health() ?? 'starting',
    metrics: kit.metrics,
    async drain() {
      draining ??= isNode(settings) ? running?.handOver() : running?.drained()
      await draining
    },
    async stop() {
      kit.quiet()
      running?.quiet()
      await running?.drained()
      running?.close()
      await events?.close()
    },
  }
}
