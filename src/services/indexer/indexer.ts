/**
 * The indexer of one chain. It reads the chain range by range. The store writes each range together with the indexer’s
 * position, and then the indexer notifies its followers. If the last indexed block is no longer on the chain, the
 * indexer finds the last common block. The store undoes everything above that block, and the indexer continues from
 * there.
 *
 * One step runs at a time: read the head, read a range, write it, find the ancestor, undo. A failed step is retried
 * after a pause. The position in the database is authoritative.
 */

import { backoff } from '#domain/backoff.ts'
import type { BlockMark, ChainEvent, SetAside } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import type { Address, MarketId, OrderHash } from '#domain/ids.ts'
import {
  CHAIN_EVENTS_PER_RANGE_MAX,
  CHAIN_HEADERS_PER_RANGE_MAX,
  CHAIN_MARKS_MAX,
} from '#domain/limits.ts'
import type { Market } from '#domain/market.ts'
import type { ChainFollowerProtocol } from '#protocol/indexer.ts'
import type { Behaviour, Context } from '#runtime/actor.ts'
import type { ChainProgress } from '#store/chain-index/cursor.ts'
import type { ChainRange, ChainWritten } from '#store/chain-index/index-range.ts'
import type { ChainRewind, ChainRewound } from '#store/chain-index/rewind-chain.ts'
import type { LogSource, RangeReading } from './chain/chain-reader.ts'

export type MarketsDue = {
  readonly open: readonly Market[]
  readonly close: readonly {
    readonly marketId: MarketId
    readonly reason: 'resolved' | 'withdrawn'
  }[]
  /** Orders that their traders withdrew on chain. */
  readonly cancel: readonly {
    readonly marketId: MarketId
    readonly trader: Address
    readonly orderHash: OrderHash
  }[]
}

type Failure = { readonly code: string; readonly why: string; readonly retry: boolean }

export type IndexerProtocol = {
  /** Reads the chain; sent by the timer. */
  Tick: { takes: object; answers: undefined }
  /**
   * Compares the markets on the chain with the open markets. Emits the markets to open or close, and withdrawn orders
   * to cancel.
   */
  Reconcile: { takes: object; answers: undefined }
  Claimed: { takes: { progress: ChainProgress }; answers: undefined }
  HeadSeen: { takes: { head: BlockMark }; answers: undefined }
  RangeRead: { takes: { reading: RangeReading }; answers: undefined }
  RangeWritten: { takes: { range: ChainRange; written: ChainWritten }; answers: undefined }
  AncestorFound: { takes: { ancestor: BlockMark | undefined }; answers: undefined }
  Rewound: { takes: { rewind: ChainRewind; rewound: ChainRewound }; answers: undefined }
  Reconciled: { takes: { due: MarketsDue }; answers: undefined }
  ReconcileFailed: { takes: Failure; answers: undefined }
  /** The chain did not answer, or its answer was unusable. */
  ChainFailed: { takes: Failure; answers: undefined }
  /** The database did not accept a write, or it is unknown whether it did. */
  StoreFailed: { takes: Failure; answers: undefined }
}

export type IndexerEvent =
  | ({ readonly type: 'ChainAdvanced' } & ChainFollowerProtocol['ChainAdvanced']['takes'])
  | ({ readonly type: 'ChainRewound' } & ChainFollowerProtocol['ChainRewound']['takes'])
  | ({ readonly type: 'MarketsDue' } & MarketsDue)
  | {
      readonly type: 'EventsSetAside'
      readonly chainId: number
      readonly setAside: readonly SetAside[]
    }

/** Functions of the chain that the indexer needs. */
type IndexedChain = {
  readonly head: () => Promise<BlockMark>
  readonly range: (after: BlockMark, upTo: number, by: LogSource) => Promise<RangeReading>
  readonly ancestor: (marks: readonly BlockMark[]) => Promise<BlockMark | undefined>
}

/** Functions of the database that the indexer needs. */
type IndexStore = {
  /**
   * Returns the last block whose events are in the database. If the database is new, returns the block before the first
   * block to index.
   */
  readonly claim: () => Promise<ChainProgress>
  readonly write: (range: ChainRange) => Promise<ChainWritten>
  readonly rewind: (rewind: ChainRewind) => Promise<ChainRewound>
  readonly marketsDue: (nowSec: number) => Promise<MarketsDue>
}

