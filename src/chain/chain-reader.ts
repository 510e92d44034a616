/**
 * Reads ranges of blocks for the indexer. What it answers for a range belongs together: it comes from
 * one node, the blocks are linked to the one before by their hashes, every log names a hash that was
 * seen, and near the head each header's filter is asked whether logs are missing. Providers put many
 * nodes behind one address, and the one that lags says "no logs" instead of "not yet".
 */

import type { Hex } from 'viem'
import type { BlockMark, ChainEvent } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import { type Header, headerOf, headersOf, hexOf, logsOf } from './block-reads.ts'
import { mayContain } from './bloom.ts'
import { hexAddress } from './call.ts'
import { type ChainReaderOptions, eventsOf } from './chain-events.ts'
import type { ChainLog } from './chain-log.ts'
import type { ChainClient } from './clients.ts'
import { MARKET_TOPICS } from './market-contract.ts'

/**
 * `read`: the range. `reorg`: the block before it is not what it was. `behind`: the node does not
 * have these blocks (any more, or yet).
 */
export type RangeReading =
  | {
      readonly kind: 'read'
      readonly upTo: BlockMark
      readonly marks: readonly BlockMark[]
      readonly events: readonly ChainEvent[]
    }
  | { readonly kind: 'reorg' }
  | { readonly kind: 'behind' }

type ChainReader = {
  head(): Promise<BlockMark>
  /** The block at this height; undefined when the node has none. */
  mark(number: number): Promise<BlockMark | undefined>
  /** Everything that happened behind `after`, up to and with the block `upTo`. */
  range(after: BlockMark, upTo: number): Promise<RangeReading>
  /** The newest of the marks that the chain still has; they come newest first. */
  ancestor(marks: readonly BlockMark[]): Promise<BlockMark | undefined>
}

/** Up to so many blocks every header is read, and the whole range is checked link by link. */
const HEADERS_MAX = 32

export function makeChainReader(options: ChainReaderOptions): ChainReader {
  const { client } = options
  return {
    async head() {
      const header = await headerOf(client, 'latest')
      if (header === undefined) throw inconsistent('the node has no newest block')
      return markOf(header)
    },
    async mark(number) {
      const header = await headerOf(client, number)
      return header === undefined ? undefined : markOf(header)
    },
    range: (after, upTo) => readRange(options, after, upTo),
    async ancestor(marks) {
      const node = client.pinned()
      // Halving works as hashes of linked blocks agree up to some height and differ above it.
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
    },
  }
}

async function readRange(
  options: ChainReaderOptions,
  after: BlockMark,
  upTo: number,
): Promise<RangeReading> {
  const { marketFactory, conditionalTokens, settlement } = options.contracts
  const node = options.client.pinned()
  const from = after.number + 1
  const whole = upTo - after.number <= HEADERS_MAX
  const wanted = whole ? numbers(from, upTo) : [from, upTo]
  const headers = await headersOf(node, wanted)
  if (headers === undefined) {
    // A reorg may have left fewer blocks than there were, and then the one before differs as well.
    const before = await headerOf(node, after.number)
    return { kind: before !== undefined && before.hash !== after.hash ? 'reorg' : 'behind' }
  }
  if (!(await follows(node, headers.get(from), after))) return { kind: 'reorg' }
  if (whole) checkLinks(headers, from, upTo)

  const ours = [marketFactory, conditionalTokens, settlement].map(hexAddress)
  const span = { fromBlock: hexOf(from), toBlock: hexOf(upTo) }
  const logs = [
    ...(await logsOf(node, { ...span, address: ours })),
    ...(await logsOf(node, { ...span, topics: [MARKET_TOPICS] })),
  ].sort((a, b) => a.blockNumber - b.blockNumber || a.logIndex - b.logIndex)
  const missing = [...new Set(logs.map((log) => log.blockNumber))].filter((n) => !headers.has(n))
  const more = await headersOf(node, missing)
  for (const [number, header] of more ?? []) headers.set(number, header)
  for (const log of logs) {
    if (headers.get(log.blockNumber)?.hash !== log.blockHash) {
      throw inconsistent(`the logs of block ${log.blockNumber} are of another block`)
    }
  }
  if (whole) await checkFilters(node, headers, logs, ours)
  const last = headers.get(upTo)
  // Read again at the end: what came in between belongs to this chain.
  const again = await headerOf(node, upTo)
  if (last === undefined || again?.hash !== last.hash) {
    throw inconsistent(`block ${upTo} changed while its range was read`)
  }
  const events = await eventsOf(options, node, logs, headers)
  const eventful = new Set(events.map((event) => event.blockNumber))
  const marks = [...headers.values()]
    .filter(({ number }) => number === upTo || whole || eventful.has(number))
    .sort((a, b) => a.number - b.number)
    .map(markOf)
  return { kind: 'read', upTo: markOf(last), marks, events }
}

/** A local chain makes many empty blocks at once by leaving out their parents: it names zero instead. */
const NO_PARENT = /^0x0+$/

async function follows(
  node: ChainClient,
  header: Header | undefined,
  after: BlockMark,
): Promise<boolean> {
  if (header === undefined || !NO_PARENT.test(header.parentHash)) {
    return header?.parentHash === after.hash
  }
  return (await headerOf(node, after.number))?.hash === after.hash
}

function checkLinks(headers: ReadonlyMap<number, Header>, from: number, upTo: number): void {
  for (let number = from + 1; number <= upTo; number++) {
    const parent = headers.get(number)?.parentHash ?? ''
    if (!NO_PARENT.test(parent) && parent !== headers.get(number - 1)?.hash) {
      throw inconsistent(`block ${number} does not follow the one before it`)
    }
  }
}

/** Where a header's filter affirms what no log showed, the block itself is asked. */
async function checkFilters(
  node: ChainClient,
  headers: ReadonlyMap<number, Header>,
  logs: readonly ChainLog[],
  addresses: readonly Hex[],
): Promise<void> {
  const told = new Set<string>()
  for (const log of logs) {
    told.add(`${log.blockNumber}${log.address}`)
    told.add(`${log.blockNumber}${log.topics[0]}`)
  }
  for (const { number, hash, bloom } of headers.values()) {
    if (bloom === undefined) continue
    const silent = (value: Hex) => !told.has(`${number}${value}`) && mayContain(bloom, value)
    const address = addresses.filter(silent)
    const topics = MARKET_TOPICS.filter(silent)
    const lacking =
      (address.length > 0 && (await logsOf(node, { blockHash: hash, address })).length > 0) ||
      (topics.length > 0 && (await logsOf(node, { blockHash: hash, topics: [topics] })).length > 0)
    if (lacking) throw inconsistent(`logs of block ${number} are missing in its range`)
  }
}

function markOf({ number, hash, atSec }: Header): BlockMark {
  return { number, hash, atSec }
}

function inconsistent(why: string): Fault {
  return new Fault('CHAIN_INCONSISTENT', why, { retryable: true })
}

function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index)
}
