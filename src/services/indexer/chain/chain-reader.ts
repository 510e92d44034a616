/**
 * Reads ranges of blocks for the indexer. The result for a range is consistent: it comes from one node, and the blocks
 * are linked by their hashes. Every log names a requested block and that block's hash. In a short range, each header’s
 * Bloom filter is checked for missing logs. A long range is read only from a node whose head is far above the range.
 * The reason is that a provider may have many nodes behind one address, and a node that lags answers “no logs” instead
 * of “not yet”.
 *
 * Logs are requested by contract address. Markets are requested in groups of addresses: all unresolved markets
 * (resolved markets emit nothing), and the markets created in the range. If there are more than `MARKETS_ASKED_MAX`
 * markets, their logs are requested by topic from any address. A stranger can then emit so many logs with these topics
 * that a node refuses to return them. In that case, the indexer reads shorter ranges, and at last single blocks from
 * their receipts.
 */

import { isDeepStrictEqual } from 'node:util'
import type { Hex } from 'viem'
import { ancestorOf, checkLinks, follows, inconsistent } from '#chain/block-links.ts'
import {
  type Header,
  headerOf,
  headersOf,
  hexOf,
  type LogFilter,
  logsOf,
  numbers,
  receiptLogsOf,
} from '#chain/block-reads.ts'
import { mayContain } from '#chain/bloom.ts'
import { hexAddress } from '#chain/call.ts'
import type { ChainLog } from '#chain/chain-log.ts'
import type { ChainClient } from '#chain/clients.ts'
import { MARKET_TOPICS } from '#chain/market-contract.ts'
import type { BlockMark, ChainEvent, SetAside } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import { CHAIN_HEADERS_PER_RANGE_MAX } from '#domain/limits.ts'
import { partsOf } from '#domain/parts-of.ts'
import { type ChainReaderOptions, createdIn, eventsOf } from './chain-events.ts'

/**
 * `read`: the range was read. `reorg`: the block before the range has changed. `behind`: the node does not have all
 * blocks of the range, or its head is too low.
 */
export type RangeReading =
  | {
      readonly kind: 'read'
      readonly upTo: BlockMark
      readonly marks: readonly BlockMark[]
      readonly events: readonly ChainEvent[]
      /** Logs of our contracts that cannot be used. */
      readonly setAside: readonly SetAside[]
    }
  | { readonly kind: 'reorg' }
  | { readonly kind: 'behind' }

/** Source of a range’s logs: log queries, or receipts, which are large and therefore read for a few blocks only. */
export type LogSource = 'logs' | 'receipts'

type ChainReader = {
  head(): Promise<BlockMark>
  /** Returns the block at this height; undefined if the node has no such block. */
  mark(number: number): Promise<BlockMark | undefined>
  /** Reads the blocks after `after`, up to and including the block `upTo`. */
  range(after: BlockMark, upTo: number, by?: LogSource): Promise<RangeReading>
  /** Returns the newest of the given blocks that is still on the chain; `marks` are newest first. */
  ancestor(marks: readonly BlockMark[]): Promise<BlockMark | undefined>
}

/** Maximum number of addresses per log request. Ethereum nodes allow a thousand or more, some providers fewer. */
const ADDRESSES_MAX = 200
/** Maximum number of markets whose logs are requested by address; with more markets, logs are requested by topic. */
const MARKETS_ASKED_MAX = 5 * ADDRESSES_MAX

export function makeChainReader(options: ChainReaderOptions): ChainReader {
  const { client } = options
  return {
    async head() {
      const header = await headerOf(client, 'latest')
      if (header === undefined)
        throw inconsistent('the Ethereum node does not return its newest block')
      return markOf(header)
    },
    async mark(number) {
      const header = await headerOf(client, number)
      return header === undefined ? undefined : markOf(header)
    },
    async range(after, upTo, by = 'logs') {
      try {
        return await readRange(options, after, upTo, by)
      } catch (error) {
        // Switch to the next node address for later reads. The current node may report new blocks correctly and still
        // fail to return their logs, which the client does not notice by itself.
        if (!(error instanceof Fault) || error.code !== 'CHAIN_RANGE_TOO_LARGE') client.leave()
        throw error
      }
    },
    ancestor: (marks) => ancestorOf(client.pinned(), marks),
  }
}

