/** The functions by which a node's bridge reaches the other components. */

import type { MessagePort } from 'node:worker_threads'
import type { World } from '#services/kit/world.ts'
import type { NodeLine } from './node-line.ts'

/** A thread of this node, running or not, and the names of the threads to which it has links. */
export type BridgedThread = { readonly name: string; readonly links: readonly string[] }

export type BridgePorts = {
  readonly line: NodeLine
  readonly world: Pick<World, 'monotonicMs' | 'random' | 'timers'>
  readonly log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
  }
  /** Called for each slot that this node takes. A slot is a thread that runs on one node at a time. */
  readonly taken: (slot: string, epoch: number) => void
  /**
   * Starts the thread of a slot; resolves when the thread is ready. Rejects if `isWanted` returns false before the
   * start.
   */
  readonly begin: (slot: string, isWanted: () => boolean) => Promise<void>
  /** Resolves with the reason when a started thread has ended. */
  readonly ended: (slot: string) => Promise<string>
  /** Resolves when the thread of a released slot has finished its work, so that the slot's next owner can continue. */
  readonly handOver: (slot: string) => Promise<void>
  readonly end: (slot: string) => Promise<void>
  /** Hands a thread the port of its link to `peer`; returns false if the thread does not exist on this node. */
  readonly connect: (thread: string, peer: string, port: MessagePort) => Promise<boolean>
  /** Called when this node cannot be part of the cluster any more. */
  readonly unfit: (why: string) => void
  /** Called with each message that another node broadcasts to all nodes. */
  readonly broadcast: (message: object) => void
}
