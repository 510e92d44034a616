/**
 * The bridge thread of a node: its connection to NATS, over which it exchanges messages with other nodes. It starts
 * and stops threads of this node as the directory decides.
 */

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
import { handPort, type RemoteSupervisor, type Thread, Unfit } from '#runtime/thread.ts'
import type { DrawsProtocol } from '#services/kit/draws.ts'
import { makeThreadContext, type ThreadContext } from '#services/kit/kit.ts'
import { realWorld, type World } from '#services/kit/world.ts'
import { type Bridge, openBridge } from './bridge.ts'
import type { BridgedThread } from './bridge-ports.ts'
import type { LogCopyProtocol } from './log-copy-thread.ts'
import { bridgeMeters } from './metrics.ts'
import { type NodeLine, openNodeLine } from './node-line.ts'
import { signLine } from './signed-line.ts'

/** Data of the bridge thread. The plan of the node's threads comes from `boot/node-specs.ts`. */
export type BridgeData = ThreadData & {
  readonly plan: {
    readonly slots: readonly string[]
    readonly offers: readonly string[]
    readonly threads: readonly BridgedThread[]
    readonly hasCopy: boolean
  }
}

/** Maximum time for copying the log: the first copy of a large log takes long. */
const COPY_MS_MAX = 600_000
const LOG_COPY_WAIT_MS = 20
const WARM_UP_AGAIN_MS = 1_000

/** Returns the text of the settings that must be the same on all nodes. */
function shapeOf(settings: ThreadData['settings']): string {
  const { markets, risk } = settings
  const shape = `SIBYL_MARKET_THREADS=${markets.threads} SIBYL_LOG_PARTITIONS=${markets.partitions}`
  if (!reserves(settings)) return shape
  return `${shape} SIBYL_RISK_FUNDS=reserve SIBYL_RISK_THREADS=${risk.threads}`
}

type BridgeWorld = World & { readonly openNodeLine: typeof openNodeLine }

const REAL: BridgeWorld = { ...realWorld, openNodeLine }

/** Connects to NATS. If the nodes share a key, messages are signed. */
async function openLine(
  { cluster }: BridgeData['settings'],
  world: Pick<BridgeWorld, 'openNodeLine'>,
  ports: {
    readonly log: ThreadContext['log']
    readonly refused: Parameters<typeof signLine>[2]
    readonly lost: (why: string) => void
  },
): Promise<NodeLine> {
  const { log } = ports
  try {
    const plain = await world.openNodeLine({
      ...{ url: cluster.natsUrl, credsFile: cluster.natsCreds, name: cluster.node },
      lost(why) {
        log.error({ why }, why)
        ports.lost(why)
      },
      back: () => log.warn({}, 'NATS is back'),
    })
    return cluster.key === '' ? plain : signLine(plain, cluster.key, ports.refused)
  } catch (error) {
    throw error instanceof Fault && !error.retryable ? new Unfit(error.message) : error
  }
}

/** Makes the functions that control which partitions the log-copy thread copies, and that wait for the copy. */
function makeLogCopying(
  { settings, plan }: BridgeData,
  { log, timers }: Pick<ThreadContext, 'log' | 'timers'>,
  ports: { readonly running: ReadonlySet<string>; readonly isStopped: () => boolean },
) {
  const topology = topologyOf(settings)
  const logCopy = makeRef<LogCopyProtocol>()
  const { running, isStopped } = ports
  const pause = (ms: number) => new Promise<void>((done) => void timers.after(ms, done))

  /**
   * Returns the partitions to copy: all except those of this node's market threads, which open the files themselves.
   */
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
    while (!logCopy.isOpen && !isStopped()) {
      await pause(LOG_COPY_WAIT_MS)
    }
    const answer = await logCopy.ask(type, message, COPY_MS_MAX)
    const why = isUnanswered(answer)
      ? `the thread that copies the log did not answer: ${answer.unanswered}`
      : answer.why
    if (why !== '') throw new Error(why)
  }

  function notCopied(error: unknown): void {
    if (!isStopped()) log.warn({ err: error }, 'copying the log of other nodes failed')
  }

  /**
   * Resolves when the copy of the log is current. When a partition moves to this node later, the node needs to read
   * only the partition's tail.
   */
  async function caughtUp(): Promise<void> {
    while (plan.hasCopy && !isStopped()) {
      const isWhole = await askCopy('CatchUp', {}).then(
        () => true,
        () => false,
      )
      if (isWhole) break
      await pause(WARM_UP_AGAIN_MS)
    }
  }

  return { logCopy, askCopy, copyOthers, notCopied, caughtUp }
}

/**
 * Returns two functions. `begin` prepares the copy of the log and then starts the thread of a slot. `freed` must be
 * called when the thread has ended, so that its partitions are copied again.
 */
