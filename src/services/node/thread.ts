/** The bridge thread of a node: its line to NATS, and what the directory says put into deeds on this machine. */

import { channelOptions, reserves, type ThreadData, topologyOf } from '#config/thread-data.ts'
import {
  isAccountsThread,
  isFrontThread,
  LOG_COPY_THREAD,
  marketThreadName,
  threadOf,
} from '#config/topology.ts'
import { Fault } from '#domain/fault.ts'
import { readDraws } from '#http/draws.ts'
import { Channel, isUnanswered } from '#runtime/channel.ts'
import { makeRef } from '#runtime/ref.ts'
import { handPort, type RemoteHome, type ThreadParts, Unfit } from '#runtime/thread.ts'
import type { DrawsProtocol } from '#services/kit/draws.ts'
import { makeKit } from '#services/kit/kit.ts'
import { realWorld, type World } from '#services/kit/world.ts'
import { type Bridge, type BridgedThread, openBridge } from './bridge.ts'
import type { LogCopyProtocol } from './log-copy-thread.ts'
import { bridgeMeters } from './metrics.ts'
import { type NodeLine, openNodeLine } from './node-line.ts'
import { signLine } from './signed-line.ts'

/** What a node consists of, as `boot/thread-specs.ts` has it. */
export type BridgeData = ThreadData & {
  readonly plan: {
    readonly slots: readonly string[]
    readonly offers: readonly string[]
    readonly threads: readonly BridgedThread[]
    readonly hasCopy: boolean
  }
}

/** A first copy of a large log takes long. */
const COPY_MS_MAX = 600_000
const LOG_COPY_WAIT_MS = 20
const WARM_UP_AGAIN_MS = 1_000

/** What all nodes must have in common, in words. */
function shapeOf(settings: ThreadData['settings']): string {
  const { markets, risk } = settings
  const shape = `SIBYL_MARKET_THREADS=${markets.threads} SIBYL_LOG_PARTITIONS=${markets.partitions}`
  if (!reserves(settings)) return shape
  return `${shape} SIBYL_RISK_FUNDS=reserve SIBYL_RISK_THREADS=${risk.threads}`
}

type BridgeWorld = World & { readonly openNodeLine: typeof openNodeLine }

const REAL: BridgeWorld = { ...realWorld, openNodeLine }

