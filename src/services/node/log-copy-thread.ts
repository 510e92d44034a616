/**
 * The log-copy thread of a node: copies all partitions that other nodes own, so that this node can take them over
 * quickly, and so that its store and accounts threads can read them. Market threads notify the log-copy thread of new
 * records; it also looks for new records at intervals.
 */

import { channelOptions, type ThreadData } from '#config/thread-data.ts'
import { BRIDGE_THREAD, isAccountsThread } from '#config/topology.ts'
import { Fault } from '#domain/fault.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { PACKED } from '#log/packed-event.ts'
import { type LogFollower, openLogFollower } from '#log/server/log-follower.ts'
import type { LogReaderProtocol } from '#protocol/projector.ts'
import type { Protocol } from '#runtime/actor.ts'
import { Channel } from '#runtime/channel.ts'
import type { Thread } from '#runtime/thread.ts'
import { makeFollowers, makeThreadContext } from '#services/kit/kit.ts'
import { realWorld, type World } from '#services/kit/world.ts'
import { logCopyMeters } from './log-copy-metrics.ts'

/** Requests from the bridge thread. */
export type LogCopyProtocol = {
  /** Copies exactly these partitions from now on. Answered when the files of the other partitions are closed. */
  Follow: { takes: { partitions: readonly number[] }; answers: { why: string } }
  /** Completes the copy. Answered when the copy contains all records that the log had at the time of the request. */
  CatchUp: { takes: object; answers: { why: string } }
}

type Appended = LogReaderProtocol['Appended']['takes']

const LOOK_EVERY_MS = 500

type LogCopyWorld = World & { readonly openLogFollower: typeof openLogFollower }

const REAL: LogCopyWorld = { ...realWorld, openLogFollower }

export function logCopyThread(data: ThreadData, world: LogCopyWorld = REAL): Thread {
  const { settings } = data
  const kit = makeThreadContext(data, world)
  const { log } = kit
  let follower: LogFollower
  let stopped = false
  /** For each partition that cannot be copied now: the reason. */
  const whys = new Map<number, string>()
  /**
   * Partitions whose new records are being copied. The value is true if the partition's log has grown since the current
   * copy step began. Another step then follows.
   */
  const pulling = new Map<number, boolean>()
  const readers = makeFollowers<LogReaderProtocol>(settings, kit)
  const tellers = makeFollowers<Protocol>(settings, kit)
  const meters = logCopyMeters(kit)

  function received(type: string, message: unknown): void {
    if (type !== 'Appended') return
    const { offsets, ...more } = message as Appended
    const followed = new Set(follower.followed)
    // Records of partitions that this node owns need no copy: the node's own threads wrote the records to the files.
    const own = offsets.filter(([partition]) => !followed.has(partition))
    if (own.length > 0 || more.traces !== undefined)
      readers.tell('Appended', { ...more, offsets: own })
    meters.appended(offsets)
    for (const [partition] of offsets) if (followed.has(partition)) void pull(partition)
  }

  async function pull(partition: number): Promise<void> {
    if (pulling.has(partition)) return void pulling.set(partition, true)
    for (let more = true; more && !stopped; more = pulling.get(partition) === true) {
      pulling.set(partition, false)
      await pullOnce(partition)
    }
    pulling.delete(partition)
  }

  async function pullOnce(partition: number): Promise<void> {
    try {
      const offset = await follower.pull(partition)
      meters.pulled(partition, offset)
      if (whys.delete(partition)) log.warn({ partition }, 'the copy of the log is complete again')
      if (offset !== undefined) readers.tell('Appended', { offsets: [[partition, offset]] })
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      if (!whys.has(partition)) {
        log.error({ partition, why: error.message }, 'the log cannot be copied now')
      }
      whys.set(partition, error.message)
    }
  }

  async function follow(partitions: readonly number[]): Promise<void> {
    await follower.follow(partitions)
    meters.follow(partitions)
    for (const partition of whys.keys()) if (!partitions.includes(partition)) whys.delete(partition)
    for (const partition of partitions) void pull(partition)
  }

  async function answer(type: string, message: unknown): Promise<{ why: string }> {
    if (type === 'Follow') {
      await follow((message as LogCopyProtocol['Follow']['takes']).partitions)
      return { why: '' }
    }
    await Promise.all(follower.followed.map(pullOnce))
    return { why: [...whys.values()].join('; ') }
  }

  return {
    async start() {
      const { partitions } = settings.markets
      follower = await world.openLogFollower<MarketEvent>({
        ...{ url: settings.eventLog.url, dataDir: settings.data.dir, partitions, form: PACKED },
      })
      kit.every(LOOK_EVERY_MS, () => {
        for (const partition of follower.followed) void pull(partition)
      })
      log.info({ partitions }, 'this node is ready to copy the log of other nodes')
    },
    connect(peer, port) {
      if (peer === 'store' || isAccountsThread(peer)) readers.add(peer, port, () => {})
      else if (peer !== BRIDGE_THREAD) tellers.add(peer, port, received)
      else {
        const channel: Channel<Protocol> = new Channel(port, channelOptions(settings), {
          received: (type, message, replyTo) =>
            void answer(type, message).then((answered) => channel.reply(replyTo, answered)),
        })
      }
    },
    health: () => [...whys.values()].join('; '),
    metrics: kit.metrics,
    drain: async () => {},
    async stop() {
      stopped = true
      kit.quiet()
      readers.close()
      tellers.close()
      await follower.close()
    },
  }
}