function makeSlotStarts(ports: {
  readonly marketNames: ReadonlySet<string>
  /** Market threads that run or are being started on this node. */
  readonly running: Set<string>
  readonly copying: ReturnType<typeof makeLogCopying>
  readonly isStopped: () => boolean
}) {
  const { marketNames, running, isStopped } = ports
  const { askCopy, copyOthers, notCopied } = ports.copying

  async function begin(
    supervisor: RemoteSupervisor,
    slot: string,
    isWanted: () => boolean,
  ): Promise<void> {
    if (marketNames.has(slot)) running.add(slot)
    try {
      if (marketNames.has(slot)) await copyOthers()
      // The store of another node may have written rows whose records are not in the local copy of the log yet. So
      // first complete this copy.
      else if (slot === 'store' || isAccountsThread(slot)) await askCopy('CatchUp', {})
      // The slot may have been released while the log was copied. In that case, do not start its thread, because the
      // next owner may run it already.
      if (!isWanted())
        throw new Error(
          'this node released the thread to another node before the thread had started',
        )
      await supervisor.begin(slot)
    } catch (error) {
      await freed(slot)
      throw error
    }
  }

  async function freed(slot: string): Promise<void> {
    if (!running.delete(slot) || isStopped()) return
    await copyOthers().catch(notCopied)
  }

  return { begin, freed }
}

export function bridgeThread(data: BridgeData, world: BridgeWorld = REAL): Thread {
  const { settings, plan } = data
  const { cluster, markets } = settings
  const kit = makeThreadContext(data, world)
  const { log } = kit
  const marketNames = new Set(
    Array.from({ length: markets.threads }, (_, thread) => marketThreadName(thread)),
  )
  /** Market threads that run or are being started on this node. */
  const running = new Set<string>()
  let line: NodeLine | undefined
  let bridge: Bridge | undefined
  /** Channels to the fronts of this node. The fronts report the amounts drawn from their rate limits. */
  let fronts: Channel<DrawsProtocol>[] = []
  let stopped = false
  const meters = bridgeMeters(kit, () => bridge)
  const copying = makeLogCopying(data, kit, {
    running,
    isStopped: () => stopped,
  })
  const { logCopy, copyOthers, notCopied, caughtUp } = copying
  const { begin, freed } = makeSlotStarts({
    ...{ marketNames, running, copying },
    isStopped: () => stopped,
  })

  return {
    async start(supervisor) {
      // End the threads that an earlier bridge thread started before it died: no other thread can end them.
      for (const slot of await supervisor.begun()) await supervisor.end(slot)
      if (cluster.key === '') {
        log.warn({}, 'SIBYL_CLUSTER_KEY is not set: any client of NATS can impersonate a node')
      }
      const lost = (why: string) => bridge?.lost(why)
      line = await openLine(settings, world, { log, refused: meters.refused, lost })
      bridge = openBridge(
        {
          ...{ cluster: cluster.name, node: cluster.node, ...plan },
          ...{ shape: shapeOf(settings), silenceMs: cluster.silenceMs },
          ...{ moves: [...marketNames], moveAfterMs: cluster.rebalanceMs },
        },
        {
          ...{ line, log, world: kit, taken: meters.taken },
          begin: (slot, isWanted) => begin(supervisor, slot, isWanted),
          async ended(slot) {
            const why = await supervisor.ended(slot)
            await freed(slot)
            return why
          },
          // Here, a market thread only finishes its work. `end` closes the thread's files later, when another node may
          // already be starting the thread.
          async handOver(slot) {
            if (marketNames.has(slot)) await supervisor.drain(slot)
            else await supervisor.end(slot)
          },
          async end(slot) {
            await supervisor.end(slot)
            await freed(slot)
          },
          // Ends this bridge thread with an error. The next bridge thread of this node ends all threads that this one
          // started. It then reports why the node cannot join.
          unfit: (why) => kit.crash(new Error(why)),
          connect: (thread, peer, port) => handPort(supervisor, thread, peer, port),
          // The fronts of one node share their rate-limit buckets. So only one front needs to receive the amounts that
          // were drawn on other nodes.
          broadcast: (message) => {
            const draws = readDraws((message as { draws?: unknown }).draws)
            fronts.find(({ isOpen }) => isOpen)?.tell('Drawn', { draws })
          },
        },
      )
      await bridge.joined.catch((error: Error) => {
        throw new Unfit(error.message)
      })
      log.info({ node: cluster.node, roles: cluster.roles }, 'the node is in the cluster')
      void caughtUp().then(() => bridge?.warmed())
    },
    connect(peer, port) {
      if (isFrontThread(peer)) {
        const front = new Channel<DrawsProtocol>(port, channelOptions(settings), {
          received: (_type, message) => bridge?.sayAll(message as object),
        })
        fronts = [...fronts.filter(({ isOpen }) => isOpen), front]
      }
      if (peer !== LOG_COPY_THREAD) return
      logCopy.replace(new Channel(port, channelOptions(settings), { received() {} }))
      // Tell a restarted log-copy thread which partitions it must copy.
      void copyOthers().catch(notCopied)
    },
    health: () => bridge?.why() ?? 'starting',
    metrics: kit.metrics,
    drain: async () => bridge?.leave(),
    async stop() {
      stopped = true
      kit.quiet()
      bridge?.stop()
      logCopy.close()
      for (const front of fronts) front.close()
      await line?.close()
    },
  }
}
