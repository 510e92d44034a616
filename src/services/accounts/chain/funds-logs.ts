/**
 * Reads from the logs of a block which trades it settled and which owners’ funds it may have changed.
 *
 * The Bloom filter in a block’s header can show that the block has no matching log. In this case, no request for logs
 * is sent, so most blocks cost no request beyond the header. The filter also selects owners whose funds may have
 * changed.
 *
 * The logs of the selected owners are requested in small groups of owners. If there are more than `GROUPS_MAX` groups,
 * all logs of the stablecoin and of the outcome tokens are requested instead. If the answer is too long for a node, or
 * the step’s budget of requests is used up, all selected owners count as changed. This only causes unnecessary reads,
 * so third parties who write many logs do no harm.
 *
 * Settled trades are never guessed: if a block has too many logs for one answer, its receipts are read.
 */

import type { Hex } from 'viem'
import { inconsistent } from '#chain/block-links.ts'
import { type Header, hexOf, type LogFilter, logsOf, receiptLogsOf } from '#chain/block-reads.ts'
import { bitsOf, hasBits, mayContain } from '#chain/bloom.ts'
import { hexAddress } from '#chain/call.ts'
import { type ChainLog, topicsOf } from '#chain/chain-log.ts'
import { type ChainClient, isTooMuch } from '#chain/clients.ts'
import type { FundsContracts } from '#chain/funds-read.ts'
import { settlementEvent } from '#chain/settlement-contract.ts'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { settlementAbi } from '#contracts/artifacts/Settlement.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import type { SettledTrade } from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import { partsOf } from '#domain/parts-of.ts'

/** Number of requests that a step may still send. */
type AskingBudget = { left: number }

export type FundsLogs = {
  /** Returns the trades that a block settled. */
  settledIn(node: ChainClient, header: Header): Promise<SettledTrade[]>
  /**
   * Returns the trades that a range of blocks settled; undefined if the budget does not suffice or one block has too
   * many logs.
   */
  settledBetween(
    node: ChainClient,
    range: { readonly from: number; readonly upTo: number },
    budget: AskingBudget,
  ): Promise<SettledTrade[] | undefined>
  /** Returns the given owners whose funds the block may have changed. */
  touchedIn(
    node: ChainClient,
    header: Header,
    owners: Iterable<Address>,
    budget: AskingBudget,
  ): Promise<readonly Address[]>
}

/** Maximum number of owners per log request. */
const OWNERS_ASKED_MAX = 200
/**
 * Maximum number of groups of owners whose logs are requested separately, with three requests per group. With more
 * groups, all logs of the stablecoin and of the outcome tokens are requested.
 */
const GROUPS_MAX = 2
/** Initial number of blocks per request for settled trades. After an answer that is too long, the number is reduced. */
const RANGE_BLOCKS_MAX = 1_000

const TRADE_SETTLED = topicOf(topicsOf(settlementAbi, ['TradeSettled']))
const TRANSFER = topicOf(topicsOf(testUSDCAbi, ['Transfer']))
const APPROVAL = topicOf(topicsOf(testUSDCAbi, ['Approval']))
const SINGLE = topicOf(topicsOf(conditionalTokensAbi, ['TransferSingle']))
const BATCH = topicOf(topicsOf(conditionalTokensAbi, ['TransferBatch']))
const FOR_ALL = topicOf(topicsOf(conditionalTokensAbi, ['ApprovalForAll']))

/** For each event of the stablecoin and of the outcome tokens: the indices of the topics that contain an owner. */
const OWNER_PLACES = new Map<Hex, readonly number[]>([
  [TRANSFER, [1, 2]],
  [APPROVAL, [1]],
  [SINGLE, [2, 3]],
  [BATCH, [2, 3]],
  [FOR_ALL, [1]],
])

