/**
 * Publishes the event log as a transparency log. Each turn reads new rows of all partitions, adds their entries to the
 * trees, and stores the trees' entries, tiles, sizes and roots. The checkpoints are signed and published only after
 * this data is stored.
 */

import { Fault } from '#domain/fault.ts'
import { PUBLIC_LOG_EVENTS_PER_TURN } from '#domain/limits.ts'
import type { LogRow } from '#log/event-log.ts'
import type { Behaviour, Context } from '#runtime/actor.ts'
import type {
  PublicLeaf,
  PublicTile,
  PublicTree,
  PublishedCheckpoint,
  TreeGrowth,
} from '#store/writes/public-log.ts'
import { entriesOf, type HexSha256 } from '#transparency/log-entries.ts'
import { TreeBuilder } from '#transparency/tree-builder.ts'
import { sameBytes, type TreeHasher } from '#transparency/tree-hash.ts'

export type PublicLogProtocol = {
  /** Starts a turn (one round of reading, storing and publishing) if none is in progress. */
  Tick: { takes: object; answers: undefined }
  Loaded: { takes: { trees: readonly LoadedTree[] }; answers: undefined }
  LoadFailed: { takes: { why: string }; answers: undefined }
  Grown: { takes: { growths: readonly TreeGrowth[] }; answers: undefined }
  GrowFailed: { takes: { why: string; retry: boolean }; answers: undefined }
  Published: { takes: object; answers: undefined }
  /** Sent before this thread stops: the current turn is finished, and no further turn starts. */
  Leave: { takes: object; answers: undefined }
}

export type PublicLogEvent =
  | {
      readonly type: 'grown'
      readonly entries: number
      readonly events: number
      readonly bytes: number
    }
  | { readonly type: 'fault'; readonly why: string }

/** A tree as it is stored in the database, with the incomplete tiles to which entries are added. */
export type LoadedTree = {
  readonly stored: PublicTree | undefined
  readonly partition: number
  readonly tiles: readonly PublicTile[]
  readonly throughMs: number
}

export type PublicLogPorts = {
  readonly logId: string
  readonly partitions: number
  /** Reads rows of a partition from the log or from its archive. */
  readRows(partition: number, fromOffset: number, limit: number): LogRow[]
  firstOffset(partition: number): number
  lastOffset(partition: number): number
  load(): Promise<readonly LoadedTree[]>
  grow(growths: readonly TreeGrowth[]): Promise<unknown>
  publish(checkpoints: readonly PublishedCheckpoint[]): Promise<unknown>
  /** Returns the signed checkpoint of a tree. */
  sign(partition: number, size: number, root: Uint8Array): string
  readonly hexSha256: HexSha256
  readonly hasher: TreeHasher
}

type Tree = {
  readonly builder: TreeBuilder
  readonly beginsAt: number
  nextOffset: number
  throughMs: number
  /** A rebuilt tree is published only once it has reached this offset, so that its published size does not shrink. */
  readonly publishFrom: number
}

export type PublicLogState = {
  readonly ports: PublicLogPorts
  /** Empty until the stored trees are loaded. */
  readonly trees: Map<number, Tree>
  /** True while trees are being loaded, stored or published. */
  busy: boolean
  /**
   * The additions to the trees that are now being stored. After a retryable fault, the same additions are stored again,
   * even if the database already has them.
   */
  growing: readonly TreeGrowth[]
  /** Reason why the last turn failed; empty if it succeeded. */
  fault: string
  leaving: boolean
}

export function newPublicLog(ports: PublicLogPorts): PublicLogState {
  return { ports, trees: new Map(), busy: false, growing: [], fault: '', leaving: false }
}

type PublicLogContext = Context<PublicLogProtocol, PublicLogEvent>

export const publicLog: Behaviour<PublicLogState, PublicLogProtocol, PublicLogEvent> = {
  Tick(state, _message, context) {
    if (state.busy || state.leaving) return undefined
    if (state.trees.size === 0) load(state, context)
    else turn(state, context)
    return undefined
  },

  Loaded(state, { trees }, context) {
    state.busy = false
    try {
      for (const tree of trees) state.trees.set(tree.partition, treeOf(state.ports, tree))
    } catch (error) {
      state.trees.clear()
      fail(state, String(error instanceof Error ? error.message : error), context)
      return undefined
    }
    state.fault = ''
    return publicLog.Tick(state, {}, context)
  },

  LoadFailed(state, { why }, context) {
    state.busy = false
    fail(state, why, context)
    return undefined
  },

  Grown(state, { growths }, context) {
    state.growing = []
    const { sign } = state.ports
    const checkpoints = growths
      .filter(({ partition, to }) => to.nextOffset > (state.trees.get(partition)?.publishFrom ?? 0))
      .map(({ partition, to: { size, root } }) => ({
        ...{ partition, size, root },
        checkpoint: sign(partition, size, root),
      }))
    for (const { leaves, to, from } of growths) {
      context.emit({
        type: 'grown',
        entries: to.size - from.size,
        events: to.nextOffset - (leaves[0]?.first ?? to.nextOffset),
        bytes: leaves.reduce((sum, { entry }) => sum + entry.length, 0),
      })
    }
    context.pipe(
      state.ports.publish(checkpoints),
      () => ({ type: 'Published', message: {} }),
      (error) => ({ type: 'GrowFailed', message: failureOf(error) }),
    )
    return undefined
  },

  GrowFailed(state, { why, retry }, context) {
    state.busy = false
    fail(state, why, context)
    // If the fault is not retryable, another writer may have extended a stored tree, so load the trees again.
    if (!retry) {
      state.growing = []
      state.trees.clear()
    }
    return undefined
  },

  Published(state, _message, _context) {
    state.busy = false
    state.fault = ''
    return undefined
  },

  Leave(state) {
    state.leaving = true
    return undefined
  },
}