export function bridgeThread(data: BridgeData, world: BridgeWorld = REAL): ThreadParts {
  const { settings, plan } = data
  const { cluster, markets } = settings
  const topology = topologyOf(settings)
  const kit = makeKit(data, world)
  const { log, timers } = kit
  const pause = (ms: number) => new Promise<void>((done) => void timers.after(ms, done))
  const logCopy = makeRef<LogCopyProtocol>()
  const marketNames = new Set(
    Array.from({ length: markets.threads }, (_, thread) => marketThreadName(thread)),
  )
  /** The market threads that run here, or are about to. */
  const running = new Set<string>()
  let line: NodeLine | undefined
  let bridge: Bridge | undefined
  /** The fronts of this node, which tell what is drawn there. */
  let fronts: Channel<DrawsProtocol>[] = []
  let stopped = false
  const meters = bridgeMeters(kit, () => bridge)

  /** The partitions of other nodes are copied, so that their files are free for the threads of this one. */
  function othersPartitions(): number[] {
    return Array.from({ length: topology.partitions }, (_, partition) => partition).filter(
      (partition) => !running.has(marketThreadName(threadOf(partition, topology))),
    )
  }

  async function copyOthers(): Promise<void> {
    if (!plan.hasCopy) return
    await askCopy('Follow', { partitions: othersPartitions() })
  }

  async function askCopy<K extends keyof LogCopyProtocol>(
    type: K,
    message: LogCopyProtocol[K]['takes'],
  ): Promise<void> {
    while (!logCopy.isOpen && !stopped) {
      await pause(LOG_COPY_WAIT_MS)
    }
    const answer = await logCopy.ask(type, message, COPY_MS_MAX)
    const why = isUnanswered(answer) ? `the copy of the log is ${answer.unanswered}` : answer.why
    if (why !== '') throw new Error(why)
  }

  async function begin(home: RemoteHome, slot: string, isWanted: () => boolean): Promise<void> {
    if (marketNames.has(slot)) running.add(slot)
    try {
      if (marketNames.has(slot)) await copyOthers()
      // What another store has written came from the log, so it is in it.
      else if (slot === 'store' || isAccountsThread(slot)) await askCopy('CatchUp', {})
      // A copy takes a while. What was let go of meanwhile would begin behind its next owner, and nobody would end it.
      if (!isWanted()) throw new Error('it was let go of before it began')
      await home.begin(slot)
    } catch (error) {
      await freed(slot)
      throw error
    }
  }

  function notCopied(error: unknown): void {
    if (!stopped) log.warn({ err: error }, 'the log of other nodes is not copied')
  }

  async function freed(slot: string): Promise<void> {
    if (!running.delete(slot) || stopped) return
    await copyOthers().catch(notCopied)
  }

  /** A node whose copy of the log is abreast reads only the tail of what moves to it. */
  async function warmUp(): Promise<void> {
    while (plan.hasCopy && !stopped) {
      const isWhole = await askCopy('CatchUp', {}).then(
        () => true,
        () => false,
      )
      if (isWhole) break
      await pause(WARM_UP_AGAIN_MS)
    }
    bridge?.warmed()
  }

  async function openLine(): Promise<NodeLine> {
    try {
      const plain = await world.openNodeLine({
        ...{ url: cluster.natsUrl, credsFile: cluster.natsCreds, name: cluster.node },
        lost(why) {
          log.error({ why }, why)
          bridge?.lost(why)
        },
        back: () => log.warn({}, 'NATS is back'),
      })
      return cluster.key === '' ? plain : signLine(plain, cluster.key, meters.refused)
    } catch (error) {
      throw error instanceof Fault && !error.retryable ? new Unfit(error.message) : error
    }
  }

  return {
    async start(home) {
      // After a death of this thread nobody knows of them any more.
      for (const slot of await home.begun()) await home.end(slot)
      if (cluster.key === '') {
        log.warn({}, 'SIBYL_CLUSTER_KEY is not set: any client of NATS can impersonate a node')
      }
      line = await openLine()
      bridge = openBridge(
        {
          ...{ cluster: cluster.name, node: cluster.node, ...plan },
          ...{ shape: shapeOf(settings), silenceMs: cluster.silenceMs },
          ...{ moves: [...marketNames], moveAfterMs: cluster.rebalanceMs },
        },
        {
          ...{ line, log, world: kit },
          begin: (slot, isWanted) => begin(home, slot, isWanted),
          async ended(slot) {
            const why = await home.ended(slot)
            await freed(slot)
            return why
          },
          // Files are closed and workers ended while another node begins already; leases are given up at the end.
          async handOver(slot) {
            if (marketNames.has(slot)) await home.drain(slot)
            else await home.end(slot)
          },
          async end(slot) {
            await home.end(slot)
            await freed(slot)
          },
          // The thread ends, and with the next one all that was begun here; that one says why it cannot join.
          unfit: (why) => kit.crash(new Error(why)),
          connect: (thread, peer, port) => handPort(home, thread, peer, port),
          // The fronts of one node share their buckets, so one of them draws for all.
          heardAll: (message) => {
            const draws = readDraws((message as { draws?: unknown }).draws)
            fronts.find(({ isOpen }) => isOpen)?.tell('Drawn', { draws })
          },
        },
      )
      await bridge.joined.catch((error: Error) => {
        throw new Unfit(error.message)
      })
      log.info({ node: cluster.node, roles: cluster.roles }, 'the node is in the cluster')
      void warmUp()
    },
    connect(peer, port) {
      if (isFrontThread(peer)) {
        const front = new Channel<DrawsProtocol>(port, channelOptions(settings), {
          heard: (_type, message) => bridge?.sayAll(message as object),
        })
        fronts = [...fronts.filter(({ isOpen }) => isOpen), front]
      }
      if (peer !== LOG_COPY_THREAD) return
      logCopy.replace(new Channel(port, channelOptions(settings), { heard() {} }))
      // One that was started again follows nothing yet.
      void copyOthers().catch(notCopied)
    },
    health: () => bridge?.why() ?? 'starting',
    metrics: kit.metrics,
    drain: async () => bridge?.leave(),
    async stop() {
      stopped = true
      bridge?.stop()
      logCopy.close()
      for (const front of fronts) front.close()
      await line?.close()
    },
  }
}
