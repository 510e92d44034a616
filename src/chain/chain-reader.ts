/**
 * Reads ranges of blocks for the indexer. What it answers for a range belongs together: it comes from
 * one node, the blocks are linked to the one before by their hashes, every log names a hash that was
 * seen, and near the head each header's filter is asked whether logs are missing. Providers put many
 * nodes behind one address, and the one that lags says "no logs" instead of "not yet".
 */

import type { Hex } from 'viem'
import type { BlockMark, ChainEvent, MoveKind } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import { type Address, toAddress, ZERO_ADDRESS } from '#domain/ids.ts'
import { mayContain } from './bloom.ts'
import { hexAddress } from './call.ts'
import type { ChainLog } from './chain-log.ts'
import { asked, type ChainClient } from './clients.ts'
import { type TokenEvent, tokenEvent } from './conditional-tokens.ts'
import { MARKET_TOPICS, marketContract, resolutionEvent } from './market-contract.ts'
import { factoryEvent, quickDescription, quickQuestion } from './market-factory.ts'
import { positionIdOf } from './position-id.ts'
import { settlementEvent } from './settlement-contract.ts'

export type ChainReaderOptions = {
  readonly client: ChainClient
  readonly contracts: {
    readonly marketFactory: Address
    readonly conditionalTokens: Address
    readonly settlement: Address
    readonly stablecoin: Address
  }
  /** Which of these addresses are markets of the factory, of blocks before the range. */
  readonly knownMarkets: (addresses: readonly Address[]) => Promise<readonly Address[]>
}

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

