/**
 * The transparency thread: publishes the logs of all partitions so that anyone can verify them. Only one node at a time
 * does this work.
 */

import { hash } from 'node:crypto'
import { archiveDirOf, databaseUrlOf, originOf, type ThreadData } from '#config/thread-data.ts'
import { LOG_COPY_THREAD } from '#config/topology.ts'
import type { MarketEvent } from '#domain/market-event.ts'
import { openArchive, wholeLog, wholeRows } from '#log/archive/archive-reader.ts'
import type { LogReader, RowReader } from '#log/event-log.ts'
import { openLogReader } from '#log/log-reader.ts'
import { PACKED } from '#log/packed-event.ts'
import type { Protocol } from '#runtime/actor.ts'
import type { Served } from '#runtime/serve.ts'
import type { Thread } from '#runtime/thread.ts'
import { linkWriters, makeFollowers, makeThreadContext, serveActor } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import { type Adapters, realWorld, type World } from '#services/kit/world.ts'
import { openDatabase } from '#store/open-database.ts'
import { makeReads, type Reads } from '#store/reads/reads.ts'
import { askWrite } from '#store/writes/ask-write.ts'
import type { HexSha256 } from '#transparency/log-entries.ts'
import { lastTiles } from '#transparency/tree-builder.ts'
import { makeTreeHasher, type Sha256 } from '#transparency/tree-hash.ts'
import { type PostToWitness, parseWitness, postToWitness } from '#transparency/witness-request.ts'
import { publicLogMeters } from './metrics.ts'
import {
  type LoadedTree,
  newPublicLog,
  type PublicLogEvent,
  type PublicLogPorts,
  type PublicLogProtocol,
  type PublicLogState,
  publicLog,
} from './public-log.ts'
import { makeBookIndex } from './thread/book-index.ts'
import { makeCheckpointSigners } from './thread/checkpoint-signers.ts'
import { makeCosigners } from './thread/cosigners.ts'

const ROLE = 'transparency'
/**
 * Maximum wait for a write to the store, so that a store that hangs does not stop the thread forever. After this wait
 * the write is repeated.
 */
const WRITE_DEADLINE_MS = 30_000
/**
 * Minimum time between two writes of past books. While many books are written to catch up, the thread also needs time
 * for checkpoints.
 */
const BOOKS_EVERY_MS = 100
/** Shortest time between two rounds of cosignatures. */
const COSIGN_EVERY_MS = 1_000

type TransparencyWorld = World &
  Pick<Adapters, 'openDatabase' | 'openLogReader' | 'makeReads'> & {
    readonly postToWitness: PostToWitness
  }

const REAL: TransparencyWorld = {
  ...{ ...realWorld, openDatabase, openLogReader, makeReads, postToWitness },
}

const sha256: Sha256 = (bytes) => hash('sha256', bytes, 'buffer')
const hexSha256: HexSha256 = (bytes) => hash('sha256', bytes, 'hex')

