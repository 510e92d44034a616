/** The functions through which a node's part in the cluster reaches the rest. */

import type { MessagePort } from 'node:worker_threads'
import type { World } from '#services/kit/world.ts'
import type { NodeLine } from './node-line.ts'

/** A thread of this node, running or not, and its peers. */
export type BridgedThread = { readonly name: string; readonly links: readonly string[] }

export type BridgePorts = {
  readonly line: NodeLine
  readonly world: Pick<World, 'monotonicMs' | 'random' | 'timers'>
  readonly log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
  }
  /** Called for each slot that this node takes. */
  readonly taken: (slot: string, epoch: number) => void
  /** Starts the thread of a slot; resolves when it is ready. Rejects if it is no longer wanted. */
  readonly begin: (slot: string, isWanted: () => boolean) => Promise<void>
  /** Resolves with the reason when a started thread has ended. */
  readonly ended: (slot: string) => Promise<string>
  /** Resolves when the ending thread of a slot does nothing more that another owner could do. */
  readonly handOver: (slot: string) => Promise<void>
  readonly end: (slot: string) => Promise<void>
  /** Gives a thread the port to a peer; returns false if the thread does not exist. */
  readonly connect: (thread: string, peer: string, port: MessagePort) => Promise<boolean>
  /** Called when this node can no longer be part of the cluster. */
  readonly unfit: (why: string) => void
  /** Called with messages of other nodes to all. */
  readonly heardAll: (message: object) => void
}