export type IndexerState = {
  readonly chainId: number
  readonly confirmations: number
  readonly rangeBlocksMax: number
  readonly chain: IndexedChain
  readonly store: IndexStore
  /** The last block that the database has; undefined before the first read and after a failed write. */
  indexed: BlockMark | undefined
  /** The last indexed blocks with their hashes, the oldest first; the last one is `indexed`. */
  marks: BlockMark[]
  head: number
  /** Maximum number of blocks of the next range: it shrinks after a failure and grows after a success. */
  span: number
  /** Number of blocks of the last requested range, which may be smaller than `span`. */
  asked: number
  /** Number of blocks that must still be read from receipts, because a node refused to return their logs. */
  receiptsFor: number
  busy: boolean
  reconciling: boolean
  /** Number of consecutive failures. */
  failures: number
  /** The chain is not read before this time. */
  pauseUntilMs: number
  reorgs: number
  why: string
}

const PAUSE_MS = 200
const PAUSE_MS_MAX = 5_000
/**
 * Number of blocks that are read from receipts after a block with too many logs, because the next ones may have too
 * many as well.
 */
const RECEIPT_BLOCKS = 16

export function newIndexer(
  options: Pick<IndexerState, 'chainId' | 'confirmations' | 'rangeBlocksMax' | 'chain' | 'store'>,
): IndexerState {
  return {
    ...options,
    indexed: undefined,
    marks: [],
    head: -1,
    span: options.rangeBlocksMax,
    asked: 0,
    receiptsFor: 0,
    busy: false,
    reconciling: false,
    failures: 0,
    pauseUntilMs: 0,
    reorgs: 0,
    why: 'the chain has not been read yet',
  }
}

type IndexerContext = Context<IndexerProtocol, IndexerEvent>