export function transparencyThread(data: ThreadData, world: TransparencyWorld = REAL): Thread {
  const { settings } = data
  const kit = makeThreadContext(data, world)
  const leases = makeLeases(data, kit, world)
  const writers = linkWriters(settings, kit)
  /** On a cluster node, the log is a local copy. The log-copy thread notifies this thread when the copy grows. */
  const logCopies = makeFollowers<Protocol>(settings, kit)
  const reads = world.makeReads(databaseUrlOf(settings))
  const store = leases.writeQueue(ROLE, writers.store)
  const signers = makeCheckpointSigners(settings.transparency.keys)
  let reader: (LogReader<MarketEvent> & RowReader) | undefined
  let state: PublicLogState | undefined
  let served: Served | undefined
  const meters = publicLogMeters(kit, () => state)
  const indexing = oneAtATime((error) =>
    meters.said({ type: 'fault', why: `past books: ${error}` }),
  )
  const cosigning = oneAtATime((error) =>
    meters.said({ type: 'fault', why: `cosignatures: ${error}` }),
  )

  const look = (): void => served?.hear('Tick', {}, 0, undefined)

  function portsOf(log: LogReader<MarketEvent> & RowReader): PublicLogPorts {
    const archive = openArchive(archiveDirOf(settings), log, { form: PACKED })
    const whole = wholeLog(log, archive)
    return {
      ...{ logId: log.id, partitions: log.partitions, hexSha256, hasher: makeTreeHasher(sha256) },
      readRows: wholeRows(log, archive).readRows,
      firstOffset: whole.firstOffset,
      lastOffset: log.lastOffset,
      load: () => loadTrees(reads, log.partitions),
      grow: (trees) => askWrite(store, 'growTrees', { trees }, WRITE_DEADLINE_MS),
      publish: async (checkpoints) =>
        checkpoints.length > 0 &&
        askWrite(store, 'publishCheckpoints', { checkpoints }, WRITE_DEADLINE_MS),
      sign: (partition, size, root) =>
        signers.sign(originOf(settings, log.id, partition), size, root),
    }
  }

  function begin(): void {
    reader = world.openLogReader<MarketEvent>(settings.data.dir, { form: PACKED })
    state = newPublicLog(portsOf(reader))
    served = serveActor<PublicLogState, PublicLogProtocol, PublicLogEvent>({
      ...{ behaviour: publicLog, state, clock: kit.clock, loop: kit.loop, say: meters.said },
    })
    kit.every(settings.transparency.intervalMs, look)
    const books = makeBookIndex({
      query: reads.query,
      store: (segment) => askWrite(store, 'storeBooks', segment, WRITE_DEADLINE_MS),
    })
    kit.every(
      BOOKS_EVERY_MS,
      indexing.start(async () => {
        if (await books.step()) meters.segmentStored()
      }),
    )
    if (settings.transparency.witnesses.length > 0) cosign()
    const [key] = signers.keys(originOf(settings, reader.id, 0))
    kit.log.info(
      { origin: key?.name, partitions: reader.partitions },
      'the transparency log is now published',
    )
  }

  /**
   * Starts rounds that collect cosignatures of the configured witnesses. Checkpoints are published without waiting for
   * a round.
   */
  function cosign(): void {
    const cosigners = makeCosigners({
      witnesses: settings.transparency.witnesses.flatMap((text) => parseWitness(text) ?? []),
      ...{ query: reads.query, post: world.postToWitness, nowMs: world.monotonicMs },
      store: (checkpoints) => askWrite(store, 'storeCosigned', { checkpoints }, WRITE_DEADLINE_MS),
      said: meters.cosigned,
    })
    kit.every(COSIGN_EVERY_MS, cosigning.start(cosigners.round))
  }

  return {
    start: () => leases.hold(ROLE, begin),
    connect(peer, port) {
      if (peer === LOG_COPY_THREAD) logCopies.add(peer, port, look)
      else writers.take(peer, port)
    },
    health: () => state?.fault ?? (leases.standby() || 'starting'),
    metrics: kit.metrics,
    async drain() {
      kit.quiet()
      served?.hear('Leave', {}, 0, undefined)
      await served?.drained()
      await indexing.ended()
      await cosigning.ended()
    },
    async stop() {
      kit.quiet()
      writers.close()
      logCopies.close()
      await reader?.close()
      await reads.close()
      await leases.close()
    },
  }
}

/** Returns a runner that starts work only if none of its earlier work is still in progress. */
function oneAtATime(onFailure: (error: unknown) => void) {
  let underWay: Promise<void> | undefined
  return {
    start: (work: () => Promise<void>) => (): void => {
      underWay ??= work()
        .catch(onFailure)
        .finally(() => {
          underWay = undefined
        })
    },
    ended: async (): Promise<void> => underWay,
  }
}

async function loadTrees({ query }: Reads, partitions: number): Promise<LoadedTree[]> {
  const trees = await query('publicTrees', {})
  const loaded: LoadedTree[] = []
  for (let partition = 0; partition < partitions; partition++) {
    const stored = trees.find((tree) => tree.partition === partition)
    const size = stored?.size ?? 0
    loaded.push({
      ...{ stored, partition },
      tiles: await query('publicTiles', { partition, places: lastTiles(size) }),
      throughMs: await query('publicThroughMs', { partition, size }),
    })
  }
  return loaded
}
