/**
 * A node's part in the cluster:
 * - It sends beats: regular messages which show that the node is alive.
 * - It starts and stops the threads that the directory assigns to this node (`owned-slots.ts`).
 * - It opens and ends the links between threads of this node and threads of other nodes (`bridge-links.ts`).
 */

import { makeBridgeLinks } from './bridge-links.ts'
import type { BridgedThread, BridgePorts } from './bridge-ports.ts'
import { type Beat, Directory, type Duty } from './directory.ts'
import { encode, readBeat, readSaid } from './messages.ts'
import { makeOwnedSlots } from './owned-slots.ts'

const BEAT_EVERY_MS = 300

type BridgeOptions = {
  readonly cluster: string
  readonly node: string
  /** Text of the settings that must be the same on all nodes. */
  readonly shape: string
  /**
   * `slots`: all slots of the cluster. `offers`: the slots that this node can run. A slot is a thread that runs on one
   * node at a time.
   */
  readonly slots: readonly string[]
  readonly offers: readonly string[]
  /** The threads that always run on this node, and the threads that the node runs only while it owns their slots. */
  readonly threads: readonly BridgedThread[]
  /** Time without a beat after which a node counts as dead. */
  readonly silenceMs: number
  /**
   * Slots that may move to their preferred node, which is the first by rendezvous hash. A slot moves once that node has
   * been ready for `moveAfterMs`. If `moveAfterMs` is 0, slots never move.
   */
  readonly moves: readonly string[]
  readonly moveAfterMs: number
}

export type Bridge = {
  /** Hands over all slots of this node; resolves when this node has no slot left. */
  leave(): Promise<void>
  /**
   * Reports that this node has a current copy of the log. With this copy, the node can serve a slot within moments, so
   * slots may move to the node.
   */
  warmed(): void
  /** Ends the links and sends the last beat. */
  stop(): void
  /** Sends a message to all other nodes. The message may be lost. A message above the maximum size is dropped. */
  sayAll(message: object): void
  /** Reports that the connection to NATS is lost, or may have lost messages. All links then end. */
  lost(why: string): void
  /** Returns why the bridge is unhealthy; empty if it is healthy. */
  why(): string
  nodes(): readonly Beat[]
  /** Returns the node that serves each slot of the cluster; the node is undefined if no node serves the slot. */
  owners(): readonly { readonly slot: string; readonly node: string | undefined }[]
  readonly links: number
  /** Resolves when this node knows the other nodes; rejects if this node cannot join the cluster. */
  readonly joined: Promise<void>
}

/** Names of the subjects by which nodes send to all nodes, or to one node. */
const subjectsOf = (cluster: string) => ({
  beat: `${cluster}.beat`,
  all: `${cluster}.all`,
  open: (to: string) => `${cluster}.open.${to}`,
  data: (to: string) => `${cluster}.data.${to}`,
})

export function openBridge(options: BridgeOptions, ports: BridgePorts): Bridge {
  const { cluster, node, shape, offers, silenceMs, moves, moveAfterMs } = options
  const { line, log } = ports
  const { monotonicMs: nowMs, random } = ports.world
  const incarnation = random.bytes(8).toString('hex')
  const slots = new Set(options.slots)
  const directory = new Directory({
    ...{ node, incarnation, shape, offers },
    ...{ silenceMs, moves, moveAfterMs },
  })
  let left: (() => void) | undefined
  let stopped = false
  let hasJoined = false
  const joined = Promise.withResolvers<void>()
  const subjects = subjectsOf(cluster)
  const links = makeBridgeLinks({ ...options, incarnation, directory, subjects }, ports)
  const owned = makeOwnedSlots(ports, {
    ...{ sayBeat, ended },
    serving: (slot) => directory.serving(slot, nowMs()),
  })

  function sayBeat(gone = false): void {
    if (line.isConnected) line.publish(subjects.beat, encode(directory.beat(nowMs(), gone)))
  }

  function follow(duties: readonly Duty[]): void {
    for (const duty of duties) {
      if (duty.type === 'take') void owned.take(duty.slot, duty.epoch)
      else if (duty.type === 'release') void owned.release(duty.slot, duty.why)
      else if (duty.type === 'unfit' && hasJoined) ports.unfit(duty.why)
      else if (duty.type === 'unfit') joined.reject(new Error(duty.why))
      else {
        log.warn({ node: duty.node, why: duty.why }, `node ${duty.node} has left the cluster`)
        links.end(
          `node ${duty.node} has left the cluster`,
          (known) => known.incarnation === duty.incarnation,
        )
      }
    }
    if (duties.length > 0 && !stopped) sayBeat()
  }

  function ended(slot: string): void {
    follow(directory.ended(slot, nowMs()))
    sayBeat()
    if (directory.holdsNothing) left?.()
  }

  line.subscribe(subjects.beat, (bytes) => {
    const beat = readBeat(bytes, slots)
    if (!stopped && beat !== undefined) follow(directory.receive(beat, nowMs()))
  })
  line.subscribe(subjects.all, (bytes) => {
    const said = readSaid(bytes)
    if (!stopped && said && said.incarnation !== incarnation) ports.broadcast(said.message)
  })
  const cancel = ports.world.timers.every(BEAT_EVERY_MS, () => {
    follow(directory.tick(nowMs()))
    if (directory.isSettled(nowMs())) {
      hasJoined = true
      joined.resolve()
    }
    sayBeat()
  })
  sayBeat()

  return {
    async leave() {
      const done = new Promise<void>((resolve) => {
        left = resolve
      })
      follow(directory.leave(nowMs()))
      sayBeat()
      if (!directory.holdsNothing) await done
      await owned.allEnded()
    },
    warmed: () => directory.warmed(),
    stop() {
      if (stopped) return
      stopped = true
      joined.resolve()
      cancel()
      links.stop('this node stops')
      sayBeat(true)
    },
    sayAll(message) {
      if (!line.isConnected || stopped) return
      const bytes = encode({ incarnation, message })
      if (bytes.byteLength <= line.payloadMax) line.publish(subjects.all, bytes)
    },
    lost(why) {
      directory.cutOff()
      links.end(why, () => true)
    },
    why: () => (line.isConnected ? '' : 'the connection to NATS is lost'),
    nodes: () => directory.nodes(nowMs()),
    owners: () => options.slots.map((slot) => ({ slot, node: directory.ownerOf(slot)?.node })),
    joined: joined.promise,
    get links() {
      return links.size()
    },
  }
}
