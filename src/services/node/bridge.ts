/**
 * A node's part in the cluster: it beats, starts and stops the threads that the directory says are this
 * node's, and keeps a link from each thread here to each thread elsewhere that it speaks to. Who names the other in
 * its list of links opens it.
 *
 * The conversation of a link: open (a request), opened or refused, *[frames both ways], close by either.
 */

import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { World } from '#services/kit/world.ts'
import { type Beat, Directory, type Duty, type Owner } from './directory.ts'
import { LINK_BYTES, linkName, readFrame } from './frames.ts'
import { Link } from './link.ts'
import { encode, type Opening, readBeat, readOpened, readOpening, readSaid } from './messages.ts'
import type { NodeLine } from './node-line.ts'

const BEAT_EVERY_MS = 300
/** How often missing links are looked for. */
const LINK_EVERY_MS = 50
const MARK_EVERY_MS = 1_000
/** A link whose peer has not even said a mark for so many times the silence of a node has lost it. */
const MARK_SILENCES = 5
const OPEN_MS_MAX = 2_000
const LINKS_MAX = 10_000
const NOT_OPENED = 'it could not be opened'

/** A thread of this node, whether it runs or not, and whom it speaks to. */
export type BridgedThread = { readonly name: string; readonly links: readonly string[] }

type BridgeOptions = {
  readonly cluster: string
  readonly node: string
  /** What all nodes must have in common, in words. */
  readonly shape: string
  /** The slots of the whole cluster, and those that this node can serve. */
  readonly slots: readonly string[]
  readonly offers: readonly string[]
  /** Threads that always run here, and those of the slots. */
  readonly threads: readonly BridgedThread[]
  /** A node that was not heard for so long is gone. */
  readonly silenceMs: number
  /** Which slots move to their first node when it has been there for so long; 0: none does. */
  readonly moves: readonly string[]
  readonly moveAfterMs: number
}

type BridgePorts = {
  readonly line: NodeLine
  readonly world: Pick<World, 'monotonicMs' | 'random' | 'timers'>
  readonly log: {
    info(fields: object, message: string): void
    warn(fields: object, message: string): void
  }
  /** Starts the thread of a slot; resolves when it is ready. Rejects where it is not wanted any more before that. */
  readonly begin: (slot: string, isWanted: () => boolean) => Promise<void>
  /** Resolves when a thread that was begun has ended, however. */
  readonly ended: (slot: string) => Promise<string>
  /** Resolves when the thread of a slot, which is to be ended, does nothing more that another could do. */
  readonly handOver: (slot: string) => Promise<void>
  readonly end: (slot: string) => Promise<void>
  /** Hands a thread the port to a peer; false while there is no such thread. */
  readonly connect: (thread: string, peer: string, port: MessagePort) => Promise<boolean>
  /** This node was part of the cluster and cannot be any longer. */
  readonly unfit: (why: string) => void
  /** Another node says something to all. */
  readonly heardAll: (message: object) => void
}

export type Bridge = {
  /** Hands everything over to others; resolves when nothing is left here. */
  leave(): Promise<void>
  /** This node can serve a slot within moments from now on: what belongs to it may move here. */
  warmed(): void
  /** Ends the links and says goodbye. */
  stop(): void
  /** Says something to all other nodes. It may be lost, and is where it is larger than a message. */
  sayAll(message: object): void
  /** The connection is lost, or may have gaps. */
  lost(why: string): void
  /** Empty, or what is wrong. */
  why(): string
  nodes(): readonly Beat[]
  readonly links: number
  /** Resolves when it knows who is there; rejects when it cannot be one of them. */
  readonly joined: Promise<void>
}

type Known = { readonly link: Link; readonly node: string; readonly incarnation: string }

