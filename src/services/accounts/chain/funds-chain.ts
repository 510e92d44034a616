/**
 * Follows the funds on a chain in steps, and reads the funds of given owners at a block. Each step reads up to the
 * newest block of one Ethereum node. It reports settled trades and watched owners whose funds may have changed, and
 * detects replaced blocks. If nothing changed, a step costs one request.
 *
 * A step that throws changes nothing: the next step starts at the same block.
 */

import { ancestorOf, checkLinks, follows, inconsistent } from '#chain/block-links.ts'
import { type Header, headerOf, headersOf, numbers } from '#chain/block-reads.ts'
import type { ChainClient } from '#chain/clients.ts'
import { type FundsContracts, makeCallReader, makeFundsRead } from '#chain/funds-read.ts'
import { settlementContract } from '#chain/settlement-contract.ts'
import type { BlockPlace, FundsChain, FundsStep, SettledTrade } from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import { type FundsLogs, makeFundsLogs } from './funds-logs.ts'

type FundsChainOptions = {
  readonly client: ChainClient
  readonly contracts: FundsContracts & { readonly multicall: Address }
}

/**
 * Maximum number of newest blocks that a step examines one by one. From earlier blocks, the step reads only settled
 * trades.
 */
const BLOCKS_LOOKED_AT_MAX = 16
/**
 * Maximum number of requests for logs with which a step finds the owners whose funds changed. If the step needs more,
 * every owner whose funds may have changed is read again.
 */
const OWNER_QUESTIONS_MAX = 24
/**
 * Maximum number of requests per step for trades in earlier blocks, which are not examined one by one. If the step
 * needs more, it reports no trades. All unsettled trades are then checked on the chain one by one.
 */
const RANGE_QUESTIONS_MAX = 64
/**
 * Maximum number of block hashes kept from earlier steps. After a reorg, these hashes are used to find the last common
 * block.
 */
const PASSED_MAX = 512
/**
 * A lagging node may report a newest block below that of the last step. The step then ignores this block, but at most
 * this many steps in a row do so. The next step accepts the lower block.
 */
const LAGS_MAX = 5

/** A `FundsChain` that can also check trades between its steps. */
type SettlingFundsChain = FundsChain & {
  /**
   * Returns for each trade whether it is settled at the given block. Used for trades that were pending before the first
   * step, because no step reports them.
   */
  settledOf(
    trades: readonly Pick<SettledTrade, 'tradeKey' | 'buyOrderHash' | 'sellOrderHash'>[],
    at: BlockPlace,
  ): Promise<boolean[]>
}

type Passed = { readonly number: number; readonly hash: string }
type News = { readonly settled: SettledTrade[]; readonly touched: Set<Address> }

