/** The pools of a front: threads that recover signers, and threads that read the database. */

import type { History } from '#api/markets/history.ts'
import type { OrderVerifier } from '#api/orders/order-verifier.ts'
import type { Log } from '#config/logging.ts'
import type { Settings } from '#config/settings-schema.ts'
import {
  contractsOf,
  databaseUrlOf,
  isPublic,
  stablecoinOf,
  topologyOf,
} from '#config/thread-data.ts'
import { partitionOf } from '#config/topology.ts'
import type { ApiKey } from '#domain/api-key.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import { HISTORY_WAITING_MAX } from '#domain/limits.ts'
import type { Rejection } from '#domain/rejection.ts'
import { makeBoundedWork } from '#runtime/bounded-work.ts'
import { gatherWork } from '#runtime/gathered-work.ts'
import { makePool, PoolFull } from '#runtime/pool.ts'
import { answerOf, type StoreReply } from '#store/engine/reply.ts'
import { askQuery, isLongRead, type Query } from '#store/reads/queries.ts'
import { makeBatcher, TASKS_PER_WORKER } from '#verify/batcher.ts'
import { type OrderInspection, type SignedOrder, verifiedOrder } from '#verify/inspect-orders.ts'
import { makeOrderPacker, makePackedMemory, type PackedFlaws } from '#verify/packed-orders.ts'
import type { VerifyWorkerData } from '#verify/verify-jobs.ts'
import { type AskPage, LONG_PAGES, type PageTask } from './query-pages.ts'

/** Maximum number of tasks that wait for a thread of a pool; more are refused. */
const QUEUE_MAX = 10_000
/**
 * Maximum number of pages that are requested from a thread in one message. Pages share a message, because sending a
 * message costs as much as reading a page.
 */
const PAGES_TOGETHER_MAX = 8

export type FrontPools = {
  /**
   * Runs a query. Long queries leave one thread free for short ones. If there is only one thread, long queries run
   * one at a time.
   */
  readonly query: Query
  /** Returns an answer as JSON text. Answers that scan the history count as long queries. */
  readonly askPage: AskPage
  /**
   * Reads an API key. If the exchange requires tokens, a separate thread reads the keys, so that no long query delays
   * them.
   */
  findKey(id: string): Promise<ApiKey | undefined>
  readonly verifier: OrderVerifier
  /** Returns the address of the wallet that signed a text; undefined if the signature is invalid. */
  recoverSigner(message: string, signature: string): Promise<Address | undefined>
  /** Returns the names of the signature engines. */
  engines(): Promise<string>
  /**
   * Makes past books and archive files, on a thread that starts with the first request; undefined if the public log
   * is off.
   */
  readonly history: History | undefined
  /** Returns the CPU time of the verify threads in seconds. */
  verifySeconds(): Promise<number>
  close(): Promise<void>
}

export function openFrontPools(settings: Settings, log: Log): FrontPools {
  const domains = settings.chains.map((chain) => ({
    chainId: chain.chainId,
    verifyingContract: contractsOf(chain).settlement,
    stablecoin: stablecoinOf(chain),
  }))
  const topology = topologyOf(settings)
  const memory = makePackedMemory(settings.verify.threads)
  const verifyPool = makePool({
    queueMax: QUEUE_MAX,
    entry: new URL('../../../workers/verify.ts', import.meta.url),
    threads: settings.verify.threads,
    concurrentPerThread: TASKS_PER_WORKER,
    data: { domains, memory } satisfies VerifyWorkerData,
  })
  const openQueryPool = (threads: number) =>
    makePool({
      queueMax: QUEUE_MAX,
      entry: new URL('../../../workers/query.ts', import.meta.url),
      threads,
      data: { databaseUrl: databaseUrlOf(settings) },
    })
  const queryPool = openQueryPool(settings.database.queryThreads)
  const keyPool = settings.auth.bearer ? openQueryPool(1) : queryPool
  const pools = new Set([verifyPool, queryPool, keyPool])
  const queryIn =
    (pool: typeof queryPool): Query =>
    (name, args) =>
      askQuery({ run: (task) => refusable(pool.run(task, 'answer')) }, name, args)
  const longMax = Math.max(1, settings.database.queryThreads - 1)
  const long = makeBoundedWork({
    underWayMax: longMax,
    waitingMax: settings.database.longReadsMax,
  })
  const short = queryIn(queryPool)
  const query: Query = (name, args) =>
    isLongRead(name, args) ? refusable(long.run(() => short(name, args))) : short(name, args)
  const writePages = (underWayMax: number, waitingMax: number) =>
    gatherWork<PageTask, StoreReply>({
      run: (tasks) => queryPool.run(tasks, 'writePages') as Promise<StoreReply[]>,
      ...{ underWayMax, waitingMax, togetherMax: PAGES_TOGETHER_MAX },
    })
  const longPages = writePages(longMax, settings.database.longReadsMax)
  const shortPages = writePages(settings.database.queryThreads, QUEUE_MAX)
  const askPage: AskPage = async (page, args) => {
    const write = LONG_PAGES.has(page) ? longPages : shortPages
    return answerOf((await refusable(write({ page, args }))) as StoreReply) as string
  }
  function openHistory(): History {
    let opened: typeof queryPool | undefined
    const run = async <Answer>(ask: { readonly marketId: MarketId }, job: string) => {
      opened ??= makePool({
        queueMax: HISTORY_WAITING_MAX,
        entry: new URL('../../../workers/history.ts', import.meta.url),
        threads: 1,
        data: { databaseUrl: databaseUrlOf(settings) },
      })
      pools.add(opened)
      const partition = partitionOf(ask.marketId, topology)
      const reply = await refusable(opened.run({ ...ask, partition }, job))
      return answerOf(reply as StoreReply) as Answer
    }
    return {
      pastBook: (ask) => run(ask, 'pastBook'),
      archivePart: (ask) => run(ask, 'archivePart'),
    }
  }
  const batcher = makeBatcher<SignedOrder, OrderInspection | Rejection>({
    workers: settings.verify.threads,
    run: makeOrderPacker({
      ...{ memory, domains },
      run: (packed) => verifyPool.run(packed, 'inspectPacked') as Promise<PackedFlaws>,
    }),
    deadlineMs: settings.front.deadlineMs,
    onFailure: (error) => log.error({ err: error }, 'a task that checks order signatures failed'),
  })
  return {
    query,
    askPage,
    findKey: (id) => queryIn(keyPool)('apiKeyById', { id }),
    verifier: {
      inspect: (signed) => batcher.ask(signed),
      verified: verifiedOrder,
    },
    async recoverSigner(message, signature) {
      const signer = await refusable(verifyPool.run({ message, signature }, 'recoverMessageSigner'))
      return (signer as Address | null) ?? undefined
    },
    history: isPublic(settings) ? openHistory() : undefined,
    engines: () => verifyPool.run(undefined, 'engines') as Promise<string>,
    verifySeconds: () => verifyPool.cpuSeconds(),
    async close() {
      await Promise.all([...pools].map((pool) => pool.close()))
    },
  }
}

/** Turns the error of a full pool into a retryable fault, because it is not a bug. */
async function refusable<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof PoolFull)) throw error
    throw new Fault('POOL_FULL', error.message, { retryable: true })
  }
}
