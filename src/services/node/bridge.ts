/**
 * A node's part in the cluster: sends beats, starts and stops the threads that the directory assigns to this node, and
 * keeps a link from each thread here to its peers elsewhere. The thread that lists the other in its links opens the
 * link.
 *
 * Protocol of a link: open (a request), opened or refused, *[frames in both directions], close by either.
 */

import { MessageChannel, type MessagePort } from 'node:worker_threads'
import type { World } from '#services/kit/world.ts'
import { type Beat, Directory, type Duty, type Owner } from './directory.ts'
import { LINK_BYTES, linkName, readFrame } from './frames.ts'
import { Link } from './link.ts'
import { encode, type Opening, readBeat, readOpened, readOpening, readSaid } from './messages.ts'
import type { NodeLine } from './node-line.ts'

const BEAT_EVERY_MS = 300
/** Interval of the search for missing links. */
const LINK_EVERY_MS = 50
const MARK_EVERY_MS = 1_000
/** A link is lost if its peer has sent no mark for this many times the silence of a node. */
const MARK_SILENCES = 5
const OPEN_MS_MAX = 2_000
const LINKS_MAX = 10_000
const NOT_OPENED = 'it could not be opened'

/** A thread of this node, running or not, and its peers. */
export type BridgedThread = { readonly name: string; readonly links: readonly string[] }

type BridgeOptions = {
  readonly cluster: string
  readonly node: string
  /** Settings that all nodes must have in common, as text. */
  readonly shape: string
  /** Slots of the whole cluster, and those that this node can serve. */
  readonly slots: readonly string[]
  readonly offers: readonly string[]
  /** Threads that always run here, and threads of the slots. */
  readonly threads: readonly BridgedThread[]
  /** A node is dead after this long without a beat. */
  readonly silenceMs: number
  /** Slots that move to their first node after it has been ready for this long; 0 means never. */
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

export type Bridge = {
  /** Hands all slots over; resolves when none is left here. */
  leave(): Promise<void>
  /** Reports that this node can now serve a slot within moments, so slots may move here. */
  warmed(): void
  /** Ends the links and sends the last beat. */
  stop(): void
  /** Sends a message to all other nodes. It may be lost, and is dropped if it exceeds the maximum size. */
  sayAll(message: object): void
  /** The connection is lost, or may have gaps. */
  lost(why: string): void
  /** Returns the problem; empty if there is none. */
  why(): string
  nodes(): readonly Beat[]
  /** Returns the node that serves each slot of the cluster; undefined where none does. */
  owners(): readonly { readonly slot: string; readonly node: string | undefined }[]
  readonly links: number
  /** Resolves when the other nodes are known; rejects if this node cannot join. */
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
  /** Links by the name in their frames, and by thread and peer. */
  const links = new Map<string, Known>()
  const ways = new Map<string, Link>()
  const opening = new Set<string>()
  /** Epoch of each slot that this node has taken. */
  const taken = new Map<string, number>()
  const releasing = new Set<string>()
  /** Starts in progress, also of slots that were released meanwhile. */
  const beginnings = new Map<string, Promise<void>>()
  /** Threads that may run elsewhere by now and have not ended here. */
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
    ports.taken(slot, epoch)
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
    log.info({ slot, epoch, why }, `this node releases ${slot}`)
    const warn = (error: unknown) => log.warn({ slot, err: error }, `${slot} did not end well`)
    await ports.handOver(slot).catch(warn)
    const ending = ports.end(slot).catch(warn)
    endings.set(slot, ending)
    slotEnded(slot, epoch)
    await ending
    if (endings.get(slot) === ending) endings.delete(slot)
  }

  /** May be called twice, and the slot may be taken again meanwhile. */
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

  /** Adds a link with one end here; `way` is the pair of the thread here and its peer. */
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
        // The owner has just changed; retried in a moment.
        if (!stopped && why !== NOT_OPENED)
          log.info({ way, node: to.node, why }, `the link ${way} has ended: ${why}`)
      },
    })
    links.set(name, { link, node: to.node, incarnation: to.incarnation })
    ways.get(way)?.end('it is made anew')
    ways.set(way, link)
    return link
  }

  /** Opens missing links, and ends links to nodes that no longer serve the thread. */
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
    // From now on frames may arrive, and wait in the port.
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
    owners: () => options.slots.map((slot) => ({ slot, node: directory.ownerOf(slot)?.node })),
    joined: joined.promise,
    get links() {
      return links.size
    },
  }
}