export function makeFundsChain({ client, contracts }: FundsChainOptions): SettlingFundsChain {
  const logs = makeFundsLogs(contracts)
  const calls = makeCallReader(client, contracts.multicall)
  const settlement = settlementContract(client, contracts.settlement)
  /** Blocks of earlier steps, the newest last. */
  let passed: readonly Passed[] = []
  let lags = 0

  async function step(watched: ReadonlySet<Address>): Promise<FundsStep> {
    const head = await headerOf(client, 'latest')
    // All further reads of this step use the Ethereum node that reported this newest block.
    const node = client.pinned()
    if (head === undefined) throw inconsistent('the Ethereum node does not return its newest block')
    const last = passed.at(-1)
    if (last === undefined) return arrive(head, [], quiet())
    if (head.hash === last.hash) {
      lags = 0
      return stepOf(last, quiet())
    }
    const isKnown = passed.every(({ number, hash }) => number !== head.number || hash === head.hash)
    if (head.number < last.number && isKnown && lags < LAGS_MAX) {
      lags += 1
      return stepOf(last, quiet())
    }
    const headers = await newestHeaders(node, head, last)
    const first = headers.get(last.number + 1)
    const isNext =
      head.number > last.number &&
      (first === undefined ? await has(node, last) : await follows(node, first, last))
    if (isNext) return goOn(node, headers, { head, from: passed, watched })

    const ancestor = await ancestorOf(node, passed.toReversed())
    if (ancestor === undefined) return arrive(head, [], quiet(), 0)
    const from = passed.filter(({ number }) => number <= ancestor.number)
    const replaced = await newestHeaders(node, head, ancestor)
    return goOn(node, replaced, { head, from, watched, rewoundTo: ancestor.number + 1 })
  }

  /**
   * Reads the blocks after the last known block, up to the newest block. The last known block must still be on the
   * chain.
   */
  async function goOn(
    node: ChainClient,
    headers: ReadonlyMap<number, Header>,
    way: {
      readonly head: Header
      readonly from: readonly Passed[]
      readonly watched: ReadonlySet<Address>
      readonly rewoundTo?: number
    },
  ): Promise<FundsStep> {
    const { head, from, watched, rewoundTo } = way
    const last = from.at(-1)
    const newest = [...headers.values()].sort((a, b) => a.number - b.number)
    const [oldest] = newest
    if (last === undefined)
      throw new TypeError('reading further blocks requires a last known block, but none is known')
    if (oldest === undefined) return arrive(head, from, quiet(), rewoundTo)
    checkLinks(headers, oldest.number, head.number)
    const news = quiet()
    if (oldest.number > last.number + 1) {
      const range = { from: last.number + 1, upTo: oldest.number - 1 }
      const settled = await logs.settledBetween(node, range, { left: RANGE_QUESTIONS_MAX })
      if (settled === undefined) return arrive(head, [], quiet(), 0)
      for (const trade of settled) news.settled.push(trade)
      for (const owner of watched) news.touched.add(owner)
    }
    await lookAt({ node, logs }, newest, watched, news)
    return arrive(head, [...from, ...newest.slice(0, -1)], news, rewoundTo)
  }

  function arrive(
    head: Header,
    before: readonly Passed[],
    news: News,
    rewoundTo?: number,
  ): FundsStep {
    const place = { number: head.number, hash: head.hash }
    const known = before.filter(({ number }) => number < head.number)
    passed = [...known.map(({ number, hash }) => ({ number, hash })), place].slice(-PASSED_MAX)
    lags = 0
    return stepOf(place, news, rewoundTo)
  }

  return {
    chainId: client.chainId,
    step,
    read: makeFundsRead(calls, contracts),
    async settledOf(trades, at) {
      const words = await calls.wordsOf(
        trades.map(({ tradeKey, buyOrderHash, sellOrderHash }) =>
          settlement.isSettledCall(tradeKey, buyOrderHash, sellOrderHash),
        ),
        at,
      )
      return words.map((word) => word !== 0n)
    },
  }
}

function quiet(): News {
  return { settled: [], touched: new Set() }
}

function stepOf({ number, hash }: Passed, news: News, rewoundTo?: number): FundsStep {
  return {
    block: number,
    blockHash: hash,
    settled: news.settled,
    touched: [...news.touched],
    ...(rewoundTo === undefined ? {} : { rewoundTo }),
  }
}

async function has(node: ChainClient, { number, hash }: Passed): Promise<boolean> {
  return (await headerOf(node, number))?.hash === hash
}

/** Returns the headers of the newest blocks after a known block, at most `BLOCKS_LOOKED_AT_MAX`. */
async function newestHeaders(
  node: ChainClient,
  head: Header,
  { number }: Passed,
): Promise<Map<number, Header>> {
  const from = Math.max(number + 1, head.number - BLOCKS_LOOKED_AT_MAX + 1)
  if (from > head.number) return new Map()
  const headers = await headersOf(node, numbers(from, head.number - 1))
  if (headers === undefined)
    throw inconsistent(`the Ethereum node did not return all blocks before block ${head.number}`)
  headers.set(head.number, head)
  return headers
}

/** Adds to `news` the trades that these blocks settled, and the watched owners whose funds may have changed. */
async function lookAt(
  { node, logs }: { readonly node: ChainClient; readonly logs: FundsLogs },
  headers: readonly Header[],
  watched: ReadonlySet<Address>,
  news: News,
): Promise<void> {
  const settled = await Promise.all(headers.map((header) => logs.settledIn(node, header)))
  for (const trade of settled.flat()) news.settled.push(trade)
  for (const { buyer, seller } of news.settled) {
    for (const owner of [buyer, seller]) if (watched.has(owner)) news.touched.add(owner)
  }
  const budget = { left: OWNER_QUESTIONS_MAX }
  const rest = [...watched].filter((owner) => !news.touched.has(owner))
  const touched = await Promise.all(
    headers.map((header) => logs.touchedIn(node, header, rest, budget)),
  )
  for (const owner of touched.flat()) news.touched.add(owner)
}
