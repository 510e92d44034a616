/**
 * The links between threads of this node and threads of other nodes. Each thread has a list of the threads to which it
 * needs links. Each node opens the links that its own threads need.
 *
 * To open a link, one node sends a request, and the other node accepts or refuses it. Both nodes then send frames until
 * either node closes the link.
 */

import { MessageChannel } from 'node:worker_threads'
import type { BridgedThread, BridgePorts } from './bridge-ports.ts'
import type { Directory, Owner } from './directory.ts'
import { LINK_BYTES, readFrame } from './frames.ts'
import { makeLinkTable, NOT_OPENED } from './link-table.ts'
import { encode, type Opening, readOpened, readOpening } from './messages.ts'

/** Interval of the search for missing links. */
const LINK_EVERY_MS = 50
const MARK_EVERY_MS = 1_000
/**
 * Number of `silenceMs` periods after which a link ends if it has received no frame. `silenceMs` is the time without
 * beats after which a node counts as dead. Even an idle link sends a frame, the mark, each second.
 */
const MARK_SILENCES = 5
const OPEN_MS_MAX = 2_000

type BridgeLinksOptions = {
  readonly node: string
  readonly incarnation: string
  /** All slots of the cluster. A slot is a thread that runs on one node at a time. */
  readonly slots: readonly string[]
  readonly threads: readonly BridgedThread[]
  readonly silenceMs: number
  readonly directory: Directory
  readonly subjects: {
    readonly open: (to: string) => string
    readonly data: (to: string) => string
  }
}

export function makeBridgeLinks(
  options: BridgeLinksOptions,
  ports: Pick<BridgePorts, 'line' | 'log' | 'world' | 'connect'>,
) {
  const { node, incarnation, silenceMs, directory, subjects } = options
  const { line } = ports
  const { random, timers } = ports.world
  const slots = new Set(options.slots)
  const table = makeLinkTable(ports, subjects.data)
  const opening = new Set<string>()
  let stopped = false

  /** Opens links that are missing between threads of this node and the threads of other nodes. */
  function lookAtLinks(): void {
    if (!line.isConnected || stopped) return
    for (const { name: thread, links: peers } of options.threads) {
      if (slots.has(thread) && directory.ownerOf(thread)?.incarnation !== incarnation) continue
      for (const peer of peers) {
        if (!slots.has(peer)) continue
        const owner = directory.ownerOf(peer)
        const way = `${thread}>${peer}`
        if (owner === undefined || owner.incarnation === incarnation) continue
        if (table.peerOf(way) === owner.incarnation || opening.has(way) || table.isFull()) continue
        opening.add(way)
        void openLink(thread, peer, owner).finally(() => opening.delete(way))
      }
    }
  }

  async function openLink(thread: string, peer: string, owner: Owner): Promise<void> {
    const id = random.bytes(LINK_BYTES)
    const { port1, port2 } = new MessageChannel()
    // Add the link before the request, because frames may arrive before the answer. Early frames wait in the port.
    const link = table.add(id, `${thread}>${peer}`, owner, port1)
    const asked: Opening = {
      ...{ link: id.toString('hex'), node, incarnation },
      ...{ thread, peer, peerIncarnation: owner.incarnation },
    }
    const answer = await line.request(subjects.open(owner.node), encode(asked), OPEN_MS_MAX)
    const opened = answer !== undefined && readOpened(answer)
    if (!opened || !link.isOpen) link.end(NOT_OPENED, answer === undefined)
    else if (!(await ports.connect(thread, peer, port2)))
      link.end('the requested thread is not running')
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
    if (table.isFull()) return false
    const { port1, port2 } = new MessageChannel()
    const way = `${peer}<${thread}@${asked.node}`
    const link = table.add(Buffer.from(asked.link, 'hex'), way, asked, port1)
    if (await ports.connect(peer, thread, port2)) return true
    link.end('the requested thread is not running', false)
    port2.close()
    return false
  }

  line.subscribe(subjects.open(node), (bytes, answer) => {
    const asked = readOpening(bytes)
    if (asked !== undefined) void accept(asked).then((ok) => answer?.(encode({ ok })))
  })
  line.subscribe(subjects.data(node), (bytes) => {
    const frame = readFrame(bytes)
    if (frame !== undefined) table.find(frame.link)?.receive(frame)
  })
  const cancels = [
    timers.every(LINK_EVERY_MS, lookAtLinks),
    timers.every(MARK_EVERY_MS, () => {
      if (line.isConnected) table.mark(MARK_SILENCES * silenceMs)
    }),
  ]

  return {
    end: table.end,
    size: table.size,
    stop(why: string): void {
      stopped = true
      for (const cancel of cancels) cancel()
      table.stop(why)
    },
  }
}