export type ChainReader = {
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
/** Requests for headers under way at once. */
const HEADERS_AT_ONCE = 8

type Header = BlockMark & { readonly parentHash: string; readonly bloom: Hex | undefined }

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

async function eventsOf(
  options: ChainReaderOptions,
  node: ChainClient,
  logs: readonly ChainLog[],
  headers: ReadonlyMap<number, Header>,
): Promise<ChainEvent[]> {
  const { contracts } = options
  const fixed = new Set([
    contracts.marketFactory,
    contracts.conditionalTokens,
    contracts.settlement,
  ])
  const created = logs.flatMap((log) =>
    log.address === contracts.marketFactory ? (factoryEvent(log) ?? []) : [],
  )
  const markets = new Set(
    created.flatMap((event) =>
      event.type === 'MarketCreated' || event.type === 'QuickMarketCreated' ? [event.market] : [],
    ),
  )
  const others = new Set(logs.map((log) => log.address).filter((each) => !fixed.has(each)))
  for (const known of await options.knownMarkets([...others])) markets.add(known)

  const events: ChainEvent[] = []
  for (const [index, log] of logs.entries()) {
    const atSec = headers.get(log.blockNumber)?.atSec ?? 0
    if (log.address === contracts.marketFactory) {
      events.push(...(await fromFactory(options, node, log, atSec)))
    } else if (log.address === contracts.conditionalTokens) {
      events.push(...fromTokens(contracts, log, atSec, () => explanation(logs, index)))
    } else if (log.address === contracts.settlement) {
      events.push(...fromSettlement(log, atSec))
    } else if (markets.has(log.address)) {
      events.push(...fromMarket(log, atSec))
    }
  }
  return events
}

type At = {
  readonly blockNumber: number
  readonly logIndex: number
  readonly txHash: string
  readonly atSec: number
}

function atOf({ blockNumber, logIndex, txHash }: ChainLog, atSec: number): At {
  return { blockNumber, logIndex, txHash, atSec }
}

async function fromFactory(
  { client, contracts }: ChainReaderOptions,
  node: ChainClient,
  log: ChainLog,
  atSec: number,
): Promise<ChainEvent[]> {
  const event = factoryEvent(log)
  if (event === undefined) return []
  const at = atOf(log, atSec)
  if (event.type === 'QuickMarketResolved') {
    const { marketId, winningOutcome, startPrice, endPrice, source } = event
    return [{ type: event.type, ...at, marketId, winningOutcome, startPrice, endPrice, source }]
  }
  if (event.type !== 'MarketCreated' && event.type !== 'QuickMarketCreated') return []
  const positions = [
    positionIdOf(contracts.stablecoin, event.marketId, 0),
    positionIdOf(contracts.stablecoin, event.marketId, 1),
  ] as const
  const common = {
    id: event.marketId,
    contractAddress: event.market,
    chainId: client.chainId,
    createdAt: atSec,
  }
  if (event.type === 'MarketCreated') {
    const { question, description, category, maker, expirationSec: expiration } = event
    const words = { question, description, category, maker, expiration, quick: false }
    return [{ type: 'MarketCreated', ...at, market: { ...common, ...words }, positions }]
  }
  const { asset, startSec, endSec, startPrice, source } = event
  // The event does not say who created it; the contract does.
  const { maker } = await marketContract(node, event.market).terms()
  const quick = { asset, startSec, endSec, startPrice, source }
  const words = {
    question: quickQuestion(asset),
    description: quickDescription(quick),
    category: 'general',
    maker,
    expiration: endSec,
    quick: true,
  } as const
  return [{ type: 'MarketCreated', ...at, market: { ...common, ...words }, positions, quick }]
}

function fromMarket(log: ChainLog, atSec: number): ChainEvent[] {
  const event = resolutionEvent(log)
  if (event === undefined || event.type === 'PayoutReportFailed') return []
  const at = atOf(log, atSec)
  const { marketId } = event
  switch (event.type) {
    case 'ResolutionProposed': {
      const { assertionId, proposer, asserter, bond, assertedAtSec, windowEndsAtSec } = event
      const outcome = event.outcome ? 0 : 1
      const told = { assertionId, proposer, asserter, outcome, bond } as const
      return [{ type: event.type, ...at, marketId, ...told, assertedAtSec, windowEndsAtSec }]
    }
    case 'MarketResolved': {
      const assertionId = /^0x0+$/.test(event.assertionId) ? '' : event.assertionId
      return [
        { type: event.type, ...at, marketId, assertionId, winningOutcome: event.winningOutcome },
      ]
    }
    case 'MarketSettled': {
      const { settler, winningOutcome } = event
      return [{ type: event.type, ...at, marketId, settler, winningOutcome }]
    }
    default:
      return [{ type: event.type, ...at, marketId, assertionId: event.assertionId }]
  }
}

function fromSettlement(log: ChainLog, atSec: number): ChainEvent[] {
  const event = settlementEvent(log)
  if (event === undefined) return []
  const at = atOf(log, atSec)
  switch (event.type) {
    case 'TradeSettled': {
      const { blockHash: _, ...told } = event
      return [{ ...told, ...at }]
    }
    case 'TradeRejected':
    case 'OrderWithdrawn':
    case 'OrdersWithdrawn': {
      const { blockHash: _, ...told } = event
      return [{ ...told, ...at }]
    }
    default:
      return []
  }
}

function fromTokens(
  contracts: ChainReaderOptions['contracts'],
  log: ChainLog,
  atSec: number,
  explained: () => TokenEvent['type'] | undefined,
): ChainEvent[] {
  const event = tokenEvent(log)
  if (event === undefined) return []
  const at = atOf(log, atSec)
  switch (event.type) {
    case 'TokensMoved': {
      const kind = kindOf(event, contracts.settlement, explained)
      const { from, to, moves } = event
      return moves.map(({ positionId, amount }, part) => ({
        type: 'TokensMoved',
        ...at,
        part,
        positionId,
        from,
        to,
        amount,
        kind,
      }))
    }
    case 'PositionSplit':
    case 'PositionsMerged':
    case 'PayoutRedeemed': {
      const plain =
        event.collateral === contracts.stablecoin && /^0x0+$/.test(event.parentCollectionId)
      if (!plain) return []
      const redeems = event.type === 'PayoutRedeemed'
      return [
        {
          type: 'TokensConverted',
          ...at,
          kind: redeems ? 'redeem' : event.type === 'PositionSplit' ? 'split' : 'merge',
          holder: event.holder,
          marketId: event.conditionId,
          amount: redeems ? event.payout : event.amount,
          indexSets: redeems ? event.indexSets : event.partition,
        },
      ]
    }
    case 'ConditionResolved': {
      const { conditionId: marketId, payouts } = event
      return [{ type: 'ConditionResolved', ...at, marketId, payouts }]
    }
    default:
      return []
  }
}

function kindOf(
  moved: TokenEvent & { type: 'TokensMoved' },
  settlement: Address,
  explained: () => TokenEvent['type'] | undefined,
): MoveKind {
  if (moved.from !== ZERO_ADDRESS && moved.to !== ZERO_ADDRESS) {
    return moved.operator === settlement ? 'trade' : 'transfer'
  }
  const made = moved.from === ZERO_ADDRESS
  const why = explained()
  if (made && moved.batch && why === 'PositionSplit') return 'split'
  if (!made && moved.batch && why === 'PositionsMerged') return 'merge'
  if (!made && !moved.batch && why === 'PayoutRedeemed') return 'redeem'
  return made ? 'mint' : 'burn'
}

/** What the tokens say behind these movements, in the same transaction: why they moved. */
function explanation(logs: readonly ChainLog[], index: number): TokenEvent['type'] | undefined {
  const moved = logs[index]
  for (let next = index + 1; next < logs.length; next++) {
    const log = logs[next]
    if (log === undefined || moved === undefined || log.txHash !== moved.txHash) return undefined
    const event = log.address === moved.address ? tokenEvent(log) : undefined
    if (event !== undefined && event.type !== 'TokensMoved') return event.type
  }
  return undefined
}

type LogFilter = {
  readonly fromBlock?: Hex
  readonly toBlock?: Hex
  readonly blockHash?: string
  readonly address?: readonly Hex[]
  readonly topics?: readonly (readonly Hex[])[]
}

type RpcLog = {
  readonly address: Hex
  readonly topics: readonly Hex[]
  readonly data: Hex
  readonly blockNumber: Hex | null
  readonly blockHash: Hex | null
  readonly transactionHash: Hex | null
  readonly logIndex: Hex | null
}

async function logsOf(node: ChainClient, filter: LogFilter): Promise<ChainLog[]> {
  const request = node.viem.request({
    method: 'eth_getLogs',
    params: [filter as never],
  }) as Promise<unknown>
  const found = (await asked(request)) as RpcLog[]
  return found.flatMap((log) => {
    const { blockNumber, blockHash, transactionHash, logIndex } = log
    if (blockNumber === null || blockHash === null) return []
    if (transactionHash === null || logIndex === null) return []
    return [
      {
        address: toAddress(log.address),
        topics: log.topics,
        data: log.data,
        blockNumber: Number(blockNumber),
        blockHash,
        txHash: transactionHash,
        logIndex: Number(logIndex),
      },
    ]
  })
}

/** The headers of these blocks; undefined when the node lacks one of them. */
async function headersOf(
  node: ChainClient,
  wanted: readonly number[],
): Promise<Map<number, Header> | undefined> {
  const headers = new Map<number, Header>()
  for (let start = 0; start < wanted.length; start += HEADERS_AT_ONCE) {
    const part = wanted.slice(start, start + HEADERS_AT_ONCE)
    for (const header of await Promise.all(part.map((number) => headerOf(node, number)))) {
      if (header === undefined) return undefined
      headers.set(header.number, header)
    }
  }
  return headers
}

type RpcBlock = {
  readonly number: Hex | null
  readonly hash: Hex | null
  readonly parentHash: Hex
  readonly timestamp: Hex
  readonly logsBloom?: Hex | null
}

async function headerOf(node: ChainClient, block: number | 'latest'): Promise<Header | undefined> {
  const request = node.viem.request({
    method: 'eth_getBlockByNumber',
    params: [block === 'latest' ? block : hexOf(block), false],
  }) as Promise<unknown>
  const found = (await asked(request)) as RpcBlock | null
  if (found === null || found.number === null || found.hash === null) return undefined
  return {
    number: Number(found.number),
    hash: found.hash,
    parentHash: found.parentHash,
    atSec: Number(found.timestamp),
    bloom: found.logsBloom ?? undefined,
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

function hexOf(value: number): Hex {
  return `0x${value.toString(16)}`
}