export const indexer: Behaviour<IndexerState, IndexerProtocol, IndexerEvent> = {
  Tick(state, _message, context) {
    if (state.busy || context.nowMs < state.pauseUntilMs) return undefined
    state.busy = true
    if (state.indexed === undefined) {
      context.pipe(
        state.store.claim(),
        (progress) => ({ type: 'Claimed', message: { progress } }),
        // `claim` uses both the chain and the database; the code of the fault shows which of them failed.
        (error) => failed(error, isOfChain(error) ? 'ChainFailed' : 'StoreFailed'),
      )
      return undefined
    }
    context.pipe(
      state.chain.head(),
      (head) => ({ type: 'HeadSeen', message: { head } }),
      (error) => failed(error, 'ChainFailed'),
    )
    return undefined
  },

  Claimed(state, { progress }, context) {
    state.busy = false
    state.indexed = progress.indexed
    state.marks = [...progress.marks].reverse()
    indexer.Reconcile(state, {}, context)
    return indexer.Tick(state, {}, context)
  },

  HeadSeen(state, { head }, context) {
    const { indexed } = state
    if (indexed === undefined) return idle(state)
    // A head below the indexed block usually means that the node lags. But if the head's hash differs from the indexed
    // hash of that height, a reorg has happened.
    state.head = Math.max(state.head, head.number)
    const known = state.marks.findLast(({ number }) => number === head.number)
    if (known !== undefined && known.hash !== head.hash) return findAncestor(state, context)
    const target = head.number - state.confirmations
    if (target <= indexed.number) {
      // The node has answered, but there is no new block to index.
      state.head = head.number < indexed.number ? state.head : head.number
      state.failures = 0
      state.why =
        head.number < indexed.number
          ? `the Ethereum node is behind the indexed blocks: its newest block is ${head.number}`
          : ''
      return idle(state)
    }
    const by = state.receiptsFor > 0 ? 'receipts' : 'logs'
    const upTo = endOfRange(state, indexed.number, { head: head.number, by })
    state.asked = upTo - indexed.number
    context.pipe(
      state.chain.range(indexed, upTo, by),
      (reading) => ({ type: 'RangeRead', message: { reading } }),
      (error) => failed(error, 'ChainFailed'),
    )
    return undefined
  },

  RangeRead(state, { reading }, context) {
    const { indexed } = state
    if (indexed === undefined) return idle(state)
    if (reading.kind === 'reorg') return findAncestor(state, context)
    if (reading.kind === 'behind') {
      return pause(state, 'the node does not have the blocks that it reported', context)
    }
    if (reading.events.length > CHAIN_EVENTS_PER_RANGE_MAX && state.asked > 1) {
      state.span = state.asked >> 1
      state.busy = false
      return indexer.Tick(state, {}, context)
    }
    const range: ChainRange = {
      chainId: state.chainId,
      after: indexed,
      upTo: reading.upTo,
      marks: reading.marks,
      events: reading.events,
      setAside: reading.setAside,
      giveUpOrphansOf: reading.upTo.number - state.confirmations,
      atMs: context.nowMs,
    }
    context.pipe(
      state.store.write(range),
      (written) => ({ type: 'RangeWritten', message: { range, written } }),
      (error) => failed(error, 'StoreFailed'),
    )
    return undefined
  },

  RangeWritten(state, { range, written }, context) {
    const { chainId } = state
    state.busy = false
    state.indexed = range.upTo
    state.marks = [...state.marks, ...range.marks].slice(-CHAIN_MARKS_MAX)
    if (state.receiptsFor > 0) state.receiptsFor--
    else state.span = Math.min(state.rangeBlocksMax, state.span * 2)
    state.failures = 0
    state.why = ''
    const { upTo: indexed } = range
    const { withdrawn, setAside } = written
    const events = without(range.events, setAside)
    if (setAside.length > 0) context.emit({ type: 'EventsSetAside', chainId, setAside })
    context.emit({ type: 'ChainAdvanced', chainId, indexed, head: state.head, events, withdrawn })
    const due = dueOf(events, withdrawn)
    if (isDue(due)) context.emit({ type: 'MarketsDue', ...due })
    // An event of a withdrawal contains an order's hash, a nonce or a delegate, but no market. `Reconcile` finds the
    // markets of the withdrawn orders in the database.
    if (events.some(isWithdrawal)) indexer.Reconcile(state, {}, context)
    return indexer.Tick(state, {}, context)
  },

  AncestorFound(state, { ancestor }, context) {
    const { indexed } = state
    if (indexed === undefined) return idle(state)
    if (ancestor === undefined) {
      return pause(
        state,
        'the node has none of the indexed blocks, so it serves another chain',
        context,
      )
    }
    // Since the reorg was detected, a second reorg has restored the last indexed block. So nothing is undone.
    if (ancestor.number === indexed.number)
      return pause(
        state,
        'a second reorganisation of the chain restored the last indexed block, so nothing was undone',
        context,
      )
    const rewind = { chainId: state.chainId, from: indexed, to: ancestor, atMs: context.nowMs }
    context.pipe(
      state.store.rewind(rewind),
      (rewound) => ({ type: 'Rewound', message: { rewind, rewound } }),
      (error) => failed(error, 'StoreFailed'),
    )
    return undefined
  },

  Rewound(state, { rewind, rewound }, context) {
    const { chainId } = state
    const { to } = rewind
    state.busy = false
    state.reorgs++
    state.indexed = to
    state.head = to.number
    state.marks = state.marks.filter(({ number }) => number <= to.number)
    const { orphaned, reverted } = rewound
    context.emit({ type: 'ChainRewound', chainId, to, orphaned, reverted })
    return indexer.Tick(state, {}, context)
  },

  Reconcile(state, _message, context) {
    if (state.reconciling || state.indexed === undefined) return undefined
    state.reconciling = true
    context.pipe(
      state.store.marketsDue(Math.floor(context.nowMs / 1_000)),
      (due) => ({ type: 'Reconciled', message: { due } }),
      (error) => ({ type: 'ReconcileFailed', message: failureOf(error) }),
    )
    return undefined
  },

  Reconciled(state, { due }, context) {
    state.reconciling = false
    if (isDue(due)) context.emit({ type: 'MarketsDue', ...due })
    return undefined
  },

  ReconcileFailed(state) {
    state.reconciling = false
    return undefined
  },

  ChainFailed(state, { code, why }, context) {
    // Any failure reduces the next range to half or less. A range that was too large is read again at once; other
    // failures are followed by a pause.
    if (code !== 'CHAIN_RANGE_TOO_LARGE') {
      state.span = Math.max(1, state.span >> 1)
      return pause(state, why, context)
    }
    state.span = Math.max(1, state.asked >> 1)
    if (state.asked === 1) {
      // A single block cannot be divided, so it is read from receipts after a pause.
      state.receiptsFor = RECEIPT_BLOCKS
      return pause(state, why, context)
    }
    state.busy = false
    return indexer.Tick(state, {}, context)
  },

  StoreFailed(state, { why }, context) {
    // It is unknown whether the write succeeded, so the position is read from the database before the next range.
    state.indexed = undefined
    return pause(state, why, context)
  },
}