async function readRange(
  options: ChainReaderOptions,
  after: BlockMark,
  upTo: number,
  by: LogSource,
): Promise<RangeReading> {
  const node = options.client.pinned()
  const from = after.number + 1
  // In a short range, every header is read, and the parent hash of every block is checked.
  const whole = upTo - after.number <= CHAIN_HEADERS_PER_RANGE_MAX
  if (!whole) {
    // This node may not be the one that reported the head, and it may lack the logs of its own newest blocks. So its
    // head must be far above a long range.
    const newest = await headerOf(node, 'latest')
    if ((newest?.number ?? 0) < upTo + CHAIN_HEADERS_PER_RANGE_MAX) return { kind: 'behind' }
  }
  const wanted = whole || by === 'receipts' ? numbers(from, upTo) : [from, upTo]
  const headers = await headersOf(node, wanted)
  if (headers === undefined) {
    // The node does not have all blocks of the range. If the block before the range has another hash, a reorg made the
    // chain shorter. Otherwise the node lags.
    const before = await headerOf(node, after.number)
    return { kind: before !== undefined && before.hash !== after.hash ? 'reorg' : 'behind' }
  }
  if (!(await follows(node, headers.get(from), after))) return { kind: 'reorg' }
  if (whole) checkLinks(headers, from, upTo)

  const found =
    by === 'receipts'
      ? await fromReceipts(options, node, headers)
      : await fromLogs(options, node, { from, upTo })
  const logs = inOrder(found.logs, { from, upTo })
  const missing = [...new Set(logs.map((log) => log.blockNumber))].filter((n) => !headers.has(n))
  const more = await headersOf(node, missing)
  for (const [number, header] of more ?? []) headers.set(number, header)
  for (const log of logs) {
    if (headers.get(log.blockNumber)?.hash !== log.blockHash) {
      throw inconsistent(
        `the logs returned for block ${log.blockNumber} have the hash of a different block`,
      )
    }
  }
  if (whole) await checkFilters(node, headers, logs, found.filters)
  const last = headers.get(upTo)
  // Reads the last block again: if its hash is unchanged, all logs of the range belong to one chain.
  const again = await headerOf(node, upTo)
  if (last === undefined || again?.hash !== last.hash) {
    throw inconsistent(`block ${upTo} changed while its range was read`)
  }
  const { events, setAside } = await eventsOf(options, node, logs, headers)
  const eventful = new Set([...events, ...setAside].map((event) => event.blockNumber))
  const marks = [...headers.values()]
    .filter(({ number }) => number === upTo || whole || eventful.has(number))
    .sort((a, b) => a.number - b.number)
    .map(markOf)
  return { kind: 'read', upTo: markOf(last), marks, events, setAside }
}

type Span = { readonly from: number; readonly upTo: number }

/**
 * Returns the logs of the range in the order of the chain, each once, because a node may return a log twice. Throws if
 * the node returned logs of other blocks.
 */
function inOrder(logs: readonly ChainLog[], { from, upTo }: Span): ChainLog[] {
  const places = new Map<string, ChainLog>()
  for (const log of logs) {
    const { blockNumber, logIndex } = log
    if (blockNumber < from || blockNumber > upTo) {
      throw inconsistent(`the node returned a log of block ${blockNumber}, which was not requested`)
    }
    const place = `${blockNumber}/${logIndex}`
    const before = places.get(place)
    if (before !== undefined && !isDeepStrictEqual(before, log)) {
      throw inconsistent(`block ${blockNumber} has two different logs with the number ${logIndex}`)
    }
    places.set(place, log)
  }
  return [...places.values()].sort(
    (a, b) => a.blockNumber - b.blockNumber || a.logIndex - b.logIndex,
  )
}

/** Filter of a log request, without the range of blocks. */
type Filter = Pick<LogFilter, 'address' | 'topics'>
type Found = { readonly logs: ChainLog[]; readonly filters: readonly Filter[] }