function load(state: PublicLogState, context: PublicLogContext): void {
  state.busy = true
  context.pipe(
    state.ports.load(),
    (trees) => ({ type: 'Loaded', message: { trees } }),
    (error) => ({ type: 'LoadFailed', message: { why: failureOf(error).why } }),
  )
}

/** Makes the tree in memory from its stored state. Throws if the stored state is damaged or belongs to another log. */
function treeOf(ports: PublicLogPorts, { stored, partition, tiles, throughMs }: LoadedTree): Tree {
  if (stored === undefined) {
    const beginsAt = ports.firstOffset(partition)
    return {
      ...{ builder: new TreeBuilder(ports.hasher), beginsAt, nextOffset: beginsAt, throughMs: 0 },
      publishFrom: ports.lastOffset(partition),
    }
  }
  if (stored.logId !== ports.logId) {
    throw new Error(
      `the public log of partition ${partition} in the database belongs to another event log: ` +
        'use the database and the event log that belong together',
    )
  }
  const builder = TreeBuilder.from(stored.size, tiles, ports.hasher)
  if (!sameBytes(builder.root(), stored.root)) {
    throw new Error(
      `the tiles of the public log of partition ${partition} are damaged: delete all rows of public_trees, ` +
        'public_tiles, public_entries and public_books to build them again from the log and its archive',
    )
  }
  const { beginsAt, nextOffset } = stored
  // A tree that was never published may be an interrupted rebuild, so it is published only once it contains the whole
  // log.
  const publishFrom = stored.publishedSize === 0 ? ports.lastOffset(partition) : 0
  return { builder, beginsAt, nextOffset, throughMs, publishFrom }
}

/** Adds new rows to the trees, up to a maximum number of events for all trees together, and stores the new parts. */
function turn(state: PublicLogState, context: PublicLogContext): void {
  if (state.growing.length === 0) {
    try {
      state.growing = grownTrees(state)
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      // Load the trees again, because some may have grown in memory but not in the database.
      state.trees.clear()
      fail(state, error.message, context)
      return
    }
  }
  const growths = state.growing
  if (growths.length === 0) return
  state.busy = true
  context.pipe(
    state.ports.grow(growths),
    () => ({ type: 'Grown', message: { growths } }),
    (error) => ({ type: 'GrowFailed', message: failureOf(error) }),
  )
}

function grownTrees({ ports, trees }: PublicLogState): TreeGrowth[] {
  const growths: TreeGrowth[] = []
  let room = PUBLIC_LOG_EVENTS_PER_TURN
  for (const [partition, tree] of trees) {
    if (room <= 0) break
    if (ports.lastOffset(partition) < tree.nextOffset) continue
    const rows = ports.readRows(partition, tree.nextOffset, room)
    const growth = grow(ports, partition, tree, rows)
    room -= growth.to.nextOffset - (growth.leaves[0]?.first ?? growth.to.nextOffset)
    if (growth.leaves.length > 0) growths.push(growth)
  }
  return growths
}

function grow(
  ports: PublicLogPorts,
  partition: number,
  tree: Tree,
  rows: readonly LogRow[],
): TreeGrowth {
  const { builder, beginsAt } = tree
  const from = { size: builder.size }
  const leaves: PublicLeaf[] = []
  for (const row of rows) {
    tree.throughMs = Math.max(tree.throughMs, lastTimeOf(row))
    for (const entry of entriesOf(row, ports.hexSha256)) {
      builder.append(ports.hasher.leaf(entry))
      leaves.push({ first: row.first, throughMs: tree.throughMs, entry })
    }
    tree.nextOffset = row.first + row.count
  }
  const to = { size: builder.size, root: builder.root(), nextOffset: tree.nextOffset }
  const tiles = builder.takeChanged()
  return { partition, logId: ports.logId, beginsAt, from, to, leaves, tiles }
}

/** Returns the time of a row's last event, which is the latest, because the clock of a partition never goes back. */
function lastTimeOf({ payload }: LogRow): number {
  const line = payload.toString(
    'utf8',
    payload.lastIndexOf('\n', payload.length - 3) + 1,
    payload.length - 2,
  )
  const event = JSON.parse(line) as
    | { readonly atMs: number }
    | readonly [string, unknown, number, number]
  return 'atMs' in event ? event.atMs : event[3]
}

function fail(state: PublicLogState, why: string, context: PublicLogContext): void {
  if (state.fault !== why) context.emit({ type: 'fault', why })
  state.fault = why
}

function failureOf(error: unknown): { why: string; retry: boolean } {
  if (error instanceof Fault) return { why: error.message, retry: error.retryable }
  return { why: String(error), retry: false }
}
