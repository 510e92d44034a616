/** Compares the parent hash of each block with the hash of the block before it, to notice replaced blocks. */

import { Fault } from '#domain/fault.ts'
import { type Header, headerOf } from './block-reads.ts'
import type { ChainClient } from './clients.ts'

type Mark = { readonly number: number; readonly hash: string }

/**
 * Matches an all-zero parent hash, which means that the node does not store the parent block. A local chain that
 * creates many empty blocks at once does not store each of them.
 */
const NO_PARENT = /^0x0+$/

/** Returns whether the block `header` directly follows the known block `after`. */
export async function follows(
  node: ChainClient,
  header: Header | undefined,
  after: Mark,
): Promise<boolean> {
  if (header === undefined || !NO_PARENT.test(header.parentHash)) {
    return header?.parentHash === after.hash
  }
  return (await headerOf(node, after.number))?.hash === after.hash
}

export function checkLinks(headers: ReadonlyMap<number, Header>, from: number, upTo: number): void {
  for (let number = from + 1; number <= upTo; number++) {
    const parent = headers.get(number)?.parentHash ?? ''
    if (!NO_PARENT.test(parent) && parent !== headers.get(number - 1)?.hash) {
      throw inconsistent(`the parent hash of block ${number} is not the hash of the block before`)
    }
  }
}

/**
 * Returns the newest of these known blocks that the node still has. `marks` has the number and hash of each block,
 * newest first.
 */
export async function ancestorOf<M extends Mark>(
  node: ChainClient,
  marks: readonly M[],
): Promise<M | undefined> {
  // Binary search: the known blocks agree with the node's blocks up to some height and differ above it.
  let low = 0
  let high = marks.length
  while (low < high) {
    const middle = (low + high) >> 1
    const mark = marks[middle]
    if (mark === undefined) break
    const header = await headerOf(node, mark.number)
    if (header?.hash === mark.hash) high = middle
    else low = middle + 1
  }
  return marks[low]
}

/** Creates a fault for contradicting answers of nodes; a retry usually helps. */
export function inconsistent(why: string): Fault {
  return new Fault('CHAIN_INCONSISTENT', why, { retryable: true })
}