export function makeFundsLogs(contracts: FundsContracts): FundsLogs {
  const settlement = hexAddress(contracts.settlement)
  const stablecoin = hexAddress(contracts.stablecoin)
  const tokens = hexAddress(contracts.conditionalTokens)
  const both = [stablecoin, tokens]
  const ofTrades = { address: [settlement], topics: [[TRADE_SETTLED]] }
  const ownerBits = makeOwnerBits()

  return {
    async settledIn(node, header) {
      if (header.isEmpty) return []
      const bloom = bloomOf(header)
      if (bloom !== undefined) {
        if (!mayContain(bloom, settlement) || !mayContain(bloom, TRADE_SETTLED)) return []
      }
      return settledOf(await wholeLogs(node, header, ofTrades))
    },

    async settledBetween(node, { from, upTo }, budget) {
      const settled: SettledTrade[] = []
      let blocks = RANGE_BLOCKS_MAX
      for (let start = from; start <= upTo; ) {
        if (budget.left <= 0) return undefined
        budget.left -= 1
        const end = Math.min(start + blocks - 1, upTo)
        const span = { fromBlock: hexOf(start), toBlock: hexOf(end) }
        try {
          const found = settledOf(await logsOf(node, { ...span, ...ofTrades }))
          for (const trade of found) settled.push(trade)
        } catch (error) {
          // If even a single block has too many logs, return undefined. Reading the receipts of an old block would cost
          // too much.
          if (!isTooMuch(error)) throw error
          if (blocks === 1) return undefined
          blocks = Math.max(1, blocks >> 2)
          continue
        }
        start = end + 1
      }
      return settled
    },

    async touchedIn(node, header, owners, budget) {
      const perhaps = affirmed(header, owners)
      if (perhaps.length === 0) return perhaps
      const filters = filtersOf(perhaps)
      if (filters.length > budget.left) return perhaps
      budget.left -= filters.length
      try {
        const found = await Promise.all(
          filters.map((filter) => logsOf(node, { blockHash: header.hash, ...filter })),
        )
        const named = new Set(found.flat().flatMap(namedIn))
        return perhaps.filter((owner) => named.has(topicOfOwner(owner)))
      } catch (error) {
        if (isTooMuch(error)) return perhaps
        throw error
      }
    },
  }

  /** Returns the owners whose funds the block may have changed according to the Bloom filter in its header. */
  function affirmed(header: Header, owners: Iterable<Address>): Address[] {
    if (header.isEmpty) return []
    const bloom = bloomOf(header)
    if (bloom === undefined) return [...owners]
    const has = (address: Hex, topics: readonly Hex[]): boolean =>
      mayContain(bloom, address) && topics.some((topic) => mayContain(bloom, topic))
    if (!has(stablecoin, [TRANSFER, APPROVAL]) && !has(tokens, [SINGLE, BATCH, FOR_ALL])) return []
    const found: Address[] = []
    for (const owner of owners) if (hasBits(bloom, ownerBits(owner))) found.push(owner)
    return found
  }

  function filtersOf(owners: readonly Address[]): LogFilter[] {
    if (owners.length > GROUPS_MAX * OWNERS_ASKED_MAX) {
      return [{ address: both, topics: [[...OWNER_PLACES.keys()]] }]
    }
    const filters: LogFilter[] = []
    for (const some of partsOf(owners, OWNERS_ASKED_MAX)) {
      const group = some.map(topicOfOwner)
      filters.push(
        { address: both, topics: [[TRANSFER, APPROVAL, FOR_ALL], group] },
        { address: both, topics: [[TRANSFER, SINGLE, BATCH], null, group] },
        { address: [tokens], topics: [[SINGLE, BATCH], null, null, group] },
      )
    }
    return filters
  }

  function settledOf(logs: readonly ChainLog[]): SettledTrade[] {
    return logs.flatMap((log) => {
      const event = log.address === contracts.settlement ? settlementEvent(log) : undefined
      if (event?.type !== 'TradeSettled') return []
      const { tradeKey, blockNumber: block, buyer, seller, buyHash, sellHash } = event
      return [{ tradeKey, block, buyer, seller, buyOrderHash: buyHash, sellOrderHash: sellHash }]
    })
  }
}

/** Maximum number of owners whose positions in the Bloom filter (three small numbers each) are cached. */
const BITS_KEPT_MAX = 100_000

/** Returns the Bloom filter in a block's header; undefined if it is missing or empty: some chains never fill it. */
function bloomOf({ bloom }: Header): Hex | undefined {
  return bloom === undefined || /^0x0*$/.test(bloom) ? undefined : bloom
}

function namedIn({ topics }: ChainLog): string[] {
  const places = OWNER_PLACES.get(topics[0] ?? '0x') ?? []
  return places.flatMap((place) => topics[place] ?? [])
}

function topicOfOwner(owner: Address): Hex {
  return `0x${owner.slice(2).padStart(64, '0')}`
}

function topicOf(topics: ReadonlyMap<string, string>): Hex {
  const [topic] = topics.keys()
  if (topic === undefined) throw new TypeError('the ABI does not contain the event to read')
  return topic as Hex
}

/**
 * Returns the block’s logs that match the filter. If they are too many for one answer, returns all logs from the
 * block’s receipts.
 */
async function wholeLogs(
  node: ChainClient,
  header: Header,
  filter: LogFilter,
): Promise<ChainLog[]> {
  try {
    return await logsOf(node, { blockHash: header.hash, ...filter })
  } catch (error) {
    if (!isTooMuch(error)) throw error
    const all = await receiptLogsOf(node, header)
    if (all === undefined) throw inconsistent(`receipts of block ${header.number} are missing`)
    return all
  }
}

/**
 * Makes a function that returns an owner’s positions in a Bloom filter. The positions are cached, because computing
 * them costs a hash.
 */
function makeOwnerBits(): (owner: Address) => readonly number[] {
  const bits = new Map<Address, readonly number[]>()
  return (owner) => {
    const known = bits.get(owner)
    if (known !== undefined) return known
    if (bits.size >= BITS_KEPT_MAX) bits.clear()
    const fresh = bitsOf(topicOfOwner(owner))
    bits.set(owner, fresh)
    return fresh
  }
}