/** Returns the last block whose events are all in the database; -1 while unknown. */
export function indexedBlock({ indexed }: IndexerState): number {
  return indexed?.number ?? -1
}

/** Returns the events that were not set aside. */
function without(
  events: readonly ChainEvent[],
  setAside: readonly SetAside[],
): readonly ChainEvent[] {
  if (setAside.length === 0) return events
  const placeOf = (event: ChainEvent | SetAside) => `${event.blockNumber}/${event.logIndex}`
  const places = new Set(setAside.map(placeOf))
  return events.filter((event) => !places.has(placeOf(event)))
}

/** Returns the markets to open or close and the orders to cancel, as these events require. */
function dueOf(events: readonly ChainEvent[], withdrawn: readonly MarketId[]): MarketsDue {
  const open: Market[] = []
  const close: MarketsDue['close'][number][] = []
  for (const event of events) {
    if (event.type === 'MarketCreated') open.push(event.market)
    if (event.type === 'MarketResolved')
      close.push({ marketId: event.marketId, reason: 'resolved' })
  }
  for (const marketId of withdrawn) close.push({ marketId, reason: 'withdrawn' })
  return { open, close, cancel: [] }
}

/** Returns whether the event may require that resting orders are cancelled. */
function isWithdrawal({ type }: ChainEvent): boolean {
  return type === 'OrderWithdrawn' || type === 'OrdersWithdrawn' || type === 'DelegateSet'
}

function isDue({ open, close, cancel }: MarketsDue): boolean {
  return open.length + close.length + cancel.length > 0
}

/** Returns the last block of the next range. */
function endOfRange(
  { confirmations, span }: IndexerState,
  indexed: number,
  { head, by }: { readonly head: number; readonly by: LogSource },
): number {
  const upTo = Math.min(head - confirmations, indexed + (by === 'receipts' ? 1 : span))
  // A node may lack the logs of the newest blocks without reporting it. So a long range ends
  // `CHAIN_HEADERS_PER_RANGE_MAX` blocks below the head. Closer to the head, ranges are so short that every header is
  // checked for missing logs.
  const [short, far] = [indexed + CHAIN_HEADERS_PER_RANGE_MAX, head - CHAIN_HEADERS_PER_RANGE_MAX]
  return Math.min(upTo, Math.max(short, far))
}

function idle(state: IndexerState): undefined {
  state.busy = false
  return undefined
}

function pause(state: IndexerState, why: string, context: IndexerContext): undefined {
  state.busy = false
  state.why = why
  const pauseMs = backoff(PAUSE_MS, PAUSE_MS_MAX, state.failures)
  state.failures++
  state.pauseUntilMs = context.nowMs + pauseMs
  context.after(pauseMs, { type: 'Tick', message: {} })
  return undefined
}

function findAncestor(state: IndexerState, context: IndexerContext): undefined {
  context.pipe(
    state.chain.ancestor([...state.marks].reverse()),
    (ancestor) => ({ type: 'AncestorFound', message: { ancestor } }),
    (error) => failed(error, 'ChainFailed'),
  )
  return undefined
}

function failed<Type extends 'ChainFailed' | 'StoreFailed'>(
  error: unknown,
  type: Type,
): { readonly type: Type; readonly message: Failure } {
  return { type, message: failureOf(error) }
}

function failureOf(error: unknown): Failure {
  if (error instanceof Fault) {
    return { code: error.code, why: error.message, retry: error.retryable }
  }
  return { code: '', why: String(error), retry: true }
}

function isOfChain(error: unknown): boolean {
  return error instanceof Fault && error.code.startsWith('CHAIN_')
}