function oursOf({ contracts }: ChainReaderOptions): Hex[] {
  const { marketFactory, conditionalTokens, settlement, delegates } = contracts
  return [marketFactory, conditionalTokens, settlement, delegates].map(hexAddress)
}

async function fromLogs(
  options: ChainReaderOptions,
  node: ChainClient,
  { from, upTo }: Span,
): Promise<Found> {
  const span = { fromBlock: hexOf(from), toBlock: hexOf(upTo) }
  const ours = { address: oursOf(options) }
  const logs = await logsOf(node, { ...span, ...ours })
  const ofMarkets = await marketFilters(options, logs)
  for (const filter of ofMarkets) logs.push(...(await logsOf(node, { ...span, ...filter })))
  return { logs, filters: [ours, ...ofMarkets] }
}

/** Returns the filters for logs of unresolved markets, and of markets that the given logs of the factory create. */
async function marketFilters(
  options: ChainReaderOptions,
  logs: readonly ChainLog[],
): Promise<Filter[]> {
  const topics = [MARKET_TOPICS]
  const open = await options.openMarkets(MARKETS_ASKED_MAX + 1)
  const created = createdIn(options.contracts.marketFactory, logs)
  const asked = [...new Set([...open, ...created.map(({ contract }) => contract)])].map(hexAddress)
  if (asked.length > MARKETS_ASKED_MAX) return [{ topics }]
  const filters: Filter[] = []
  for (const address of partsOf(asked, ADDRESSES_MAX)) {
    filters.push({ address: [...address], topics })
  }
  return filters
}

/**
 * Returns our contracts' logs and logs with a topic of a market. Reads them from the receipts of all transactions of
 * the blocks, so that none can be missing.
 */
async function fromReceipts(
  options: ChainReaderOptions,
  node: ChainClient,
  headers: ReadonlyMap<number, Header>,
): Promise<Found> {
  const ours = new Set<string>(oursOf(options))
  const topics = new Set<string | undefined>(MARKET_TOPICS)
  const logs: ChainLog[] = []
  for (const header of headers.values()) {
    const all = await receiptLogsOf(node, header)
    if (all === undefined) throw inconsistent(`receipts of block ${header.number} are missing`)
    for (const log of all) {
      if (ours.has(log.address) || topics.has(log.topics[0])) logs.push(log)
    }
  }
  return { logs, filters: [] }
}

/**
 * Throws if the node did not return all logs. If a block’s Bloom filter indicates a log that was not returned, requests
 * the logs of that block alone to check it.
 */
async function checkFilters(
  node: ChainClient,
  headers: ReadonlyMap<number, Header>,
  logs: readonly ChainLog[],
  filters: readonly Filter[],
): Promise<void> {
  const returned = new Set<string>()
  for (const log of logs) {
    returned.add(`${log.blockNumber}${log.address}`)
    returned.add(`${log.blockNumber}${log.topics[0]}`)
  }
  for (const { number, hash, bloom } of headers.values()) {
    if (bloom === undefined) continue
    const silent = (value: Hex) => !returned.has(`${number}${value}`) && mayContain(bloom, value)
    for (const filter of filters) {
      const suspected = suspectedOf(filter, bloom, silent)
      if (suspected === undefined) continue
      if ((await logsOf(node, { blockHash: hash, ...suspected })).length > 0) {
        throw inconsistent(`the node did not return all logs of block ${number}`)
      }
    }
  }
}

/**
 * Returns the addresses or topics of a filter for which the block's Bloom filter indicates logs, although none were
 * returned.
 */
function suspectedOf(
  { address, topics }: Filter,
  bloom: Hex,
  silent: (value: Hex) => boolean,
): Filter | undefined {
  if (address === undefined) {
    const found = (topics?.[0] ?? []).filter(silent)
    return found.length === 0 ? undefined : { topics: [found] }
  }
  if (topics !== undefined && !topics[0]?.some((topic) => mayContain(bloom, topic)))
    return undefined
  const found = address.filter(silent)
  if (found.length === 0) return undefined
  return topics === undefined ? { address: found } : { address: found, topics }
}

function markOf({ number, hash, atSec }: Header): BlockMark {
  return { number, hash, atSec }
}
