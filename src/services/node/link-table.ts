/**
 * The links with one end at a thread of this node. A link is found by its name, which each of its frames contains, or
 * by the pair of threads that it connects.
 */

import type { MessagePort } from 'node:worker_threads'
import type { BridgePorts } from './bridge-ports.ts'
import type { Owner } from './directory.ts'
import { linkName } from './frames.ts'
import { Link } from './link.ts'

const LINKS_MAX = 10_000
/** Reason for the end of a link that the other node refused to open. */
export const NOT_OPENED = 'it could not be opened'

type Known = { readonly link: Link; readonly incarnation: string }

export function makeLinkTable(
  { line, log }: Pick<BridgePorts, 'line' | 'log'>,
  subjectOf: (node: string) => string,
) {
  const links = new Map<string, Known>()
  const ways = new Map<string, Link>()
  let stopped = false

  /** Adds a link that ends at a thread of this node. `way` is the pair of that thread and its peer. */
  function add(
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
        if (line.isConnected) line.publish(subjectOf(to.node), frame)
      },
      ended(why) {
        links.delete(name)
        if (ways.get(way) === link) ways.delete(way)
        // Do not log that a link was not opened. This happens when the requested thread has just moved to another node,
        // and this node soon repeats the request.
        if (!stopped && why !== NOT_OPENED)
          log.info({ way, node: to.node, why }, `the link ${way} has ended: ${why}`)
      },
    })
    links.set(name, { link, incarnation: to.incarnation })
    ways.get(way)?.end('it is opened again')
    ways.set(way, link)
    return link
  }

  function end(why: string, which: (known: Known) => boolean): void {
    for (const known of [...links.values()]) if (which(known)) known.link.end(why)
  }

  return {
    add,
    end,
    find: (name: string): Link | undefined => links.get(name)?.link,
    /** Returns the incarnation of the node at the other end of the link; undefined if the link does not exist. */
    peerOf(way: string): string | undefined {
      const link = ways.get(way)
      for (const known of links.values()) if (known.link === link) return known.incarnation
      return undefined
    },
    /**
     * Sends a mark (the number of frames sent so far) over every link. Ends links that have received no frame for
     * longer than `silenceMs`.
     */
    mark(silenceMs: number): void {
      for (const { link } of [...links.values()]) link.mark(silenceMs)
    },
    size: () => links.size,
    isFull: () => links.size >= LINKS_MAX,
    stop(why: string): void {
      stopped = true
      end(why, () => true)
    },
  }
}