export function openBridge(options: BridgeOptions, ports: BridgePorts): Bridge {
  const { cluster, node, shape, offers, silenceMs, moves, moveAfterMs } = options
  const { line, log } = ports
  const { monotonicMs: nowMs, random } = ports.world
  const incarnation = random.bytes(8).toString('hex')
  const slots = new Set(options.slots)
  const directory = new Directory({
    node,
    incarnation,
    shape,
    offers,
    silenceMs,
    moves,
    moveAfterMs,
  })
  /** By the name in their frames; and which of them leads from a thread to a peer. */
  const links = new Map<string, Known>()
  const ways = new Map<string, Link>()
  const opening = new Set<string>()
  /** The epoch of each slot that is taken here. */
  const taken = new Map<string, number>()
  const releasing = new Set<string>()
  /** Starts that are under way, also of what was let go of meanwhile. */
  const beginnings = new Map<string, Promise<void>>()
  /** Threads that others may have by now, and that are not gone yet. */
  const endings = new Map<string, Promise<void>>()
  let left: (() => void) | undefined
  let stopped = false
  let hasJoined = false
  const joined = Promise.withResolvers<void>()

  const subjects = {
    beat: `${cluster}.beat`,
    all: `${cluster}.all`,
    open: (to: string) => `${cluster}.open.${to}`,
    data: (to: string) => `${cluster}.data.${to}`,
  }

  function sayBeat(gone = false): void {
    if (line.isConnected) line.publish(subjects.beat, encode(directory.beat(nowMs(), gone)))
  }

  function follow(duties: readonly Duty[]): void {
    for (const duty of duties) {
      if (duty.type === 'take') void take(duty.slot, duty.epoch)
      else if (duty.type === 'release') void release(duty.slot, duty.why)
      else if (duty.type === 'unfit' && hasJoined) ports.unfit(duty.why)
      else if (duty.type === 'unfit') joined.reject(new Error(duty.why))
      else {
        log.warn({ node: duty.node, why: duty.why }, `node ${duty.node} is gone`)
        endLinks(`node ${duty.node} is gone`, (known) => known.incarnation === duty.incarnation)
      }
    }
    if (duties.length > 0 && !stopped) sayBeat()
  }

  async function take(slot: string, epoch: number): Promise<void> {
    const begunMs = nowMs()
    taken.set(slot, epoch)
    log.info({ slot, epoch }, `this node takes ${slot}`)
    const before = [endings.get(slot), beginnings.get(slot)]
    const isWanted = () => taken.get(slot) === epoch && !releasing.has(slot)
    const beginning = Promise.allSettled(before).then(() => ports.begin(slot, isWanted))
    beginnings.set(slot, beginning)
    try {
      await beginning
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      log.warn({ slot, epoch, why }, `${slot} did not start here`)
      slotEnded(slot, epoch)
      return
    } finally {
      if (beginnings.get(slot) === beginning) beginnings.delete(slot)
    }
    directory.serving(slot, nowMs())
    log.info({ slot, epoch, ms: nowMs() - begunMs }, `this node serves ${slot}`)
    sayBeat()
    void ports.ended(slot).then((why) => {
      if (taken.get(slot) === epoch && !releasing.has(slot))
        log.warn({ slot, epoch, why }, `${slot} has ended here`)
      slotEnded(slot, epoch)
    })
  }

  async function release(slot: string, why: string): Promise<void> {
    const epoch = taken.get(slot)
    releasing.add(slot)
    log.info({ slot, epoch, why }, `this node lets go of ${slot}`)
    const warn = (error: unknown) => log.warn({ slot, err: error }, `${slot} did not end well`)
    await ports.handOver(slot).catch(warn)
    const ending = ports.end(slot).catch(warn)
    endings.set(slot, ending)
    slotEnded(slot, epoch)
    await ending
    if (endings.get(slot) === ending) endings.delete(slot)
  }

  /** It may be told twice, and have been taken again meanwhile. */
  function slotEnded(slot: string, epoch: number | undefined): void {
    if (taken.get(slot) !== epoch) return
    taken.delete(slot)
    releasing.delete(slot)
    follow(directory.ended(slot, nowMs()))
    sayBeat()
    if (directory.holdsNothing) left?.()
  }

  function endLinks(why: string, which: (known: Known) => boolean): void {
    for (const known of [...links.values()]) if (which(known)) known.link.end(why)
  }

  /** A link with one of its ends here; `way` is which thread here it leads to whom. */
  function addLink(
    id: Buffer,
    way: string,
    to: Pick<Owner, 'node' | 'incarnation'>,
    port: MessagePort,
  ): Link {
    const name = linkName(id)
    const link: Link = new Link(id, {
      port,
      payloadMax: line.payloadMax,
      send: (frame) => {
        if (line.isConnected) line.publish(subjects.data(to.node), frame)
      },
      ended(why) {
        links.delete(name)
        if (ways.get(way) === link) ways.delete(way)
        // Who serves it has just changed, and is asked again in a moment.
        if (!stopped && why !== NOT_OPENED)
          log.info({ way, node: to.node, why }, `the link ${way} has ended: ${why}`)
      },
    })
    links.set(name, { link, node: to.node, incarnation: to.incarnation })
    ways.get(way)?.end('it is made anew')
    ways.set(way, link)
    return link
  }

  /** Opens what is missing, and ends what leads to a node that does not serve it any more. */
  function lookAtLinks(): void {
    if (!line.isConnected || stopped) return
    for (const { name: thread, links: peers } of options.threads) {
      if (slots.has(thread) && directory.ownerOf(thread)?.incarnation !== incarnation) continue
      for (const peer of peers) {
        if (!slots.has(peer)) continue
        const owner = directory.ownerOf(peer)
        const way = `${thread}>${peer}`
        const link = ways.get(way)
        const known = link === undefined ? undefined : knownOf(link)
        if (owner === undefined || owner.incarnation === incarnation) continue
        if (known?.incarnation === owner.incarnation || opening.has(way) || links.size >= LINKS_MAX)
          continue
        opening.add(way)
        void openLink(thread, peer, owner).finally(() => opening.delete(way))
      }
    }
  }

  function knownOf(link: Link): Known | undefined {
    for (const known of links.values()) if (known.link === link) return known
    return undefined
  }

  async function openLink(thread: string, peer: string, owner: Owner): Promise<void> {
    const id = random.bytes(LINK_BYTES)
    const { port1, port2 } = new MessageChannel()
    // From now on frames may come, and wait in the port.
    const link = addLink(id, `${thread}>${peer}`, owner, port1)
    const asked: Opening = {
      ...{ link: id.toString('hex'), node, incarnation },
      ...{ thread, peer, peerIncarnation: owner.incarnation },
    }
    const answer = await line.request(subjects.open(owner.node), encode(asked), OPEN_MS_MAX)
    const opened = answer !== undefined && readOpened(answer)
    if (!opened || !link.isOpen) link.end(NOT_OPENED, answer === undefined)
    else if (!(await ports.connect(thread, peer, port2))) link.end('its thread is not there')
    if (!link.isOpen) port2.close()
  }

  async function accept(asked: Opening): Promise<boolean> {
    const { thread, peer, peerIncarnation } = asked
    if (
      stopped ||
      peerIncarnation !== incarnation ||
      directory.ownerOf(peer)?.incarnation !== incarnation
    )
      return false
    if (links.size >= LINKS_MAX) return false
    const { port1, port2 } = new MessageChannel()
    const way = `${peer}<${thread}@${asked.node}`
    const link = addLink(Buffer.from(asked.link, 'hex'), way, asked, port1)
    if (await ports.connect(peer, thread, port2)) return true
    link.end('its thread is not there', false)
    port2.close()
    return false
  }

  line.subscribe(subjects.beat, (bytes) => {
    const beat = readBeat(bytes, slots)
    if (!stopped && beat !== undefined) follow(directory.hear(beat, nowMs()))
  })
  line.subscribe(subjects.all, (bytes) => {
    const said = readSaid(bytes)
    if (!stopped && said !== undefined && said.incarnation !== incarnation)
      ports.heardAll(said.message)
  })
  line.subscribe(subjects.open(node), (bytes, answer) => {
    const asked = readOpening(bytes)
    if (asked !== undefined) void accept(asked).then((ok) => answer?.(encode({ ok })))
  })
  line.subscribe(subjects.data(node), (bytes) => {
    const frame = readFrame(bytes)
    if (frame !== undefined) links.get(frame.link)?.link.hear(frame)
  })
  const { every } = ports.world.timers
  const cancels = [
    every(BEAT_EVERY_MS, () => {
      follow(directory.tick(nowMs()))
      if (directory.isSettled(nowMs())) {
        hasJoined = true
        joined.resolve()
      }
      sayBeat()
    }),
    every(LINK_EVERY_MS, lookAtLinks),
    every(MARK_EVERY_MS, () => {
      if (!line.isConnected) return
      for (const { link } of [...links.values()]) link.mark(MARK_SILENCES * silenceMs)
    }),
  ]
  sayBeat()

  return {
    async leave() {
      const done = new Promise<void>((resolve) => {
        left = resolve
      })
      follow(directory.leave(nowMs()))
      sayBeat()
      if (!directory.holdsNothing) await done
      await Promise.all(endings.values())
    },
    warmed: () => directory.warmed(),
    stop() {
      if (stopped) return
      stopped = true
      joined.resolve()
      for (const cancel of cancels) cancel()
      endLinks('this node stops', () => true)
      sayBeat(true)
    },
    sayAll(message) {
      if (!line.isConnected || stopped) return
      const bytes = encode({ incarnation, message })
      if (bytes.byteLength <= line.payloadMax) line.publish(subjects.all, bytes)
    },
    lost(why) {
      directory.cutOff()
      endLinks(why, () => true)
    },
    why: () => (line.isConnected ? '' : 'the connection to NATS is lost'),
    nodes: () => directory.nodes(nowMs()),
    joined: joined.promise,
    get links() {
      return links.size
    },
  }
}
